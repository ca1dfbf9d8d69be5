"""Compaction of a directory: selects the partitions that are due, and compacts the dirtiest first.

    check each compacted partition ─→ compact those that are due, by dirty ratio ─→ check again ─→ … until none is due

A partition is first checked by a stat of its files, so that ten thousand logs are not opened in vain. A result is
cached until the partition's files or settings change, or the time passes at which it may differ. A log that failed
because of damage is skipped until its files or settings change. A log that failed for lack of free space is retried
later. Several cleaners may work on one directory, each with its own offset map.

Only topics whose settings are known are compacted; a broker keeps its settings elsewhere. Follows Kafka's LogCleaner
and LogCleanerManager (grabFilthiestCompactedLog). `background_tasks` decides when to run; `compaction` does the work.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from offsetfs.storage.compaction.compaction import CompactionResult, DirtyRange, Throttle, clean, find_dirty_range
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import CompactionCancelled, SegmentsChanged, UnknownPartition
from offsetfs.storage.maintenance.partition_stat import PartitionStat
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.settings.config import LogConfig
from offsetfs.storage.units import I64_MAX

RECHECK_MS = 300_000
"""The delay before a partition is checked again if only time can change the result, or after an I/O error."""

OnCleaned = Callable[[TopicPartition, DirtyRange, CompactionResult], None]
OnProgress = Callable[[int, int], None]
"""Called with the bytes that a round has read and written, and their maximum."""


@dataclass(frozen=True, slots=True)
class _NotDue:
    """A cached result: the partition was not due, until its files or settings change or `until_ms` is reached."""

    changed_ns: int
    config: LogConfig
    until_ms: int

    def holds(self, stat: PartitionStat, config: LogConfig, now_ms: int) -> bool:
        return self.changed_ns == stat.changed_ns and self.config is config and now_ms < self.until_ms


class PartitionClaims:
    """The partitions that tasks are working on. A partition is claimed by one task at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: set[TopicPartition] = set()

    @contextmanager
    def claimed(self, partition: TopicPartition) -> Iterator[bool]:
        """Claim the partition for the block. Yields False if another task has claimed it."""
        with self._lock:
            is_ours = partition not in self._taken
            self._taken.add(partition)
        try:
            yield is_ours
        finally:
            if is_ours:
                with self._lock:
                    self._taken.discard(partition)


