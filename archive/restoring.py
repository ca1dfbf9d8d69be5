"""Restores partitions of an archive into a log directory: the same files, byte for byte, and the same offsets.

    .offsetfs-restore.json          which states are restored; until everything is there
    orders-0.<32 digits>-delete/    one partition in work; by this name Kafka and offsetfs remove what a kill has left
    orders-0/                       complete: the directory above, renamed once all its files are on disk

Every object is compared with its SHA-256 before a partition gets its name. A restore that is killed or fails goes on
when it is started again: the partitions that are complete stay, the others begin again, and all are of the states that
the first start has chosen.
"""

from __future__ import annotations

import base64
import bisect
import contextlib
import errno
import json
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from offsetfs.archive import marker
from offsetfs.archive.manifest import ArchivedObject, ArchivedSegment, PartitionManifest
from offsetfs.archive.numbered_documents import Numbered, NumberedDocuments
from offsetfs.archive.object_store import ObjectStore
from offsetfs.storage import LogDirectory, TopicPartition, files
from offsetfs.storage.directory import (
    CLEAN_SHUTDOWN,
    LEADER_EPOCHS,
    PARTITION_METADATA,
    RESTORE_JOURNAL,
    CleanShutdown,
    write_epochs,
    write_topic_id,
)
from offsetfs.storage.errors import InvalidConfig, InvalidName, StorageError
from offsetfs.storage.segments import segment_name

_PARTS_AT_ONCE = 4
_VERSION = 1

Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RestoreSelection:
    """What is restored."""

    takes: Callable[[str], bool] = lambda topic: True
    as_of_ms: int | None = None
    """The states that were the newest ones at this time; None for the newest."""
    from_ms: int | None = None
    """Records before the first one of this time or later are left out."""
    to_ms: int | None = None
    """The batch with the first record of this time or later is left out, with all that follow."""


