"""`reindex`: offset and time indexes made anew from the logs, segments of all partitions at a time.

The driver holds the log directory (recovering it, when it was not closed) while tasks read segments and replace their
index files, each whole. A task that outlives its driver does no harm: what it writes is true of the segment that it has
read, and an index that is not true of another one is found out. What is as it should be already stays as it is.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsetfs.pipeline.jobs.workers import Answer, check_sight, spread
from offsetfs.storage import LogDirectory, TopicPartition, files
from offsetfs.storage.errors import UnknownPartition
from offsetfs.storage.names import parse_segment_name
from offsetfs.storage.records import row_walk
from offsetfs.storage.segments import segment_indexes
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_indexes import IndexBuilder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_BYTES = 256 << 20
"""How many bytes of segments a task reads at least, unless there are no more."""


@dataclass(frozen=True, slots=True)
class ReindexResult:
    """How many segments were looked at, and how many got other indexes than they had."""

    segments: int
    changed: int
    bytes: int


def reindex(spark: SparkSession, source: str, partitions: Sequence[str] = ()) -> ReindexResult:
    """Make the indexes of a log directory anew, or of the partitions named; on disk after return.

    Raises `LogDirectoryLocked`, `NotALogDirectory`, `UnknownPartition`, `JobFailed`, OSError.
    """
    directory = LogDirectory.open(os.path.abspath(source))
    try:
        wanted = [TopicPartition.parse(name) for name in partitions] or directory.partitions()
        missing = [each for each in wanted if not directory.has(each)]
        if missing:
            raise UnknownPartition(f"no partition {missing[0]}", path=directory.path)
        check_sight(spark, directory.path, is_to_write=True)
        answers = spread(spark, functools.partial(_reindex, directory.path), _tasks(directory.path, wanted))
    finally:
        directory.close()
    return ReindexResult(*(sum(answer[name] for answer in answers) for name in ("segments", "changed", "bytes")))


def _tasks(path: str, partitions: Sequence[TopicPartition]) -> list[list[tuple[str, int]]]:
    """Return the segments that each task takes: the name of the partition, the base offset."""
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
            segment = Segment(os.path.join(path, name), base_offset, config, FilePool(1))
            changed += _reindex_segment(segment)
            size += segment.size
    finally:
        directory.close()
    return {"segments": len(wanted), "changed": changed, "bytes": size}


def _reindex_segment(segment: Segment) -> bool:
    """Make the indexes of a segment anew; return whether they were others."""
    builder = IndexBuilder(segment.base_offset, segment.config.index_interval_bytes)
    with files.opened(segment.log_path) as log:
        for rows in row_walk.rows_over_damage(log, 0, segment.size):
            builder.add_rows(rows.numbers)
    builder.finish()
    kept = ((".index", builder.offsets), (".timeindex", builder.times))
    if all(_content(segment.path(suffix)) == bytes(content) for suffix, content in kept):
        return False
    segment_indexes.write(segment, builder)
    files.sync_directory(segment.directory)
    return True


def _content(path: str) -> bytes | None:
    return files.read_file(path) if files.exists(path) else None
