"""Restores partitions of an archive into a log directory: the same files, byte for byte, and the same offsets.

    .offsetfs-restore.json          which states are restored, and which directories were; until everything is there
    orders-0.<32 digits>-delete/    one partition in work; by this name Kafka and offsetfs remove what a kill has left
        orders-0/                   in a log directory of its own, in which it is cut by --to
    orders-0/                       complete: renamed once all its files are on disk

Every object is compared with its SHA-256 before a partition gets its name, and nothing is cut or replaced under a name
that the directory has. A restore that is killed or fails continues when it is started again: the partitions that are
complete stay, the others begin again, and all are of the states that the first start has chosen. A partition is known
as restored by the inode of its directory, because another process may have created it meanwhile.

The mark of a clean shutdown is that of `LogDirectory`: what is in the directory already is recovered if it needs to be.
"""

from __future__ import annotations

import base64
import bisect
import contextlib
import errno
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from offsetfs.archive import marker
from offsetfs.archive.manifest import ArchivedObject, ArchivedSegment, PartitionManifest
from offsetfs.archive.numbered_documents import Numbered, NumberedDocuments
from offsetfs.archive.object_store import ObjectStore
from offsetfs.common.formatting import utc_time
from offsetfs.storage import LogDirectory, TopicPartition, files, remote_note
from offsetfs.storage.directory import (
    CLEAN_SHUTDOWN,
    LEADER_EPOCHS,
    PARTITION_METADATA,
    RESTORE_JOURNAL,
    CleanShutdown,
    write_epochs,
    write_topic_id,
)
from offsetfs.storage.errors import InvalidConfig, StorageError
from offsetfs.storage.segments import segment_name

_PARTS_AT_ONCE = 4
_VERSION = 2
_CHECKPOINT_S = 5.0
_NAME_BYTES_MAX = 255

Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RestoreSelection:
    """The selection of what to restore: partitions, times, a state."""

    takes: Callable[[str], bool] = lambda topic: True
    names: tuple[str, ...] = ()
    """The options that `takes` was made of: a restore is only continued with the same options."""
    as_of_ms: int | None = None
    """The states that were the newest ones at this time; None for the newest."""
    from_ms: int | None = None
    """Records before the first one of this time or later are left out."""
    to_ms: int | None = None
    """The batch with the first record of this time or later is left out, with all that follow."""


@dataclass(slots=True)
class RestoredLogs:
    """The result of a restore: offsets [start, end) by partition, and the bytes that were downloaded."""

    partitions: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    bytes: int = 0
    bytes_total: int = 0


