"""`compact`: runs the engine's cleaner on all partitions in parallel; keeps the latest record of each key.

    driver   holds the log directory; finds the dirty logs; flushes them
    task     makes a copy of the partition from hard links, beside the log directory, and compacts the copy
    driver   replaces the old segments by the new ones, crash-safe, as the cleaner does

So only the driver changes the log, and a task that outlives its driver works on names of its own. The steps are
those of `storage.maintenance.partition_copy`. `storage.compaction` describes which part of a log is compacted and when
tombstones are removed. Everything dirty is compacted, whatever its ratio; the active segment stays.
"""

from __future__ import annotations

import functools
import os
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from offsetfs.pipeline.jobs.workers import Answer, JobFailed, check_visible, spread
from offsetfs.pipeline.read_options import local_path
from offsetfs.storage import Log, LogDirectory, TopicPartition, files
from offsetfs.storage.errors import UnknownPartition
from offsetfs.storage.maintenance import (
    CompactedCopy,
    DirtyPartition,
    begin_compaction,
    compact_copy,
    install_compacted,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result for one partition."""

    partition: str
    bytes_before: int
    bytes_after: int
    records_read: int
    records_kept: int


@dataclass(frozen=True, slots=True)
class CompactResult:
    """The partitions with anything to compact."""

    partitions: tuple[Compacted, ...]


def compact(spark: SparkSession, source: str, partitions: Sequence[str] = ()) -> CompactResult:
    """Compact the compacted topics of a log directory, or the partitions named; on disk after return.

    Raises `LogDirectoryLocked`, `UnknownPartition`, `JobFailed`, `CorruptBatch` and the like for a partition that is
    damaged (no partition is changed then), OSError.
    """
    directory = LogDirectory.open(local_path(source, "compact"))
    scratch = f"{directory.path}.compacting-{uuid.uuid4().hex}"
    try:
        logs = {str(partition): directory.log(partition) for partition in _wanted(directory, partitions)}
        dirty = [task for log in logs.values() if (task := begin_compaction(directory, log)) is not None]
        if dirty:
            check_visible(spark, directory.path, is_to_write=True)
            files.make_directory(scratch)
        answers = spread(spark, functools.partial(_compact, directory.path, scratch), dirty)
        done = [
            _install(directory, logs[task.partition], os.path.join(scratch, task.partition), CompactedCopy(**answer))
            for task, answer in zip(dirty, answers, strict=True)
        ]
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        directory.close()
    return CompactResult(tuple(done))


def _wanted(directory: LogDirectory, names: Sequence[str]) -> list[TopicPartition]:
    wanted = [TopicPartition.parse(name) for name in names]
    for partition in wanted:
        if not directory.has(partition):
            raise UnknownPartition(f"no partition {partition}", path=directory.path)
        if not _is_compacted(directory, partition.topic):
            raise JobFailed(
                f"{partition}: cleanup.policy of {partition.topic} is not compact; change it with offsetfs config"
            )
    return wanted or [partition for partition in directory.partitions() if _is_compacted(directory, partition.topic)]


def _is_compacted(directory: LogDirectory, topic: str) -> bool:
    return directory.config_of(topic).is_compacted and directory.knows_policy(topic)


def _install(directory: LogDirectory, log: Log, copy: str, done: CompactedCopy) -> Compacted:
    before = log.size_bytes
    install_compacted(directory, log, copy, done)
    return Compacted(str(log.partition), before, log.size_bytes, done.records_read, done.records_kept)


def _compact(path: str, scratch: str, dirty: DirtyPartition) -> Answer:
    """Compact a copy of the partition. Runs in a task."""
    copy = os.path.join(scratch, dirty.partition)
    if files.exists(copy):  # of an earlier attempt at this task, which died or is slow
        shutil.rmtree(copy)
    files.make_directory(copy)
    for name in files.names(os.path.join(path, dirty.partition)):
        os.link(os.path.join(path, dirty.partition, name), os.path.join(copy, name))
    return asdict(compact_copy(path, dirty, copy))
