"""What the checkpoints of a log directory say of each partition, and putting it on disk.

    recovery-point-offset-checkpoint    below it everything was synced: recovery after a crash begins there
    log-start-offset-checkpoint         where a log begins, when that is not the base offset of its first segment
    replication-offset-checkpoint       the high watermark: what all replicas have; for one replica, what was synced
    cleaner-offset-checkpoint           where the next compaction of a partition begins

A log start only rises: it is on disk before a log shows it, and before a file goes that it leaves behind. A file that
cannot be read costs time, never records, as in Kafka: recovery points 0, log starts from the first segment, compaction
from the beginning. Follows LogManager and LogCleanerManager. Safe to use from any thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterable, Mapping

from offsetfs.storage import checkpoint, files
from offsetfs.storage.checkpoint import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from offsetfs.storage.clock import Clock
from offsetfs.storage.errors import InvalidCheckpoint
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log

LOOK_AT_STARTS_S = 1.0
HIGH_WATERMARK_CHECK_S = 0.1
"""A broker writes its high watermarks every five seconds, unless it is configured otherwise."""

Offsets = dict[TopicPartition, int]


class DirectoryCheckpoints:
    """The offsets of one directory's checkpoints."""

    def __init__(self, path: str, *, read_only: bool, clock: Clock) -> None:
        """Read the files. `read_only`: a broker may write them anew, so that log starts are looked at again."""
        self._path = path
        self._read_only = read_only
        self._clock = clock
        self._lock = threading.Lock()
        self._begun: Offsets = {}  # partitions that were made since the last `save`, to be told of by it
        self._saved: tuple[Offsets, Offsets, Offsets] | None = None  # what `save` wrote, if nothing else was since
        self._next_look_at_starts = 0.0
        self._next_high_watermark_check = 0.0
        self._changed: dict[str, int] = {}
        self._offsets = {name: self._read(name) for name in (RECOVERY_POINTS, LOG_STARTS, CLEANER_OFFSETS)}

    def _read(self, name: str) -> Offsets:
        try:
            return checkpoint.read_offsets(os.path.join(self._path, name))
        except InvalidCheckpoint:
            return {}

    def _write(self, name: str, offsets: Offsets) -> None:
        self._saved = None
        checkpoint.write_offsets(os.path.join(self._path, name), offsets)

    def _change(self, name: str, offsets: Offsets) -> None:
        """Write a file, unless it says so already; what cannot be written does not hold."""
        if offsets != self._offsets[name]:
            self._write(name, offsets)
            self._offsets[name] = offsets

    # --- what they say -----------------------------------------------------------------------------------------------

    def recovery_point(self, partition: TopicPartition) -> int:
        """Return the offset below which everything was synced; 0 when nothing is known."""
        if self._read_only:
            self._look_at(RECOVERY_POINTS)
        return self._offsets[RECOVERY_POINTS].get(partition, 0)

    def has_recovery_point(self, partition: TopicPartition) -> bool:
        """Whether the recovery point is known, be it 0."""
        return partition in self._offsets[RECOVERY_POINTS]

    def log_start(self, partition: TopicPartition) -> int:
        """Return the log start that is on disk, 0 when there is none."""
        if self._read_only and self._clock.monotonic() >= self._next_look_at_starts:
            self._next_look_at_starts = self._clock.monotonic() + LOOK_AT_STARTS_S
            self._look_at(LOG_STARTS)
        return self._offsets[LOG_STARTS].get(partition, 0)

    def _look_at(self, name: str) -> None:
        """Take in what a running broker wrote, which it does every minute, and when it deletes or truncates."""
        changed = _changed_ns(os.path.join(self._path, name))
        if changed != self._changed.get(name):
            self._offsets[name], self._changed[name] = self._read(name), changed

    def high_watermark(self, partition: TopicPartition) -> int:
        """Return the high watermark that a broker has checkpointed, 0 when there is none. For a reader alone."""
        if self._clock.monotonic() >= self._next_high_watermark_check:
            self._next_high_watermark_check = self._clock.monotonic() + HIGH_WATERMARK_CHECK_S
            self._look_at(HIGH_WATERMARKS)
        return self._offsets.get(HIGH_WATERMARKS, {}).get(partition, 0)

    def cleaner_offset(self, partition: TopicPartition) -> int | None:
        """Return where the next compaction begins; None when nothing says so. It may lie beyond the log, or below."""
        return self._offsets[CLEANER_OFFSETS].get(partition)

    def is_cleaned(self, partition: TopicPartition) -> bool:
        """Whether a cleaner has been here: the topic is a compacted one."""
        return partition in self._offsets[CLEANER_OFFSETS]

    # --- changing them; on disk after return -------------------------------------------------------------------------

    def save(self, logs: Collection[Log]) -> None:
        """Write recovery points and high watermarks of these logs, and log starts; others keep what they have.

        Writes nothing where the last call wrote the same: it comes every minute, also when nobody appends.
        """
        with self._lock:
            synced = {log.partition: log.recovery_point for log in logs}
            points, starts = self._begun | self._offsets[RECOVERY_POINTS] | synced, self._telling_starts(logs)
            if self._saved == (points, starts, synced):
                return
            self._write(RECOVERY_POINTS, points)
            self._offsets[RECOVERY_POINTS], self._begun = points, {}
            self._write(LOG_STARTS, starts)
            self._write(HIGH_WATERMARKS, self._read(HIGH_WATERMARKS) | synced)
            self._saved = points, starts, synced

    def _telling_starts(self, logs: Iterable[Log]) -> Offsets:
        """Return the log starts without those that the first segment's name says as well: as Kafka writes them."""
        plain = {log.partition: log.snapshot().first.base_offset for log in logs}
        return {p: start for p, start in self._offsets[LOG_STARTS].items() if start > plain.get(p, -1)}

    def raise_log_starts(self, starts: Mapping[TopicPartition, int]) -> None:
        """Let logs begin later, at offsets below which everything is synced. On an error they begin where they did.

        One write for all of them; a second one only where a recovery point lies below the new start.
        """
        with self._lock:
            raised = {p: start for p, start in starts.items() if start > self._offsets[LOG_STARTS].get(p, 0)}
            points = self._offsets[RECOVERY_POINTS]
            synced = {p: start for p, start in raised.items() if start > points.get(p, 0)}
            self._change(RECOVERY_POINTS, points | synced)
            self._change(LOG_STARTS, self._offsets[LOG_STARTS] | raised)

    def raise_recovery_point(self, partition: TopicPartition, offset: int) -> None:
        """Note that everything below `offset` was synced."""
        with self._lock:
            points = self._offsets[RECOVERY_POINTS]
            if offset > points.get(partition, 0):
                self._change(RECOVERY_POINTS, points | {partition: offset})

    def cut(self, partition: TopicPartition, offset: int, cleaner_offset_max: int) -> None:
        """Let a log that is synced end at `offset`; its cleaner has seen at most what is below `cleaner_offset_max`."""
        with self._lock:
            self._change(RECOVERY_POINTS, self._offsets[RECOVERY_POINTS] | {partition: offset})
            for name, most in ((LOG_STARTS, offset), (CLEANER_OFFSETS, cleaner_offset_max)):
                offsets = self._offsets[name]
                if offsets.get(partition, 0) > most:
                    self._change(name, offsets | {partition: most})

    def restart(self, partition: TopicPartition, offset: int) -> None:
        """Let the partition begin anew at `offset`, empty."""
        with self._lock:
            for name in (LOG_STARTS, RECOVERY_POINTS):
                self._change(name, self._offsets[name] | {partition: offset})
            self._change(CLEANER_OFFSETS, _without(self._offsets[CLEANER_OFFSETS], {partition}))

    def set_cleaner_offset(
        self, partition: TopicPartition, offset: int | None, existing: Collection[TopicPartition]
    ) -> None:
        """Let the next compaction begin at `offset` (None: at the beginning); partitions that are gone go here, too."""
        with self._lock:
            kept = {p: known for p, known in self._offsets[CLEANER_OFFSETS].items() if p in existing and p != partition}
            self._change(CLEANER_OFFSETS, kept if offset is None else kept | {partition: offset})

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Drop what is said of partitions that were removed: those that are made under their names begin at 0."""
        with self._lock:
            self._begun = _without(self._begun, partitions)
            for name, offsets in self._offsets.items():
                self._change(name, _without(offsets, partitions))
            watermarks = self._read(HIGH_WATERMARKS)
            if not watermarks.keys().isdisjoint(partitions):
                self._write(HIGH_WATERMARKS, _without(watermarks, partitions))

    def begin(self, partitions: Collection[TopicPartition]) -> None:
        """Have the next `save` tell of partitions that were just made: all of nothing is on disk."""
        with self._lock:
            self._begun |= dict.fromkeys(partitions, 0)


def _without(offsets: Offsets, partitions: Collection[TopicPartition]) -> Offsets:
    return {p: offset for p, offset in offsets.items() if p not in partitions}


def _changed_ns(path: str) -> int:
    try:
        return files.status(path).st_mtime_ns
    except FileNotFoundError:
        return 0
