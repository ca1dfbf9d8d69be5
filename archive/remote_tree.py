"""An archive as the directory tree that it was made of: what `storage.files` reads where a path is a URL.

    s3://bucket/kafka/                          a partition for each name below the URL: one listing
        .kafka_cleanshutdown                    an archive has whole batches only: nothing is to be recovered
        .offsetfs-topics.json                   the settings of topics, from the document of the archive
        orders-0/                               its manifest is read when the partition is used first
            00000000000000000000.log            in blocks, from the parts of the segment
            ….index .timeindex .txnindex .snapshot    from the side object of the segment
            leader-epoch-checkpoint, partition.metadata

The listing and the manifests are read again when they are used and `refresh_s` old, by threads of this module: no
reader waits for it. A manifest with a lower number than a known one is ignored.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import threading
import time
from typing import Any

from offsetfs.archive import marker
from offsetfs.archive.block_cache import BlockCache
from offsetfs.archive.block_fetcher import BlockFetcher, DamagedBlock, WorkerThreads
from offsetfs.archive.manifest import PartitionManifest
from offsetfs.archive.numbered_documents import Numbered, NumberedDocuments
from offsetfs.archive.object_store import ObjectStore, StoreSettings
from offsetfs.archive.remote_file import BytesFile
from offsetfs.archive.remote_segment import RemoteSegment, SideObjects, file_status, inode_of
from offsetfs.storage import TopicPartition
from offsetfs.storage.files import File

REFRESH_S = 10.0
"""The age at which a listing or a manifest is read again."""

_REFRESH_THREADS = 2
_CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
_TOPICS = ".offsetfs-topics.json"
_EPOCHS = "leader-epoch-checkpoint"
_METADATA = "partition.metadata"

_log = logging.getLogger(__name__)


class RemoteTree:
    """The names below the URL of an archive, for `files.attach`. Thread-safe."""

    def __init__(
        self, url: str, settings: StoreSettings, cache: BlockCache | None, *, refresh_s: float = REFRESH_S
    ) -> None:
        """Read the mark, the listing and the settings: three requests. OSError if the place is no archive."""
        self._settings = settings
        self._store = ObjectStore(url, settings)
        self.url = self._store.url
        marker.check(self._store)
        self.refresh_s = refresh_s
        self.threads = WorkerThreads(_REFRESH_THREADS)
        self.fetcher = BlockFetcher(self.store, cache)
        self.sides = SideObjects(self.store, cache)
        self._lock = threading.Lock()
        self._partitions: dict[str, _RemotePartition] = {}
        self._is_refreshing = False
        self._files: dict[str, bytes] = {}
        self._names: set[str] = set()
        self._changed_ns = 0
        self._number = 0
        self._checked = 0.0
        self._list()

    def store(self) -> ObjectStore:
        """Return the objects, through connections of this process."""
        if not self._store.is_of_this_process:
            self._store = ObjectStore(self.url, self._settings)
        return self._store

    # --- the root ----------------------------------------------------------------------------------------------------

    def _list(self) -> None:
        names = {name for name in self.store().children() if TopicPartition.parse_or_none(name)}
        document = NumberedDocuments(self.store(), "").copy()
        with self._lock:
            self._checked = time.monotonic()
            if names != self._names:
                self._names = names
                self._changed_ns = max(self._changed_ns + 1, time.time_ns())
            if document is not None and document.number > self._number:
                self._number = document.number
                self._files = _root_files(document.content)
            elif not self._files:
                self._files = _root_files({})
        for name in self._partitions.keys() - names:
            self._partitions.pop(name, None)

    def _refreshed(self) -> None:
        """Begin to list the archive again if that is due."""
        if time.monotonic() < self._checked + self.refresh_s:
            return
        with self._lock:
            if self._is_refreshing:
                return
            self._is_refreshing = True
        if not self.threads.submit(self._list_again):
            self._is_refreshing = False

    def _list_again(self) -> None:
        try:
            self._list()
        except OSError as error:
            self._checked = time.monotonic()
            _log.warning("%s: %s; readers see the earlier names", error.filename or self.url, error.strerror)
        finally:
            self._is_refreshing = False

    # --- names -------------------------------------------------------------------------------------------------------

    def _parts(self, path: str) -> list[str]:
        return [name for name in path[len(self.url) :].split("/") if name]

    def _partition(self, path: str, name: str) -> _RemotePartition:
        if name not in self._names:
            # An archive that is written meanwhile may have it; a name that is looked up in vain costs no request.
            self._refreshed()
            raise FileNotFoundError(errno.ENOENT, "there is no such partition in the archive", path)
        with self._lock:
            return self._partitions.setdefault(name, _RemotePartition(self, name))

    def names(self, path: str) -> dict[str, int]:
        parts = self._parts(path)
        if not parts:
            self._refreshed()
            return {name: inode_of(self.url, name) for name in (*self._names, *self._files)}
        if len(parts) > 1 or parts[0] in self._files:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return self._partition(path, parts[0]).names()

    def is_directory(self, path: str) -> bool:
        parts = self._parts(path)
        self._refreshed()
        return not parts or (len(parts) == 1 and parts[0] in self._names)

    def status(self, path: str) -> os.stat_result:
        parts = self._parts(path)
        if not parts:
            self._refreshed()
            return file_status(inode_of(self.url), 0, self._changed_ns, is_directory=True)
        if len(parts) == 1 and (data := self._files.get(parts[0])) is not None:
            return file_status(inode_of(self.url, parts[0], self._number), len(data), self._number)
        partition = self._partition(path, parts[0])
        if len(parts) == 1 and not partition.is_used:  # `ls -l` of a thousand partitions reads no manifest
            return file_status(inode_of(self.url, parts[0]), 0, self._changed_ns, is_directory=True)
        return partition.status() if len(parts) == 1 else partition.status_of(path, "/".join(parts[1:]))

    def open_file(self, path: str) -> File:
        parts = self._parts(path)
        if len(parts) == 1 and (data := self._files.get(parts[0])) is not None:
            status = self.status(path)
            return BytesFile(path, lambda: status, lambda: data)
        if self.is_directory(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return self._partition(path, parts[0]).open_file(path, "/".join(parts[1:]))

    def space(self) -> tuple[int, int]:
        return 0, 0

    def log_start(self, path: str) -> int | None:
        parts = self._parts(path)
        return _log_start(self._partition(path, parts[0]).manifest) if len(parts) == 1 else None

    def end_offset(self, path: str, size: int) -> int | None:
        parts = self._parts(path)
        return self._partition(path, parts[0]).end_offset(parts[1], size) if len(parts) == 2 else None


def _log_start(manifest: PartitionManifest) -> int:
    """Return the log start of a partition, as its broker's checkpoint has it: below the first segment if older records
    are only in remote storage.
    """
    if manifest.only_remote is not None and all(
        segment.base_offset >= manifest.log_start for segment in manifest.segments
    ):
        return manifest.only_remote[0]
    return manifest.log_start


class _RemotePartition:
    """The files of one partition, in the state of the newest manifest that was read."""

    def __init__(self, tree: RemoteTree, name: str) -> None:
        self._tree = tree
        self.url = f"{tree.url}/{name}"
        self._name = name
        self._loading = threading.Lock()
        self._is_refreshing = False
        self._checked = 0.0
        self._number = 0
        self._manifest: PartitionManifest | None = None
        self._segments: dict[int, RemoteSegment] = {}
        self._files: dict[str, bytes] = {}

    @property
    def is_used(self) -> bool:
        """Whether the manifest was read."""
        return self._manifest is not None

    @property
    def manifest(self) -> PartitionManifest:
        """The state; read with the first use, which waits for it."""
        manifest = self._manifest
        if manifest is None:
            with self._loading:
                if self._manifest is None:
                    self._read()
                manifest = self._manifest
        assert manifest is not None
        return manifest

    def _read(self) -> None:
        document = NumberedDocuments(self._tree.store(), self._name).copy()
        self._checked = time.monotonic()
        if document is None:
            reason = "has no manifest: it was not archived completely, or was removed; run `offsetfs archive` again"
            raise FileNotFoundError(errno.ENOENT, reason, self.url)
        if document.number > self._number:
            self._take(document)

    def _take(self, document: Numbered) -> None:
        manifest = PartitionManifest.decoded(document.content, self.url, TopicPartition.parse(self._name))
        segments = {}
        for archived in manifest.segments:
            known = self._segments.get(archived.base_offset)
            if known is not None and known.is_continued_by(archived):
                # Before the size grows, because a reader of the index would wait for it.
                if self._tree.sides.in_memory(known.archived.side) is not None:
                    self._tree.sides.get(archived.side)
                known.grow(manifest, archived)
                segments[archived.base_offset] = known
            else:
                generation = 0 if known is None else known.generation + 1
                segments[archived.base_offset] = RemoteSegment(manifest, archived, generation)
        self._segments, self._files = segments, _partition_files(manifest)
        self._manifest, self._number = manifest, document.number

    def _refreshed(self) -> None:
        """Begin to read the manifest again if that is due."""
        if self._manifest is None or time.monotonic() < self._checked + self._tree.refresh_s or self._is_refreshing:
            return
        self._is_refreshing = True
        if not self._tree.threads.submit(self._read_again):
            self._is_refreshing = False

    def _read_again(self) -> None:
        try:
            with self._loading:
                self._read()
        except OSError as error:
            self._checked = time.monotonic()
            _log.warning("%s: %s; readers see the earlier state", error.filename or self.url, error.strerror)
        finally:
            self._is_refreshing = False

    # --- names -------------------------------------------------------------------------------------------------------

    def names(self) -> dict[str, int]:
        manifest = self.manifest
        self._refreshed()
        inodes = {name: inode_of(manifest.topic_id, name) for name in self._files}
        for segment in list(self._segments.values()):
            for suffix in segment.suffixes():
                inodes[f"{segment.archived.base_offset:020d}{suffix}"] = segment.status(suffix).st_ino
        return inodes

    def status(self) -> os.stat_result:
        manifest = self.manifest
        self._refreshed()
        # The number, because an archiver may publish twice within a millisecond.
        modified_ns = manifest.time_ms * 1_000_000 + self._number % 1_000_000
        return file_status(inode_of(manifest.topic_id, self.url), 0, modified_ns, is_directory=True)

    def status_of(self, path: str, name: str) -> os.stat_result:
        manifest = self.manifest
        if (data := self._files.get(name)) is not None:
            return file_status(inode_of(manifest.topic_id, name), len(data), manifest.time_ms * 1_000_000)
        segment, suffix = self._segment(path, name)
        return segment.status(suffix)

    def open_file(self, path: str, name: str) -> File:
        status = self.status_of(path, name)
        if (data := self._files.get(name)) is not None:
            return BytesFile(path, lambda: status, lambda: data)
        segment, suffix = self._segment(path, name)
        return segment.open_file(path, suffix, self._tree.sides, self._tree.fetcher, self._explained)

    def end_offset(self, name: str, size: int) -> int | None:
        base, suffix = name[:20], name[20:]
        _ = self.manifest
        segment = self._segments.get(int(base)) if suffix == ".log" and base.isdigit() else None
        if segment is None:
            return None
        archived = segment.archived
        return archived.end if archived.size == size else None

    def _segment(self, path: str, name: str) -> tuple[RemoteSegment, str]:
        base, suffix = name[:20], name[20:]
        segment = self._segments.get(int(base)) if base.isdigit() and len(base) == 20 else None
        if segment is None or suffix not in segment.suffixes():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return segment, suffix

    # --- errors ------------------------------------------------------------------------------------------------------

    def _explained(self, segment: RemoteSegment, error: OSError) -> OSError:
        """Return the error for a reader: ESTALE where the newest manifest has other objects for the segment."""
        archived = segment.archived
        is_missing = isinstance(error, FileNotFoundError) or isinstance(error.__cause__, FileNotFoundError)
        if is_missing:
            # An expiry removes what no kept manifest names, and parts of a sealed segment may have been merged.
            self._read_again()
            newest = self._segments.get(archived.base_offset)
            if newest is None or newest is not segment or newest.archived.parts != archived.parts:
                return OSError(errno.ESTALE, "the archive has replaced or removed the segment", error.filename)
        elif not isinstance(error, DamagedBlock):
            return error
        first, stop = archived.base_offset, archived.end
        if isinstance(error, DamagedBlock):
            first, stop = segment.offsets_at(self._tree.sides, error.position, error.size)
        reason = "the object is missing" if is_missing else error.strerror
        lost = f"offsets {first} to {max(first, stop - 1)} of {self._name} cannot be read"
        return OSError(errno.EIO, f"{reason}; {lost}", error.filename)


def _root_files(content: dict[str, Any]) -> dict[str, bytes]:
    """Return the files in the root; `content`: of the document of the archive."""
    files = {_CLEAN_SHUTDOWN: b'{"version":0,"brokerEpoch":-1}'}
    topics = content.get("topics")
    if isinstance(topics, dict):
        settings = {name: topic.get("settings") for name, topic in topics.items() if isinstance(topic, dict)}
        named = {name: setting for name, setting in settings.items() if isinstance(setting, dict) and setting}
        if named:
            files[_TOPICS] = json.dumps({"version": 0, "topics": named}, indent=1, sort_keys=True).encode() + b"\n"
    return files


def _partition_files(manifest: PartitionManifest) -> dict[str, bytes]:
    """Return the files of a partition that are not of a segment, as a broker writes them."""
    contents = {}
    if manifest.leader_epochs:
        lines = [f"{epoch} {start}" for epoch, start in manifest.leader_epochs]
        contents[_EPOCHS] = "\n".join(("0", str(len(lines)), *lines, "")).encode()
    if manifest.topic_id:
        contents[_METADATA] = f"version: 0\ntopic_id: {manifest.topic_id}".encode()
    return contents
