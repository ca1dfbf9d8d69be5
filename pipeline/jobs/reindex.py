"""`reindex`: rebuilds offset and time indexes from the logs, for segments of all partitions in parallel.

The driver holds the log directory (and recovers it if it was not closed cleanly) while tasks read segments and replace
their index files atomically. A task that outlives its driver does no harm: its index is correct for the segment that it
has read, and look-ups detect an index that does not match. Correct indexes stay as they are.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsetfs.pipeline.jobs.workers import Answer, check_visible, spread
from offsetfs.pipeline.read_options import local_path
from offsetfs.storage import LogDirectory, TopicPartition, files
from offsetfs.storage.errors import UnknownPartition
from offsetfs.storage.maintenance import reindex_segment
from offsetfs.storage.segments import parse_segment_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_BYTES = 256 << 20
"""Bytes of segments that a task reads at least, unless there are no more."""


@dataclass(frozen=True, slots=True)
class ReindexResult:
    """The number of segments that were checked, and of those whose indexes were replaced."""

    segments: int
    changed: int
    bytes: int


def reindex(spark: SparkSession, source: str, partitions: Sequence[str] = ()) -> ReindexResult:
    """Rebuild the indexes of a log directory, or of the named partitions; durable on return.

    Raises `LogDirectoryLocked`, `NotALogDirectory`, `UnknownPartition`, `JobFailed`, OSError.
    """
    directory = LogDirectory.open(local_path(source, "reindex"))
    try:
        wanted = [TopicPartition.parse(name) for name in partitions] or directory.partitions()
        missing = [partition for partition in wanted if not directory.has(partition)]
        if missing:
            raise UnknownPartition(f"no partition {missing[0]}", path=directory.path)
        check_visible(spark, directory.path, is_to_write=True)
        answers = spread(spark, functools.partial(_reindex, directory.path), _tasks(directory.path, wanted))
    finally:
        directory.close()
    return ReindexResult(*(sum(answer[name] for answer in answers) for name in ("segments", "changed", "bytes")))


def _tasks(path: str, partitions: Sequence[TopicPartition]) -> list[list[tuple[str, int]]]:
    """Return the segments of each task: the name of the partition, the base offset."""
    tasks: list[list[tuple[str, int]]] = []
    gathered = TASK_BYTES
    for partition in map(str, partitions):
        for name in sorted(files.names(os.path.join(path, partition))):
            parsed = parse_segment_name(name)
            if parsed is None or parsed[1] != ".log":
                continue
            if gathered >= TASK_BYTES:
                tasks.append([])
                gathered = 0
            tasks[-1].append((partition, parsed[0]))
            gathered += files.status(os.path.join(path, partition, name)).st_size
    return tasks


def _reindex(path: str, wanted: list[tuple[str, int]]) -> Answer:
    directory = LogDirectory.open(path, read_only=True)
    changed = size = 0
    try:
        for name, base_offset in wanted:
            config = directory.config_of(TopicPartition.parse(name).topic)
            is_changed, segment_bytes = reindex_segment(os.path.join(path, name), base_offset, config)
            changed += is_changed
            size += segment_bytes
    finally:
        directory.close()
    return {"segments": len(wanted), "changed": changed, "bytes": size}