@dataclass(slots=True)
class RestoredLogs:
    """What was restored: offsets [start, end) by partition, and the bytes that were downloaded."""

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

    def run(self, open_directory: Callable[[str], LogDirectory] = LogDirectory.open) -> RestoredLogs:
        """Restore all partitions; everything is on disk on return, and the directory is cleanly closed.

        OSError EEXIST, and nothing is changed, if a partition is there already; OSError of the store and the disk,
        `StorageError`. What is complete by then stays, and the next call goes on.
        """
        marker.check(self._store)
        numbers = self._journal()
        manifests = self._chosen() if numbers is None else self._pinned(numbers)
        if not manifests:
            when = "" if self._selection.as_of_ms is None else " at that time"
            raise OSError(errno.ENOENT, f"has no partition of these topics{when}", self._store.url)
        if numbers is None:
            self._check_free(manifests)
            self._begin({name: number for name, (number, _) in manifests.items()}, open_directory)
        if numbers is None or self._selection.to_ms is None:
            # What has the name of a partition is whole and on disk. A recovery would build its indexes again, and take
            # gaps of compaction for losses.
            CleanShutdown().write(self._path)
        directory = open_directory(self._path)
        with contextlib.closing(directory):
            self._restore(directory, {name: each for name, (_, each) in manifests.items()})
        files.remove_file(os.path.join(self._path, RESTORE_JOURNAL))
        files.sync_directory(self._path)
        return self._done

    # --- what is restored --------------------------------------------------------------------------------------------

    def _chosen(self) -> dict[str, tuple[int, PartitionManifest]]:
        names = [name for name in self._store.children() if (topic := _topic(name)) and self._selection.takes(topic)]
        found = {name: self._state(NumberedDocuments(self._store, name)) for name in names}
        return {name: (each.number, self._decoded(name, each)) for name, each in found.items() if each is not None}

    def _state(self, documents: NumberedDocuments) -> Numbered | None:
        if self._selection.as_of_ms is None:
            return documents.newest()
        numbers, wanted = documents.numbers(), self._selection.as_of_ms

        def time_ms(number: int) -> int:
            document = documents.at(number)
            return wanted + 1 if document is None else int(document.content.get("time_ms", 0))

        place = bisect.bisect_right(numbers, wanted, key=time_ms)
        return documents.at(numbers[place - 1]) if place else None

    def _pinned(self, numbers: Mapping[str, int]) -> dict[str, tuple[int, PartitionManifest]]:
        found = {}
        for name, number in numbers.items():
            document = NumberedDocuments(self._store, name).at(number)
            if document is None:
                reason = f"state {number} was deleted meanwhile; remove the incomplete {self._path}, and begin again"
                raise OSError(errno.ENOENT, reason, f"{self._store.url}/{name}")
            found[name] = number, self._decoded(name, document)
        return found

    def _decoded(self, name: str, document: Numbered) -> PartitionManifest:
        return PartitionManifest.decoded(document.content, f"{self._store.url}/{name}", TopicPartition.parse(name))

    def _check_free(self, manifests: Mapping[str, object]) -> None:
        for name in manifests:
            path = os.path.join(self._path, name)
            if files.exists(path):
                reason = "is there already; restore into an empty directory, or delete the partition first"
                raise FileExistsError(errno.EEXIST, reason, path)

    # --- the journal -------------------------------------------------------------------------------------------------

    def _journal(self) -> dict[str, int] | None:
        """Return the numbers of the states of a restore that has begun; None if none has."""
        path = os.path.join(self._path, RESTORE_JOURNAL)
        try:
            content = json.loads(files.read_file(path))
        except FileNotFoundError:
            return None
        if content.get("version") != _VERSION or content.get("url") != self._store.url:
            reason = f"an incomplete restore of {content.get('url')}: finish it, or remove the directory"
            raise FileExistsError(errno.EEXIST, reason, path)
        chosen = {name: int(number) for name, number in content["states"].items()}
        if content.get("selection") != self._key():
            reason = "an incomplete restore with other options: repeat it with the same ones, or remove the directory"
            raise FileExistsError(errno.EEXIST, reason, path)
        return chosen

    def _key(self) -> list[int | None]:
        return [self._selection.as_of_ms, self._selection.from_ms, self._selection.to_ms]

    def _begin(self, numbers: Mapping[str, int], open_directory: Callable[[str], LogDirectory]) -> None:
        if not files.exists(self._path):
            files.make_directory(self._path)
        elif files.names(self._path) and not files.exists(os.path.join(self._path, CLEAN_SHUTDOWN)):
            open_directory(self._path).close()  # recovers what is there already
        content = {"version": _VERSION, "url": self._store.url, "selection": self._key(), "states": dict(numbers)}
        files.replace_file(os.path.join(self._path, RESTORE_JOURNAL), json.dumps(content).encode())

    # --- the files ---------------------------------------------------------------------------------------------------

    def _restore(self, directory: LogDirectory, manifests: Mapping[str, PartitionManifest]) -> None:
        wanted = {name: _segments(each, self._selection) for name, each in manifests.items()}
        self._done.bytes_total = sum(each.size + each.side.stored.size for some in wanted.values() for each in some)
        configured: set[str] = set()
        for name, manifest in manifests.items():
            topic = manifest.partition.topic
            if topic not in configured:
                self._configure(directory, topic, manifest.settings)
                configured.add(topic)
            if not files.exists(os.path.join(self._path, name)):
                self._download(name, manifest, wanted[name])
            self._finish(directory, manifest)

    def _configure(self, directory: LogDirectory, topic: str, settings: Mapping[str, str]) -> None:
        for name, text in settings.items():
            try:
                directory.configure(topic, {name: text})
            except InvalidConfig as error:
                self._on_warning(f"{topic}: the setting {name}={text} is left out: {error}")

    def _download(self, name: str, manifest: PartitionManifest, segments: tuple[ArchivedSegment, ...]) -> None:
        staging = os.path.join(self._path, f"{name}.{os.urandom(16).hex()}-delete")
        files.make_directory(staging)
        for segment in segments:
            self._download_segment(staging, segment)
        if manifest.leader_epochs:
            write_epochs(os.path.join(staging, LEADER_EPOCHS), manifest.leader_epochs)
        if manifest.topic_id:
            topic_id = base64.urlsafe_b64decode(manifest.topic_id + "==")
            write_topic_id(os.path.join(staging, PARTITION_METADATA), topic_id)
        files.sync_directory(staging)
        files.rename(staging, os.path.join(self._path, name))
        files.sync_directory(self._path)

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

    def _finish(self, directory: LogDirectory, manifest: PartitionManifest) -> None:
        """Open the log, apply the times of the selection, and note its log start and recovery point."""
        partition, chosen = manifest.partition, self._selection
        log = directory.log(partition)
        if chosen.to_ms is not None:
            found = log.find_timestamp(chosen.to_ms)
            if found is not None:
                log.truncate_to(found[0])
        start = manifest.log_start
        if chosen.from_ms is not None:
            found = log.find_timestamp(chosen.from_ms)
            start = max(start, log.next_offset if found is None else found[0])
        start = min(max(start, log.snapshot().first.base_offset), log.next_offset)
        directory.raise_log_starts({partition: start})
        log.flush()
        if chosen.to_ms is None and log.next_offset != manifest.end:
            raise StorageError(f"ends at offset {log.next_offset}, its manifest at {manifest.end}", path=log.path)
        self._done.partitions[partition] = log.log_start_offset, log.next_offset


def _segments(manifest: PartitionManifest, selection: RestoreSelection) -> tuple[ArchivedSegment, ...]:
    """Return the segments that can have records of the selection, at least one."""
    segments = manifest.segments
    if selection.to_ms is not None:
        reaching = (number for number, each in enumerate(segments) if each.max_time_ms >= selection.to_ms)
        segments = segments[: next(reaching, len(segments) - 1) + 1]
    if selection.from_ms is not None:
        reaching = (number for number, each in enumerate(segments) if each.max_time_ms >= selection.from_ms)
        segments = segments[next(reaching, len(segments) - 1) :]
    return segments


def _positions(segment: ArchivedSegment) -> list[int]:
    positions, position = [], 0
    for part in segment.parts:
        positions.append(position)
        position += part.size
    return positions


def _topic(name: str) -> str | None:
    try:
        return TopicPartition.parse(name).topic
    except InvalidName:
        return None
