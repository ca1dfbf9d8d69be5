"""The checkpoints of a log directory: per-partition offsets, read and written.

    recovery-point-offset-checkpoint    records below are synced; recovery after a crash begins here
    log-start-offset-checkpoint         where a log begins, if that is not the base offset of its first segment
    replication-offset-checkpoint       the high watermark: the records that all replicas have; for one replica, that
                                        are synced
    cleaner-offset-checkpoint           where the next compaction of a partition begins

A log start only rises. It is durable before a log uses it, and before any file below it is removed. As in Kafka, an
unreadable checkpoint costs time but no records: recovery points are 0 then, log starts come from the first segment, and
compaction starts from the beginning; the file is kept under another name. All other lines stay as they are: a log start
below the first segment is that of a log in remote storage (KIP-405), and what is no entry here may be one of a later
Kafka. Follows LogManager and LogCleanerManager. Thread-safe.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping

from offsetfs.storage import checkpoint, files
from offsetfs.storage.checkpoint import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, CleanShutdown
from offsetfs.storage.clock import Clock
from offsetfs.storage.errors import InvalidCheckpoint
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log


class CleanShutdownMarker:
    """The clean shutdown file of the directory at `path`: removed before the first change, written by a clean close.

    See docs/internals/decisions/0001. Safe to use from any thread. A log calls `before_change` while it is locked.
    """

    def __init__(self, path: str) -> None:
        self.is_changed = False
        """Whether the directory was changed since it was opened, so that the file is gone."""
        self.on_first_change: Callable[[], None] = lambda: None
        """Called once, after the file was removed. Must not raise."""
        self._path = path
        self._found = CleanShutdown.read(path)
        self._lock = threading.Lock()

    @property
    def was_present(self) -> bool:
        """Whether the directory was closed cleanly before this opening."""
        return self._found is not None

    def before_change(self) -> None:
        """Remove the file before the first change. Durable on return."""
        if self.is_changed:
            return
        with self._lock:
            if not self.is_changed:
                if self._found is not None:
                    CleanShutdown.remove(self._path)
                self.on_first_change()
                self.is_changed = True

    def restore(self) -> None:
        """Write the file, as the last step of a clean shutdown.

        It contains the broker epoch that it contained before.
        """
        (self._found or CleanShutdown()).write(self._path)


LOG_START_CHECK_S = 1.0
DAMAGED = ".damaged"
"""The suffix of an unreadable checkpoint that was replaced."""
HIGH_WATERMARK_CHECK_S = 0.1
"""A broker writes its high watermarks every five seconds by default."""

Offsets = dict[TopicPartition, int]


class DirectoryCheckpoints:
    """The offsets in the checkpoints of one directory."""

    def __init__(self, path: str, *, read_only: bool, clock: Clock) -> None:
        """Read the files. With `read_only` a broker may rewrite them, so log starts are read again periodically."""
        self._path = path
        self._read_only = read_only
        self._clock = clock
        self._lock = threading.Lock()
        self._created: Offsets = {}  # partitions created since the last `save`, to be included in the next
        self._saved: tuple[Offsets, Offsets, Offsets] | None = (
            None  # what the last `save` wrote, if nothing else was written since
        )
        self._next_look_at_starts = 0.0
        self._next_high_watermark_check = 0.0
        self._changed: dict[str, int] = {}
        self._doubtful = set[str]()  # files whose last write failed: on disk is the old content or that of the write
        self._foreign: dict[str, tuple[str, ...]] = {}  # the lines of each file that are no entries here
        self._unreadable = set[str]()
        self._moved = set[TopicPartition]()  # whose log start was changed here
        self._offsets = {name: self._read(name) for name in (RECOVERY_POINTS, LOG_STARTS, CLEANER_OFFSETS)}

    def _read(self, name: str) -> Offsets:
        try:
            entries = checkpoint.read_offset_entries(os.path.join(self._path, name))
        except InvalidCheckpoint:
            self._unreadable.add(name)
            return {}
        self._unreadable.discard(name)
        self._foreign[name] = entries.foreign
        return entries.offsets

    def _write(self, name: str, offsets: Offsets) -> None:
        path = os.path.join(self._path, name)
        self._saved = None
        self._doubtful.add(name)
        if name in self._unreadable:
            files.rename(path, path + DAMAGED)
            self._unreadable.discard(name)
        checkpoint.write_offsets(path, offsets, self._foreign.get(name, ()))
        self._doubtful.discard(name)

    def _change(self, name: str, offsets: Offsets) -> None:
        """Write a file unless it is known to have this content. After an error the offsets in memory stay as before."""
        if offsets != self._offsets[name] or name in self._doubtful:
            self._write(name, offsets)
            self._offsets[name] = offsets

    # --- what they say -----------------------------------------------------------------------------------------------

    def recovery_point(self, partition: TopicPartition) -> int:
        """Return the offset below which all records are synced; 0 if unknown."""
        if self._read_only:
            self._reload(RECOVERY_POINTS)
        return self._offsets[RECOVERY_POINTS].get(partition, 0)

    def has_recovery_point(self, partition: TopicPartition) -> bool:
        """Whether the recovery point is known, even if it is 0."""
        return partition in self._offsets[RECOVERY_POINTS]

    def log_start(self, partition: TopicPartition) -> int:
        """Return the log start on disk, 0 without an entry."""
        return self.log_start_entry(partition) or 0

    def log_start_entry(self, partition: TopicPartition) -> int | None:
        """Return the log start on disk, None without an entry."""
        if self._read_only:
            recorded = files.recorded_log_start(os.path.join(self._path, str(partition)))
            if recorded is not None:
                return recorded
        if self._read_only and self._clock.monotonic() >= self._next_look_at_starts:
            self._next_look_at_starts = self._clock.monotonic() + LOG_START_CHECK_S
            self._reload(LOG_STARTS)
        return self._offsets[LOG_STARTS].get(partition)

    def _reload(self, name: str) -> None:
        """Read the file again if a broker changed it: it does so every minute, and when it deletes records or
        truncates.
        """
        changed = _changed_ns(os.path.join(self._path, name))
        if changed != self._changed.get(name):
            self._offsets[name], self._changed[name] = self._read(name), changed

    def high_watermark(self, partition: TopicPartition) -> int:
        """Return the high watermark that a broker has checkpointed, 0 without an entry. For readers only."""
        if self._clock.monotonic() >= self._next_high_watermark_check:
            self._next_high_watermark_check = self._clock.monotonic() + HIGH_WATERMARK_CHECK_S
            self._reload(HIGH_WATERMARKS)
        return self._offsets.get(HIGH_WATERMARKS, {}).get(partition, 0)

    def cleaner_offset(self, partition: TopicPartition) -> int | None:
        """Return where the next compaction begins; None without an entry.

        It may lie beyond the log end or below its start.
        """
        if self._read_only:
            self._reload(CLEANER_OFFSETS)
        return self._offsets[CLEANER_OFFSETS].get(partition)

    def is_cleaned(self, partition: TopicPartition) -> bool:
        """Whether a cleaner has compacted the partition, so that its topic is a compacted one."""
        return self.cleaner_offset(partition) is not None

    # --- changing them; on disk after return -------------------------------------------------------------------------

    def save(self, logs: Collection[Log]) -> None:
        """Write recovery points, high watermarks and log starts of these logs. Entries of other logs stay as they are.

        Writes nothing if the last call wrote the same, because the call comes every minute even without appends.
        """
        with self._lock:
            synced = {log.partition: log.recovery_point for log in logs}
            points, starts = self._created | self._offsets[RECOVERY_POINTS] | synced, self._log_starts_to_write(logs)
            if self._saved == (points, starts, synced):
                return
            self._write(RECOVERY_POINTS, points)
            self._offsets[RECOVERY_POINTS], self._created = points, {}
            self._write(LOG_STARTS, starts)
            self._write(HIGH_WATERMARKS, self._read(HIGH_WATERMARKS) | synced)
            self._saved = points, starts, synced

    def _log_starts_to_write(self, logs: Iterable[Log]) -> Offsets:
        """Return the log starts without those that were raised here to the base offset of the first segment.

        Kafka does not write those, except for logs in remote storage, whose entries are never changed here.
        """
        plain = {log.partition: log.snapshot().first.base_offset for log in logs if log.partition in self._moved}
        return {p: start for p, start in self._offsets[LOG_STARTS].items() if start > plain.get(p, -1)}

    def raise_log_starts(self, starts: Mapping[TopicPartition, int]) -> None:
        """Raise log starts to offsets below which all records are synced. After an error they are unchanged.

        One write for all logs, and a second one only if a recovery point lies below the new start.
        """
        with self._lock:
            raised = {p: start for p, start in starts.items() if start > self._offsets[LOG_STARTS].get(p, 0)}
            points = self._offsets[RECOVERY_POINTS]
            synced = {p: start for p, start in raised.items() if start > points.get(p, 0)}
            self._change(RECOVERY_POINTS, points | synced)
            self._moved |= raised.keys()
            self._change(LOG_STARTS, self._offsets[LOG_STARTS] | raised)

    def raise_recovery_point(self, partition: TopicPartition, offset: int) -> None:
        """Record that all records below `offset` are synced."""
        with self._lock:
            points = self._offsets[RECOVERY_POINTS]
            if offset > points.get(partition, 0):
                self._change(RECOVERY_POINTS, points | {partition: offset})

    def cut(self, partition: TopicPartition, offset: int, cleaner_offset_max: int) -> None:
        """Cut the checkpoints of a synced log to `offset`, and its cleaner offset to `cleaner_offset_max`."""
        with self._lock:
            self._change(RECOVERY_POINTS, self._offsets[RECOVERY_POINTS] | {partition: offset})
            for name, most in ((LOG_STARTS, offset), (CLEANER_OFFSETS, cleaner_offset_max)):
                offsets = self._offsets[name]
                if offsets.get(partition, 0) > most:
                    offsets = offsets | {partition: most}
                self._change(name, offsets)

    def restart(self, partition: TopicPartition, offset: int) -> None:
        """Reset the checkpoints of a log that was emptied and continues at `offset`.

        A cleaner offset becomes `offset`: without an entry the topic would count as one that was never compacted.
        """
        with self._lock:
            self._moved.add(partition)
            for name in (LOG_STARTS, RECOVERY_POINTS):
                self._change(name, self._offsets[name] | {partition: offset})
            if partition in self._offsets[CLEANER_OFFSETS]:
                self._change(CLEANER_OFFSETS, self._offsets[CLEANER_OFFSETS] | {partition: offset})

    def set_cleaner_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Set where the next compactions begin (None: at the beginning)."""
        with self._lock:
            kept = _without(self._offsets[CLEANER_OFFSETS], offsets.keys())
            self._change(CLEANER_OFFSETS, kept | {p: offset for p, offset in offsets.items() if offset is not None})

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Drop the entries of deleted partitions, because new partitions of the same names begin at 0."""
        with self._lock:
            self._created = _without(self._created, partitions)
            for name, offsets in self._offsets.items():
                self._change(name, _without(offsets, partitions))
            watermarks = self._read(HIGH_WATERMARKS)
            if not watermarks.keys().isdisjoint(partitions):
                self._write(HIGH_WATERMARKS, _without(watermarks, partitions))

    def copy(self, names: Mapping[TopicPartition, TopicPartition]) -> None:
        """Give the entries of partitions to others (`names`) as well, where those have none."""
        with self._lock:
            for name, offsets in self._offsets.items():
                self._change(name, _copied(offsets, names))
            watermarks = self._read(HIGH_WATERMARKS)
            if watermarks != _copied(watermarks, names):
                self._write(HIGH_WATERMARKS, _copied(watermarks, names))

    def begin(self, partitions: Collection[TopicPartition]) -> None:
        """Include new partitions in the next `save`: their empty logs are on disk."""
        with self._lock:
            self._created |= dict.fromkeys(partitions, 0)


def _without(offsets: Offsets, partitions: Collection[TopicPartition]) -> Offsets:
    return {p: offset for p, offset in offsets.items() if p not in partitions}


def _copied(offsets: Offsets, names: Mapping[TopicPartition, TopicPartition]) -> Offsets:
    return {other: offsets[partition] for partition, other in names.items() if partition in offsets} | offsets


def _changed_ns(path: str) -> int:
    try:
        return files.status(path).st_mtime_ns
    except FileNotFoundError:
        return 0
