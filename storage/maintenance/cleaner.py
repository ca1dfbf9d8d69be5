"""Compaction of a whole directory: which partitions are due, the dirtiest first, one after another.

    look at each compacted partition ─→ clean what is due, by dirty ratio ─→ look again ─→ … until nothing is due

A partition is looked at from outside first (glance), so that ten thousand of them are not opened to learn that nothing
is to be done; what one look found stands until the partition's files or settings change, or time may have changed it.
A log that cannot be cleaned because of damage is left alone until one of them changes; one for which there was no room
is tried again later. Several cleaners may work beside each other on one directory, each with a map of its own.

Only topics whose settings are known here are compacted: a broker keeps its own elsewhere. Follows Kafka's LogCleaner
and LogCleanerManager (grabFilthiestCompactedLog). Not here: when it is time (duties), the work itself (compaction).
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
from offsetfs.storage.settings.config_values import LONG_MAX

RECHECK_MS = 300_000
"""When a partition is looked at again of which only time can change what was found, or that failed for want of room."""

OnCleaned = Callable[[TopicPartition, DirtyRange, CompactionResult], None]
OnProgress = Callable[[int, int], None]
"""Called with the bytes that a round has read and written, and those that it will have at most."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What the last look at a partition found not to be due, and when that has to be asked again."""

    changed_ns: int
    config: LogConfig
    until_ms: int

    def holds(self, glance: PartitionStat, config: LogConfig, now_ms: int) -> bool:
        return self.changed_ns == glance.changed_ns and self.config is config and now_ms < self.until_ms


class PartitionClaims:
    """Which partitions are being worked on: no two duties take the same one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: set[TopicPartition] = set()

    @contextmanager
    def claimed(self, partition: TopicPartition) -> Iterator[bool]:
        """Yield whether the partition is ours for the block; False when somebody else is at it."""
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
    """Cleans the partitions of one directory. `run` is for one thread; several cleaners share `claims`."""

    def __init__(
        self,
        directory: LogDirectory,
        claims: PartitionClaims,
        on_cleaned: OnCleaned,
        on_failure: Callable[[Exception, TopicPartition], None],
        is_cancelled: Callable[[], bool],
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """`is_cancelled` ends a round; `sleep` is how the throttle waits, and may return early once it is cancelled."""
        self._directory = directory
        self._claims = claims
        self._on_cleaned = on_cleaned
        self._on_failure = on_failure
        self._is_cancelled = is_cancelled
        self._sleep = sleep
        self._glances: dict[TopicPartition, PartitionStat] = {}
        self._found: dict[TopicPartition, _Found] = {}

    def run(self) -> int:
        """Clean until nothing is due; return how many rounds that took."""
        rounds = 0
        while not self._is_cancelled():
            due = sorted(self._due(), key=lambda found: -found[1].ratio)
            done = sum(self.clean(partition) for partition, _ in due)
            rounds += done
            if not done:
                break
        return rounds

    # --- looking -----------------------------------------------------------------------------------------------------

    def compacted(self) -> Iterator[tuple[TopicPartition, LogConfig]]:
        """Yield the partitions whose topics are compacted here."""
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
                found = self._look(partition, config, now_ms)
            except (UnknownPartition, FileNotFoundError):
                continue  # deleted meanwhile
            except Exception as error:  # whatever is wrong with one of them, the others are not to blame
                self._failed(partition, error)
                continue
            if found is not None and found.is_due:
                yield partition, found

    def _look(self, partition: TopicPartition, config: LogConfig, now_ms: int) -> DirtyRange | None:
        glance = self._glance(partition)
        known = self._found.get(partition)
        if known is not None and known.holds(glance, config, now_ms):
            return None
        if not glance.may_be_cleanable(config, self._directory.cleaner_offset(partition)):
            return None
        with self._directory.borrowed(partition) as log:
            found = self._cleanable(log, now_ms)
            is_bounded_by_roll = found.first_uncleanable == log.snapshot().active.base_offset
        if not found.is_due:
            # Only a roll, which changes names, makes more of it: unless a lag or an open transaction holds it back.
            is_lasting = is_bounded_by_roll and config.max_compaction_lag_ms == LONG_MAX
            self._found[partition] = _Found(glance.changed_ns, config, LONG_MAX if is_lasting else now_ms + RECHECK_MS)
        return found

    def _glance(self, partition: TopicPartition) -> PartitionStat:
        path = os.path.join(self._directory.path, str(partition))
        glance = self._glances[partition] = PartitionStat.at(path, self._glances.get(partition))
        return glance

    def _cleanable(self, log: Log, now_ms: int) -> DirtyRange:
        return find_dirty_range(log, self._directory.cleaner_offset(log.partition), now_ms)

    # --- cleaning ----------------------------------------------------------------------------------------------------

    def clean(self, partition: TopicPartition, *, anyhow: bool = False, on_progress: OnProgress | None = None) -> bool:
        """Make one round of a partition, if it is due or, with `anyhow`, dirty at all; return whether one was made."""
        with self._claims.claimed(partition) as is_ours:
            if not is_ours or self._is_cancelled():
                return False
            try:
                with self._directory.borrowed(partition) as log:
                    now_ms = self._directory.cautious_clock.now_ms()
                    found = self._cleanable(log, now_ms)
                    is_wanted = found.cleanable_bytes > 0 if anyhow else found.is_due
                    return is_wanted and self._clean(log, found, now_ms, on_progress)
            except (UnknownPartition, SegmentsChanged, CompactionCancelled):
                return False  # deleted or cut meanwhile, or told to end: the next look sees what is left
            except Exception as error:
                if self._directory.has(partition):  # else it was deleted under our hands, and that is no failure
                    self._failed(partition, error)
                return False

    def _clean(self, log: Log, found: DirtyRange, now_ms: int, on_progress: OnProgress | None) -> bool:
        config = self._directory.config
        meter = _Meter(config.log_cleaner_io_max_bytes_per_second, self._sleep, found, on_progress)
        done = clean(
            log,
            found,
            now_ms=now_ms,
            map_bytes=config.log_cleaner_dedupe_buffer_size // config.log_cleaner_threads,
            load_factor=config.log_cleaner_io_buffer_load_factor,
            throttle=meter,
            is_cancelled=lambda: self._is_cancelled() or log.is_gone,
        )
        self._directory.set_cleaner_offset(log.partition, done.end_offset)
        self._on_cleaned(log.partition, found, done)
        return done.end_offset > found.first_dirty

    def _failed(self, partition: TopicPartition, error: Exception) -> None:
        """Leave a partition alone: a damaged one until it changes, others for a while."""
        glance = self._glances.get(partition)
        if glance is not None:
            now_ms = self._directory.cautious_clock.now_ms()
            until_ms = now_ms + RECHECK_MS if isinstance(error, OSError) else LONG_MAX
            config = self._directory.config_of(partition.topic)
            self._found[partition] = _Found(glance.changed_ns, config, until_ms)
        self._on_failure(error, partition)


class _Meter(Throttle):
    """A throttle that tells how much went by."""

    def __init__(
        self,
        bytes_per_second: float,
        sleep: Callable[[float], object],
        found: DirtyRange,
        on_progress: OnProgress | None,
    ) -> None:
        super().__init__(bytes_per_second or float("inf"), sleep=sleep)
        self._on_progress = on_progress
        self._bytes = 0
        self._bytes_max = found.cleanable_bytes + 2 * (found.clean_bytes + found.cleanable_bytes)

    def take(self, count: int) -> None:
        self._bytes += count
        if self._on_progress is not None:
            self._on_progress(self._bytes, self._bytes_max)
        super().take(count)
