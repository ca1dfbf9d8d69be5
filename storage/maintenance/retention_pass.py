"""Retention over many partitions, opening few logs and writing few checkpoints.

    all that are asked for ─→ a glance rules most of them out ─→ `BATCH` logs at a time: open, decide, one checkpoint,
                                                                 remove, close those that nobody had open

What a closed log said of its oldest segment is remembered: until that is old enough, or a file changes, one stat of the
directory answers. Follows LogManager.cleanupLogs. Not here: what is due of one log (retention), when it is time
(duties).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice

from offsetfs.storage.directory.directory import METADATA_TOPIC, LogDirectory
from offsetfs.storage.errors import StorageError, UnknownPartition
from offsetfs.storage.maintenance.cleaner import PartitionClaims
from offsetfs.storage.maintenance.partition_stat import PartitionStat
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition import retention
from offsetfs.storage.settings.config import LogConfig

BATCH = 64
"""How many logs are held open at a time, for one write of the checkpoint of all of them."""


class RetentionPass:
    """Retention of one directory. One thread at a time; a partition that another duty is at is passed over."""

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
        self._glances: dict[TopicPartition, PartitionStat] = {}
        self._not_before: dict[TopicPartition, tuple[int, LogConfig, int]] = {}

    def run(self, partitions: Iterable[tuple[TopicPartition, LogConfig]]) -> None:
        """Remove what is due of these partitions. OSError when log starts cannot be written: then nothing goes."""
        candidates = self._may_expire(partitions)
        while not self._is_cancelled() and (batch := list(islice(candidates, BATCH))):
            with ExitStack() as held:
                self._sweep([partition for partition in batch if self._holds(held, partition)])

    # --- from outside ------------------------------------------------------------------------------------------------

    def _may_expire(self, partitions: Iterable[tuple[TopicPartition, LogConfig]]) -> Iterator[TopicPartition]:
        now_ms = self._directory.cautious_clock.now_ms()
        for partition, config in partitions:
            try:
                if partition.topic != METADATA_TOPIC and self._look(partition, config, now_ms):
                    yield partition
            except FileNotFoundError:
                continue  # deleted meanwhile

    def _look(self, partition: TopicPartition, config: LogConfig, now_ms: int) -> bool:
        if self._directory.opened(partition) is not None:
            return True  # asking it costs less than looking
        path = os.path.join(self._directory.path, str(partition))
        glance = self._glances[partition] = PartitionStat.at(path, self._glances.get(partition))
        if not self._directory.knows_policy(partition.topic):
            config = replace(config, retention_ms=-1, retention_bytes=-1)
        known = self._not_before.get(partition)
        if known is not None and known[:2] == (glance.changed_ns, config) and now_ms < known[2]:
            return False
        return glance.may_expire(config, self._directory.known_log_start(partition), now_ms)

    def _remember(self, partition: TopicPartition) -> None:
        """Note until when the oldest segment is too young to go, so that the log need not be opened before."""
        log = self._directory.opened(partition)
        if log is None or not log.config.is_deleted or log.config.retention_ms < 0 or log.config.retention_bytes >= 0:
            return
        latest_ms = log.snapshot().first.max_timestamp()[0]
        if latest_ms >= 0:
            until_ms = latest_ms + log.config.retention_ms
            self._not_before[partition] = (PartitionStat.at(log.path).changed_ns, log.config, until_ms)

    # --- a batch -----------------------------------------------------------------------------------------------------

    def _holds(self, held: ExitStack, partition: TopicPartition) -> bool:
        """Claim and open a log until `held` ends; False where a compaction is at it, or it does not open."""
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
            raise  # of the checkpoint, which is everybody's
        except Exception as unforeseen:  # whatever is wrong with one of them, the others are not to blame
            for partition in partitions if len(partitions) > 1 else ():
                self._sweep([partition])
            if len(partitions) == 1:
                self._on_failure(unforeseen, partitions[0])
            return
        for each in removed:
            self._on_removed(each)
        for partition, error in failures.items():
            self._on_failure(error, partition)
        for partition in partitions:
            if partition not in failures:
                self._remember(partition)
