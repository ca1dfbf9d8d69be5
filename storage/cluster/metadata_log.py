"""Reads a cluster's metadata log from its directory: the newest snapshot, then the records behind it.

    __cluster_metadata-0/00000000000000001234-0000000007.checkpoint     snapshot: all state below offset 1234
    __cluster_metadata-0/00000000000000001200.log                       records, from offset 1200 on

A snapshot has the format of a log file. If one cannot be read to its footer, an older one is used. A
controller may be running: it appends, makes snapshots and removes old files meanwhile. Which records a quorum of
several controllers has committed is not on disk; all records that are whole count. Follows KIP-630 and KIP-631.

Threads: any; everything happens under one lock.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from threading import Lock

from offsetfs.storage import checkpoint, files
from offsetfs.storage.clock import Clock
from offsetfs.storage.cluster.cluster_image import ClusterImage
from offsetfs.storage.errors import InvalidCheckpoint, InvalidConfig, StorageError
from offsetfs.storage.names import parse_segment_name, segment_name
from offsetfs.storage.records.format import batch_chain
from offsetfs.storage.records.format.batch import Batch

METADATA_DIRECTORY = "__cluster_metadata-0"
CHECK_INTERVAL_S = 1.0

_SNAPSHOT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint\Z")
_SNAPSHOT_FOOTER = 4
_CONTROL_KEY_SIZE = 4  # i16 version, i16 type
_OFFSET_DIGITS = 20


class MetadataLog:
    """The metadata log in one directory, and the state of the cluster that it describes."""

    def __init__(self, path: str, clock: Clock) -> None:
        """`path`: the directory `__cluster_metadata-0`. Nothing is read before the first `refresh`."""
        self.path = path
        self.problem: StorageError | OSError | None = None
        """Why the image lacks the latest records, or is empty: what the last `refresh` could not read."""
        self._clock = clock
        self._lock = Lock()
        self._next_check = 0.0
        self._image = ClusterImage()
        self._next_offset: int | None = None  # of the next record to replay; None before anything was read
        self._file: tuple[str, int, int] | None = None  # the active file as far as it was read: name, inode, position
        self._unreadable: StorageError | None = None  # the first record that was passed over

    def refresh(self) -> ClusterImage:
        """Return the image with the records that were written since. Looks at most once a second; never raises."""
        with self._lock:
            if self._clock.monotonic() >= self._next_check:
                self._next_check = self._clock.monotonic() + CHECK_INTERVAL_S
                try:
                    self._read()
                    self.problem = self._unreadable
                except (StorageError, OSError) as error:
                    self.problem = error
            return self._image

    # --- reading -----------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        names = files.names(self.path)
        segments = sorted(parsed[0] for name in names if (parsed := parse_segment_name(name)) and parsed[1] == ".log")
        if self._next_offset is None or (segments and segments[0] > self._next_offset) or self._was_cut():
            self._begin(names)
        assert self._next_offset is not None
        for index, base in enumerate(segments):
            if index + 1 < len(segments) and segments[index + 1] <= self._next_offset:
                continue
            if base > self._next_offset:
                reason = f"metadata records {self._next_offset} to {base - 1} are missing or damaged"
                raise StorageError(reason, path=self.path)
            self._read_segment(segment_name(base, ".log"))

    def _was_cut(self) -> bool:
        """Whether the last-read file was replaced or became shorter: a controller truncated the log."""
        if self._file is None:
            return False
        name, inode, position = self._file
        try:
            status = files.status(os.path.join(self.path, name))
        except FileNotFoundError:
            return False
        return status.st_ino != inode or status.st_size < position

    def _begin(self, names: list[str]) -> None:
        """Start from the newest snapshot that can be read, or from nothing."""
        problem: StorageError | None = None
        self._file = self._unreadable = None
        for name in sorted(filter(_SNAPSHOT.match, names), reverse=True):
            try:
                self._image, self._next_offset = self._snapshot(name), int(name[:_OFFSET_DIGITS])
                return
            except FileNotFoundError:
                continue
            except StorageError as error:
                problem = problem or error
        first = min((parsed[0] for name in names if (parsed := parse_segment_name(name))), default=0)
        if first > 0:
            raise problem or StorageError(f"there is no snapshot, and the log begins at {first}", path=self.path)
        self._image, self._next_offset = ClusterImage(), 0

    def _snapshot(self, name: str) -> ClusterImage:
        """Return the state in a snapshot; `StorageError` unless it is whole."""
        path, image, is_whole = os.path.join(self.path, name), ClusterImage(), False
        with files.open_file(path) as file:
            for batch in batch_chain.batches(file, 0, file.size()):
                self._replay(image, batch, 0)
                is_whole = is_whole or _has_footer(batch)
        if not is_whole:
            raise StorageError("the snapshot has no footer", path=path)
        return image

    def _read_segment(self, name: str) -> None:
        """Replay what is whole of a log file, from where the last reading of it ended."""
        position = self._file[2] if self._file is not None and self._file[0] == name else 0
        assert self._next_offset is not None
        with files.open_file(os.path.join(self.path, name)) as file:
            status = file.stat()
            try:
                for batch in batch_chain.batches(file, position, status.st_size):
                    self._replay(self._image, batch, self._next_offset)
                    self._next_offset = max(self._next_offset, batch.header.next_offset)
                    position = (batch.position or 0) + batch.header.size
            except StorageError:
                pass  # being written, or damaged: then the next segment begins beyond `_next_offset`
            self._file = (name, status.st_ino, position)

    def _replay(self, image: ClusterImage, batch: Batch, offset_min: int) -> None:
        if not batch.header.is_control:
            from offsetfs.storage.cluster.metadata_replay import replay  # loads the schemas; few directories need it

            failure = replay(image, batch, offset_min)
            self._unreadable = self._unreadable or failure


def _has_footer(batch: Batch) -> bool:
    if not batch.header.is_control:
        return False
    keys = [record.key for record in batch.records()]
    return any(key is not None and len(key) >= _CONTROL_KEY_SIZE and key[3] == _SNAPSHOT_FOOTER for key in keys)


def holds_metadata_log(path: str) -> bool:
    """Whether a directory has the metadata log of a cluster in it."""
    return files.is_directory(os.path.join(path, METADATA_DIRECTORY))


def open_beside(path: str, given: str | None, clock: Clock) -> MetadataLog | None:
    """Return the metadata log for the log directory `path`: that in `given`, else one beside the data, or None.

    `InvalidConfig` when there is none in `given`, or it is of another cluster.
    """
    above = path if given is None else given
    is_itself = os.path.basename(above.rstrip("/")) == METADATA_DIRECTORY
    directory = above if is_itself else os.path.join(above, METADATA_DIRECTORY)
    if not files.is_directory(directory):
        if given is not None:
            raise InvalidConfig(f"metadata.log.dir: there is no {METADATA_DIRECTORY}", path=given)
        return None
    _check_cluster(path, os.path.dirname(directory.rstrip("/")))
    return MetadataLog(directory, clock)


def _check_cluster(path: str, beside: str) -> None:
    ours, theirs = (_identity(directory).get("cluster.id") for directory in (path, beside))
    if ours is not None and theirs is not None and ours != theirs:
        raise InvalidConfig(f"metadata.log.dir: is of cluster {theirs}, and {path} is of cluster {ours}", path=beside)


def _identity(directory: str) -> Mapping[str, str]:
    try:
        return checkpoint.read_properties(os.path.join(directory, checkpoint.META_PROPERTIES)) or {}
    except (InvalidCheckpoint, OSError):
        return {}


def node_id(directory: str) -> str | None:
    """Return the id of the broker that a log directory belongs to; None where `meta.properties` does not name it."""
    identity = _identity(directory)
    return identity.get("node.id", identity.get("broker.id"))
