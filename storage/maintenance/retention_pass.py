"""A retention pass over many partitions that opens few logs and writes few checkpoints.

    all partitions ─→ a stat rules most of them out ─→ `BATCH` logs at a time: open, decide, one checkpoint, remove,
                                                       close the logs that were not open before

The age of the oldest segment of a closed log is cached. Until it is old enough, or a file changes, one stat of the
directory is sufficient. Follows LogManager.cleanupLogs. `retention` decides for one log; `background_tasks` decides
when to run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import StorageError, UnknownPartition
from offsetfs.storage.maintenance.cleaner import PartitionClaims
from offsetfs.storage.maintenance.partition_stat import PartitionStat
from offsetfs.storage.names import METADATA_TOPIC, TopicPartition
from offsetfs.storage.partition import retention
from offsetfs.storage.settings.config import LogConfig

BATCH = 64
"""The number of logs that are held open at a time, and share one write of the checkpoint."""


class RetentionPass:
    """Retention of one directory. Used by one thread at a time; skips partitions that another task has claimed."""

    def __init__(
        self,
        directory: LogDirectory,
        claims: PartitionClaims,
        on_removed: Callable[[retention.RemovedSegments], None],
        on_failure: Callable[[Exception, TopicPartition], None],
        is_cancelled: Callable[[], bool],
    ) -> None:
        self._directory = directory
        self._claims = claims
        self._on_removed = on_removed
        self._on_failure = on_failure
        self._is_cancelled = is_cancelled
        self._stats: dict[TopicPartition, PartitionStat] = {}
        self._not_before: dict[TopicPartition, tuple[int, LogConfig, int]] = {}

    def run(self, partitions: Iterable[tuple[TopicPartition, LogConfig]]) -> None:
        """Remove expired segments of these partitions.

        Raises OSError if log starts cannot be written: then nothing is removed.
        """
        candidates = self._may_expire(partitions)
        while not self._is_cancelled() and (batch := list(islice(candidates, BATCH))):
            with ExitStack() as held:
                self._sweep([partition for partition in batch if self._open_claimed(held, partition)])

    # --- selection ----------------------------------------------------------------------------------------------------

    def _may_expire(self, partitions: Iterable[tuple[TopicPartition, LogConfig]]) -> Iterator[TopicPartition]:
        now_ms = self._directory.cautious_clock.now_ms()
        for partition, config in partitions:
            try:
                if partition.topic != METADATA_TOPIC and self._check(partition, config, now_ms):
                    yield partition
            except FileNotFoundError:
                continue  # deleted meanwhile

    def _check(self, partition: TopicPartition, config: LogConfig, now_ms: int) -> bool:
        if self._directory.opened(partition) is not None:
            return True  # asking the open log is cheaper than a stat
        path = os.path.join(self._directory.path, str(partition))
        stat = self._stats[partition] = PartitionStat.at(path, self._stats.get(partition))
        if not self._directory.knows_policy(partition.topic):
            config = replace(config, retention_ms=-1, retention_bytes=-1)
        known = self._not_before.get(partition)
        if known is not None and known[:2] == (stat.changed_ns, config) and now_ms < known[2]:
            return False
        return stat.may_expire(config, self._directory.checkpoints.log_start(partition), now_ms)

    def _cache_expiry(self, partition: TopicPartition) -> None:
        """Cache until when the oldest segment is too young to expire, so that the log is not opened before."""
        log = self._directory.opened(partition)
        if log is None or not log.config.is_deleted or log.config.retention_ms < 0 or log.config.retention_bytes >= 0:
            return
        latest_ms = log.snapshot().first.max_timestamp()[0]
        if latest_ms >= 0:
            until_ms = latest_ms + log.config.retention_ms
            self._not_before[partition] = (PartitionStat.at(log.path).changed_ns, log.config, until_ms)

    # --- a batch ------------------------------------------------------------------------------------------------------

    def _open_claimed(self, held: ExitStack, partition: TopicPartition) -> bool:
        """Claim and open a log until `held` ends; False if a compaction has claimed it, or it does not open."""
        if not held.enter_context(self._claims.claimed(partition)):
            return False
        try:
            held.enter_context(self._directory.borrowed(partition))
        except UnknownPartition:
            return False
        except (StorageError, OSError) as error:
            self._on_failure(error, partition)
            return False
        return True

    def _sweep(self, partitions: list[TopicPartition]) -> None:
        try:
            now_ms = self._directory.cautious_clock.now_ms()
            removed, failures = retention.sweep(self._directory, partitions, now_ms)
        except OSError:
            raise  # of the checkpoint, which all logs of the batch share
        except Exception as unforeseen:  # an error of one partition, whatever it is, must not stop the others
            for partition in partitions if len(partitions) > 1 else ():
                self._sweep([partition])
            if len(partitions) == 1:
                self._on_failure(unforeseen, partitions[0])
            return
        for segment in removed:
            self._on_removed(segment)
        for partition, error in failures.items():
            self._on_failure(error, partition)
        for partition in partitions:
            if partition not in failures:
                self._cache_expiry(partition)