class ArchiveRestore:
    """A restore from an archive into one log directory."""

    def __init__(
        self,
        store: ObjectStore,
        path: str,
        selection: RestoreSelection,
        *,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
        on_warning: Warn = lambda text: None,
    ) -> None:
        """`path` is created if it is not there; its parent must exist."""
        self._store = store
        self._path = path
        self._selection = selection
        self._on_progress = on_progress
        self._on_warning = on_warning
        self._done = RestoredLogs()
        self._first_states_ms: list[int] = []  # of partitions that have none at the time

    def run(self, open_directory: Callable[[str], LogDirectory] = LogDirectory.open) -> RestoredLogs:
        """Restore all partitions; everything is on disk on return, and the directory is cleanly closed.

        OSError EEXIST, and nothing is changed, if a partition is there already, or a restore of something else is
        incomplete; EINVAL for a damaged journal; OSError of the store and the disk, `StorageError`. What is complete by
        then stays, and the next call continues.
        """
        marker.check(self._store)
        begun = self._journal()
        manifests = self._chosen() if begun is None else self._pinned(begun.states)
        if not manifests:
            raise OSError(errno.ENOENT, f"has no partition of these topics{self._nearest_state()}", self._store.url)
        self._check_free(manifests, begun)
        if not files.exists(self._path):
            files.make_directory(self._path)
        if not files.exists(os.path.join(self._path, CLEAN_SHUTDOWN)):
            # Recovers what is there. Logs of a directory that was opened cleanly are opened as they are: a recovery of
            # the restored ones would build their indexes again.
            with contextlib.closing(open_directory(self._path)) as directory:
                if not directory.partitions():
                    CleanShutdown().write(self._path)  # there is nothing to recover
        with contextlib.closing(open_directory(self._path)) as directory:
            if self._journal() != begun:
                reason = "another restore has begun meanwhile; run the command again"
                raise FileExistsError(errno.EEXIST, reason, self._journal_path)
            self._check_free(manifests, begun)
            _check_ids(directory, [manifest for _, manifest in manifests.values()])
            if begun is None:
                self._begin({name: number for name, (number, _) in manifests.items()})
            self._restore(directory, {name: manifest for name, (_, manifest) in manifests.items()}, begun)
            directory.checkpoint()
            files.remove_file(self._journal_path)
            files.sync_directory(self._path)
        return self._done

    # --- what is restored --------------------------------------------------------------------------------------------

    def _chosen(self) -> dict[str, tuple[int, PartitionManifest]]:
        named = ((name, TopicPartition.parse_or_none(name)) for name in self._store.children())
        names = [name for name, partition in named if partition and self._selection.takes(partition.topic)]
        states = {name: self._state(NumberedDocuments(self._store, name)) for name in names}
        return {name: (state.number, self._decoded(name, state)) for name, state in states.items() if state is not None}

    def _state(self, documents: NumberedDocuments) -> Numbered | None:
        if self._selection.as_of_ms is None:
            return documents.newest()
        numbers, wanted = documents.numbers(), self._selection.as_of_ms

        def time_ms(number: int) -> int:
            document = documents.at(number)
            return -1 if document is None else self._decoded(documents.prefix, document).time_ms

        place = bisect.bisect_right(numbers, wanted, key=time_ms)
        if place == 0 and numbers and (first_ms := time_ms(numbers[0])) >= 0:
            self._first_states_ms.append(first_ms)
        if place == 0 and numbers and numbers[0] > 1:
            self._on_warning(f"{documents.prefix}: left out: states before number {numbers[0]} have expired")
        state = documents.at(numbers[place - 1]) if place else None
        if place and state is None:
            reason = f"state {numbers[place - 1]} was deleted meanwhile; run the command again"
            raise OSError(errno.ENOENT, reason, f"{self._store.url}/{documents.prefix}")
        return state

    def _nearest_state(self) -> str:
        """Return the end of a message about a time without states: the nearest time that has one."""
        if self._selection.as_of_ms is None:
            return ""
        if not self._first_states_ms:
            return " at that time"
        return f" at that time; the first state is of {utc_time(min(self._first_states_ms))}"

    def _pinned(self, numbers: Mapping[str, int]) -> dict[str, tuple[int, PartitionManifest]]:
        states = {}
        for name, number in numbers.items():
            if TopicPartition.parse_or_none(name) is None:
                raise OSError(errno.EINVAL, f"the journal names {name!r}, which is not a partition", self._journal_path)
            document = NumberedDocuments(self._store, name).at(number)
            if document is None:
                reason = f"state {number} was deleted meanwhile; remove the incomplete {self._path}, and begin again"
                raise OSError(errno.ENOENT, reason, f"{self._store.url}/{name}")
            states[name] = number, self._decoded(name, document)
        return states

    def _decoded(self, name: str, document: Numbered) -> PartitionManifest:
        return PartitionManifest.decoded(document.content, f"{self._store.url}/{name}", TopicPartition.parse(name))

    def _check_free(self, manifests: Mapping[str, object], begun: _Journal | None) -> None:
        for name in manifests:
            path = os.path.join(self._path, name)
            if files.exists(path) and not self._is_restored(name, begun):
                reason = "is there already; restore into an empty directory, or delete the partition first"
                raise FileExistsError(errno.EEXIST, reason, path)

    def _is_restored(self, name: str, begun: _Journal | None) -> bool:
        known = None if begun is None else begun.restored.get(name)
        try:
            return known is not None and files.status(os.path.join(self._path, name)).st_ino == known.inode
        except FileNotFoundError:
            return False

    # --- the journal -------------------------------------------------------------------------------------------------

    @property
    def _journal_path(self) -> str:
        return os.path.join(self._path, RESTORE_JOURNAL)

    def _journal(self) -> _Journal | None:
        """Return the journal of a restore that has begun; None if there is none."""
        path = self._journal_path
        try:
            data = files.read_file(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            journal = _Journal.decoded(data)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            reason = "the journal of an incomplete restore is damaged; remove it with the partitions that were restored"
            raise OSError(errno.EINVAL, reason, path) from error
        if journal.version != _VERSION:
            kind = "a newer" if journal.version > _VERSION else "an earlier"
            reason = (
                f"an incomplete restore of {kind} version of offsetfs: finish it with that, or remove the directory"
            )
            raise FileExistsError(errno.EEXIST, reason, path)
        if journal.url != self._store.url:
            reason = f"an incomplete restore of {journal.url}: finish it, or remove the directory"
            raise FileExistsError(errno.EEXIST, reason, path)
        if journal.selection != self._key():
            reason = "an incomplete restore with other options: repeat it with the same ones, or remove the directory"
            raise FileExistsError(errno.EEXIST, reason, path)
        return journal

    def _key(self) -> list[object]:
        chosen = self._selection
        return [chosen.as_of_ms, chosen.from_ms, chosen.to_ms, list(chosen.names)]

    def _begin(self, numbers: Mapping[str, int]) -> None:
        content = {"version": _VERSION, "url": self._store.url, "selection": self._key(), "states": dict(numbers)}
        files.replace_file(self._journal_path, json.dumps(content).encode() + b"\n")

    def _note(self, name: str, restored: _Restored) -> None:
        """Add a partition to the journal, before it gets its name. Durable on return."""
        line = json.dumps([name, restored.inode, restored.start, restored.end]).encode() + b"\n"
        with files.open_file(self._journal_path, writable=True) as file:
            # A line that a crash has cut is replaced.
            data = bytes(file.read(0, file.size()))
            end = data.rfind(b"\n") + 1
            if end < len(data):
                file.truncate(end)
            file.write(end, line)
            file.sync()

    # --- the files ---------------------------------------------------------------------------------------------------

    def _restore(
        self, directory: LogDirectory, manifests: Mapping[str, PartitionManifest], begun: _Journal | None
    ) -> None:
        missing = {
            name: _segments(manifest, self._selection)
            for name, manifest in manifests.items()
            if not self._is_restored(name, begun)
        }
        self._done.bytes_total = sum(
            segment.size + segment.side.stored.size for some in missing.values() for segment in some
        )
        present = {partition.topic for partition in directory.partitions() if str(partition) not in manifests}
        configured: set[str] = set()
        saved_s = time.monotonic()
        for name, manifest in manifests.items():
            topic = manifest.partition.topic
            if topic not in configured:
                configured.add(topic)
                if topic in present:
                    self._on_warning(f"{topic}: has other partitions in {self._path}; its settings there stay")
                else:
                    self._configure(directory, topic, manifest.settings)
            if name in missing:
                restored = self._download(manifest, missing[name])
            else:
                assert begun is not None
                restored = begun.restored[name]
            self._finish(directory, manifest.partition, restored)
            self._report_remote(manifest, restored)
            if time.monotonic() - saved_s > _CHECKPOINT_S:
                directory.checkpoint()  # so that a restore that continues after a kill recovers little
                saved_s = time.monotonic()

    def _report_remote(self, manifest: PartitionManifest, restored: _Restored) -> None:
        """Report the records before those of the selection that the archive has never had."""
        if manifest.only_remote is not None and restored.start <= manifest.log_start:
            note = remote_note(*manifest.only_remote)
            self._on_warning(f"{manifest.partition}: {note}; the restored log begins at offset {restored.start}")

    def _configure(self, directory: LogDirectory, topic: str, settings: Mapping[str, str]) -> None:
        for name, text in settings.items():
            try:
                directory.configure(topic, {name: text})
            except InvalidConfig as error:
                self._on_warning(f"{topic}: the setting {name}={text} is left out: {error}")

    def _download(self, manifest: PartitionManifest, segments: tuple[ArchivedSegment, ...]) -> _Restored:
        name = str(manifest.partition)
        ending = f"-{manifest.partition.partition}.{os.urandom(16).hex()}-delete"
        staging = os.path.join(self._path, manifest.partition.topic[: _NAME_BYTES_MAX - len(ending)] + ending)
        path = os.path.join(staging, name)
        files.make_directory(staging)
        files.make_directory(path)
        for segment in segments:
            self._download_segment(path, segment)
        if manifest.leader_epochs:
            write_epochs(os.path.join(path, LEADER_EPOCHS), manifest.leader_epochs)
        if manifest.topic_id:
            topic_id = base64.urlsafe_b64decode(manifest.topic_id + "==")
            write_topic_id(os.path.join(path, PARTITION_METADATA), topic_id)
        files.sync_directory(path)
        CleanShutdown().write(staging)  # all of it is whole
        with contextlib.closing(LogDirectory.open(staging)) as directory:
            start, end = self._cut(directory, manifest)
        files.sync_directory(path)
        restored = _Restored(files.status(path).st_ino, start, end)
        self._note(name, restored)
        files.rename(path, os.path.join(self._path, name))
        files.sync_directory(self._path)
        for leftover in files.names(staging):
            files.remove_file(os.path.join(staging, leftover))
        files.remove_directory(staging)
        return restored

    def _cut(self, directory: LogDirectory, manifest: PartitionManifest) -> tuple[int, int]:
        """Apply the times of the selection to the log in work; return its start and its end."""
        chosen, log = self._selection, directory.log(manifest.partition)
        if chosen.to_ms is None and log.next_offset != manifest.end:
            raise StorageError(f"ends at offset {log.next_offset}, its manifest at {manifest.end}", path=log.path)
        if chosen.to_ms is not None:
            place = log.find_timestamp(chosen.to_ms)
            if place is not None:
                log.truncate_to(place[0])
        start = manifest.log_start
        if chosen.from_ms is not None:
            place = log.find_timestamp(chosen.from_ms)
            start = max(start, log.next_offset if place is None else place[0])
        log.flush()
        return min(max(start, log.snapshot().first.base_offset), log.next_offset), log.next_offset

    def _download_segment(self, staging: str, segment: ArchivedSegment) -> None:
        def path(suffix: str) -> str:
            return os.path.join(staging, segment_name(segment.base_offset, suffix))

        with files.created(path(".log")) as log:
            starts = _positions(segment)

            def download(number: int) -> None:
                data = self._object(segment.parts[number])
                log.write(starts[number], data)
                self._count(len(data))

            with ThreadPoolExecutor(_PARTS_AT_ONCE) as threads:
                for _ in threads.map(download, range(len(segment.parts))):
                    pass
            log.sync()
        side = self._object(segment.side.stored)
        self._count(len(side))
        for suffix, (start, stop) in segment.side.sections().items():
            if suffix in (".index", ".timeindex") or (suffix in (".txnindex", ".snapshot") and stop > start):
                with files.created(path(suffix)) as file:
                    file.write(0, side[start:stop])
                    file.sync()
        # Retention takes the time of the file where records have none, as it did before.
        files.set_modified(path(".log"), segment.modified_ms * 1_000_000)

    def _object(self, wanted: ArchivedObject) -> bytes:
        return self._store.read_whole(wanted.key, wanted.size, wanted.sha256)

    def _count(self, count: int) -> None:
        self._done.bytes += count
        self._on_progress(self._done.bytes, self._done.bytes_total)

    def _finish(self, directory: LogDirectory, partition: TopicPartition, restored: _Restored) -> None:
        """Note the log start of a partition that has its name."""
        log = directory.log(partition)
        directory.raise_log_starts({partition: restored.start})
        self._done.partitions[partition] = log.log_start_offset, log.next_offset


@dataclass(frozen=True, slots=True)
class _Restored:
    """A partition that is complete: the inode of its directory, and its offsets [start, end)."""

    inode: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Journal:
    """The content of the journal: a line of JSON with what was chosen, and one for each partition that is complete."""

    version: int
    url: str
    selection: list[object]
    states: dict[str, int]
    restored: dict[str, _Restored]

    @classmethod
    def decoded(cls, data: bytes) -> _Journal:
        """ValueError, TypeError, KeyError, AttributeError, RecursionError for a damaged journal."""
        head, _, rest = data.partition(b"\n")
        content = json.loads(head)
        if not isinstance(content["version"], int) or not isinstance(content["url"], str):
            raise TypeError
        if content["version"] != _VERSION:
            return cls(content["version"], content["url"], [], {}, {})
        states = {name: _whole(number) for name, number in content["states"].items()}
        restored = {}
        for line in rest.split(b"\n")[:-1]:  # a crash may have cut the last one
            name, inode, start, end = json.loads(line)
            if name not in states:
                raise ValueError(name)
            restored[name] = _Restored(_whole(inode), _whole(start), _whole(end))
        return cls(_VERSION, content["url"], list(content["selection"]), states, restored)


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(value)
    return value


def _check_ids(directory: LogDirectory, manifests: Sequence[PartitionManifest]) -> None:
    """Raise OSError EEXIST if a topic of the directory has another id in the archive."""
    wanted = {manifest.partition.topic: manifest.topic_id for manifest in manifests if manifest.topic_id}
    for partition in directory.partitions():
        known = directory.topic_id(partition)
        topic_id = wanted.get(partition.topic)
        if known is not None and topic_id is not None and base64.urlsafe_b64decode(topic_id + "==") != known:
            reason = (
                f"is of another topic {partition.topic}; restore into an empty directory, or delete that topic first"
            )
            raise FileExistsError(errno.EEXIST, reason, os.path.join(directory.path, str(partition)))


def _segments(manifest: PartitionManifest, selection: RestoreSelection) -> tuple[ArchivedSegment, ...]:
    """Return the segments that can have records of the selection, at least one."""
    segments = manifest.segments
    if selection.to_ms is not None:
        reaching = (number for number, segment in enumerate(segments) if segment.max_time_ms >= selection.to_ms)
        segments = segments[: next(reaching, len(segments) - 1) + 1]
    if selection.from_ms is not None:
        reaching = (number for number, segment in enumerate(segments) if segment.max_time_ms >= selection.from_ms)
        segments = segments[next(reaching, len(segments) - 1) :]
    return segments


def _positions(segment: ArchivedSegment) -> list[int]:
    positions, position = [], 0
    for part in segment.parts:
        positions.append(position)
        position += part.size
    return positions