class LogCleaner:
    """Compacts the partitions of one directory. One thread calls `run`; several cleaners share `claims`."""

    def __init__(
        self,
        directory: LogDirectory,
        claims: PartitionClaims,
        on_cleaned: OnCleaned,
        on_failure: Callable[[Exception, TopicPartition], None],
        is_cancelled: Callable[[], bool],
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """`is_cancelled` ends a round. `sleep` is how the throttle waits; it may return early after a cancellation."""
        self._directory = directory
        self._claims = claims
        self._on_cleaned = on_cleaned
        self._on_failure = on_failure
        self._is_cancelled = is_cancelled
        self._sleep = sleep
        self._stats: dict[TopicPartition, PartitionStat] = {}
        self._not_due: dict[TopicPartition, _NotDue] = {}

    def run(self) -> int:
        """Compact until no partition is due; return the number of rounds."""
        rounds = 0
        while not self._is_cancelled():
            # The dirtiest first, as grabFilthiestCompactedLog: it frees most for the bytes that a round reads.
            due = sorted(self._due(), key=lambda entry: -entry[1].ratio)
            done = sum(self.clean(partition) for partition, _ in due)
            rounds += done
            if not done:
                break
        return rounds

    # --- selection ----------------------------------------------------------------------------------------------------

    def compacted(self) -> Iterator[tuple[TopicPartition, LogConfig]]:
        """Yield the compacted partitions whose settings are known."""
        directory, known = self._directory, dict[str, LogConfig | None]()
        for partition in directory.partitions():
            topic = partition.topic
            if topic not in known:
                config = directory.config_of(topic)
                known[topic] = config if config.is_compacted and directory.knows_policy(topic) else None
            topic_config = known[topic]
            if topic_config is not None and partition not in directory.failed:
                yield partition, topic_config

    def _due(self) -> Iterator[tuple[TopicPartition, DirtyRange]]:
        now_ms = self._directory.cautious_clock.now_ms()
        for partition, config in self.compacted():
            try:
                dirty = self._check(partition, config, now_ms)
            except (UnknownPartition, FileNotFoundError):
                continue  # deleted meanwhile
            except Exception as error:  # an error of one partition, whatever it is, must not stop the others
                self._failed(partition, error)
                continue
            if dirty is not None and dirty.is_due:
                yield partition, dirty

    def _check(self, partition: TopicPartition, config: LogConfig, now_ms: int) -> DirtyRange | None:
        stat = self._stat(partition)
        known = self._not_due.get(partition)
        if known is not None and known.holds(stat, config, now_ms):
            return None
        # A stat of the names, because opening ten thousand logs for a look takes minutes and all descriptors.
        if not stat.may_be_cleanable(config, self._directory.cleaner_offset(partition)):
            return None
        with self._directory.borrowed(partition) as log:
            dirty = self._cleanable(log, now_ms)
            is_bounded_by_roll = dirty.first_uncleanable == log.snapshot().active.base_offset
        if not dirty.is_due:
            # Only a roll adds cleanable bytes, and a roll changes names. A lag or an open transaction ends with time,
            # though.
            is_lasting = is_bounded_by_roll and config.max_compaction_lag_ms == I64_MAX
            self._not_due[partition] = _NotDue(stat.changed_ns, config, I64_MAX if is_lasting else now_ms + RECHECK_MS)
        return dirty

    def _stat(self, partition: TopicPartition) -> PartitionStat:
        path = os.path.join(self._directory.path, str(partition))
        stat = self._stats[partition] = PartitionStat.at(path, self._stats.get(partition))
        return stat

    def _cleanable(self, log: Log, now_ms: int) -> DirtyRange:
        return find_dirty_range(log, self._directory.cleaner_offset(log.partition), now_ms)

    # --- compaction ---------------------------------------------------------------------------------------------------

    def clean(self, partition: TopicPartition, *, force: bool = False, on_progress: OnProgress | None = None) -> bool:
        """Make one round of a partition if it is due or, with `force`, if it is dirty; return whether one was made."""
        with self._claims.claimed(partition) as is_ours:
            if not is_ours or self._is_cancelled():
                return False
            try:
                with self._directory.borrowed(partition) as log:
                    now_ms = self._directory.cautious_clock.now_ms()
                    dirty = self._cleanable(log, now_ms)
                    is_wanted = dirty.cleanable_bytes > 0 if force else dirty.is_due
                    return is_wanted and self._clean(log, dirty, now_ms, on_progress)
            except (UnknownPartition, SegmentsChanged, CompactionCancelled):
                return False  # deleted, truncated or cancelled: the next check sees the new state
            except Exception as error:
                if self._directory.has(partition):  # not a failure if the partition was deleted during the round
                    self._failed(partition, error)
                return False

    def _clean(self, log: Log, dirty: DirtyRange, now_ms: int, on_progress: OnProgress | None) -> bool:
        config = self._directory.config
        meter = _MeteredThrottle(config.log_cleaner_io_max_bytes_per_second, self._sleep, dirty, on_progress)
        done = clean(
            log,
            dirty,
            now_ms=now_ms,
            # As Kafka: the buffer is for all threads together.
            map_bytes=config.log_cleaner_dedupe_buffer_size // config.log_cleaner_threads,
            load_factor=config.log_cleaner_io_buffer_load_factor,
            throttle=meter,
            is_cancelled=lambda: self._is_cancelled() or log.is_gone,
        )
        self._directory.set_cleaner_offset(log.partition, done.end_offset)
        self._on_cleaned(log.partition, dirty, done)
        return done.end_offset > dirty.first_dirty

    def _failed(self, partition: TopicPartition, error: Exception) -> None:
        """Skip a partition after an error: until it changes if it is damaged, for `RECHECK_MS` after an I/O error."""
        stat = self._stats.get(partition)
        if stat is not None:
            now_ms = self._directory.cautious_clock.now_ms()
            # A full disk or a failed read may be temporary. A damaged batch does not: trying again would read the
            # segment every 15 seconds (KIP-346 marks such partitions as uncleanable).
            until_ms = now_ms + RECHECK_MS if isinstance(error, OSError) else I64_MAX
            config = self._directory.config_of(partition.topic)
            self._not_due[partition] = _NotDue(stat.changed_ns, config, until_ms)
        self._on_failure(error, partition)


class _MeteredThrottle(Throttle):
    """A throttle that reports progress."""

    def __init__(
        self,
        bytes_per_second: float,
        sleep: Callable[[float], object],
        dirty: DirtyRange,
        on_progress: OnProgress | None,
    ) -> None:
        super().__init__(bytes_per_second or float("inf"), sleep=sleep)
        self._on_progress = on_progress
        self._bytes = 0
        self._bytes_max = dirty.cleanable_bytes + 2 * (dirty.clean_bytes + dirty.cleanable_bytes)

    def take(self, count: int) -> None:
        self._bytes += count
        if self._on_progress is not None:
            self._on_progress(self._bytes, self._bytes_max)
        super().take(count)
