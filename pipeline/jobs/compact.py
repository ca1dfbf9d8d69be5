"""`compact`: the latest record of each key stays, by the engine's own cleaner, in all partitions at a time.

    driver   holds the log directory; looks what is dirty; flushes
    task     makes a copy of the partition out of hard links, beside the log directory, and compacts that
    driver   takes the new segments and puts them in the place of the old ones, crash-safe, as the cleaner does

So nothing but the driver ever changes the log, and a task that outlives its driver works on names of its own.
`compaction` describes what a compaction means, which part of a log it takes, and what tombstones become. It takes
what is dirty, whatever the ratio; the active segment stays.
"""

from __future__ import annotations

import functools
import os
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsetfs.pipeline.jobs.workers import Answer, JobFailed, check_sight, spread
from offsetfs.storage import Log, LogDirectory, TopicPartition, files
from offsetfs.storage.compaction.compaction import clean, find_dirty_range
from offsetfs.storage.errors import UnknownPartition
from offsetfs.storage.names import segment_name
from offsetfs.storage.partition.swap import CLEANED
from offsetfs.storage.recovery.log_loader import OpenOptions, open_log
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_files import SUFFIXES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OPEN_SEGMENTS_MAX = 64


@dataclass(frozen=True, slots=True)
class Compacted:
    """What became of one partition."""

    partition: str
    bytes_before: int
    bytes_after: int
    records_read: int
    records_kept: int


@dataclass(frozen=True, slots=True)
class CompactResult:
    """The partitions in which there was something to do."""

    partitions: tuple[Compacted, ...]


@dataclass(frozen=True, slots=True)
class _Work:
    """What a task must know."""

    partition: str
    scratch: str
    first_dirty: int
    log_start: int
    next_offset: int
    now_ms: int


def compact(spark: SparkSession, source: str, partitions: Sequence[str] = ()) -> CompactResult:
    """Compact the compacted topics of a log directory, or the partitions named; on disk after return.

    Raises `LogDirectoryLocked`, `UnknownPartition`, `JobFailed`, `CorruptBatch` and the like for a partition that is
    damaged (no partition is changed then), OSError.
    """
    directory = LogDirectory.open(os.path.abspath(source))
    scratch = f"{directory.path}.compacting-{uuid.uuid4().hex}"
    try:
        logs = {str(each): directory.log(each) for each in _wanted(directory, partitions)}
        works = [work for log in logs.values() if (work := _begin(directory, log, scratch)) is not None]
        if works:
            check_sight(spark, directory.path, is_to_write=True)
            files.make_directory(scratch)
        answers = spread(spark, functools.partial(_compact, directory.path), works)
        done = [
            _put_in_place(directory, logs[work.partition], work, answer)
            for work, answer in zip(works, answers, strict=True)
        ]
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        directory.close()
    return CompactResult(tuple(done))


def _wanted(directory: LogDirectory, names: Sequence[str]) -> list[TopicPartition]:
    wanted = [TopicPartition.parse(name) for name in names]
    for each in wanted:
        if not directory.has(each):
            raise UnknownPartition(f"no partition {each}", path=directory.path)
        if not _is_compacted(directory, each.topic):
            raise JobFailed(f"{each}: cleanup.policy of {each.topic} is not compact (offsetfs config)")
    return wanted or [each for each in directory.partitions() if _is_compacted(directory, each.topic)]


def _is_compacted(directory: LogDirectory, topic: str) -> bool:
    return directory.config_of(topic).is_compacted and directory.knows_policy(topic)


def _begin(directory: LogDirectory, log: Log, scratch: str) -> _Work | None:
    """Return what is to be done with a log, None when nothing is; all of it is on disk then, and known to be."""
    now_ms = directory.cautious_clock.now_ms()
    found = find_dirty_range(log, directory.cleaner_offset(log.partition), now_ms)
    if not found.cleanable_bytes:
        return None
    with log.changing():
        pass  # what a round that was cut short left behind goes now, before there is anything of this one
    log.flush()
    log.context.save_recovery_point(log.recovery_point)
    name = str(log.partition)
    return _Work(name, scratch, found.first_dirty, log.log_start_offset, log.next_offset, now_ms)


def _put_in_place(directory: LogDirectory, log: Log, work: _Work, answer: Answer) -> Compacted:
    """Put the segments that a task has made in the place of those that it made them of."""
    before, old = log.size_bytes, [each for each in log.snapshot() if each.base_offset in set(answer["old"])]
    new = []
    for base in answer["new"]:
        for suffix in SUFFIXES:
            made = os.path.join(work.scratch, work.partition, segment_name(base, suffix))
            if files.exists(made):
                files.rename(made, os.path.join(log.path, segment_name(base, suffix + CLEANED)))
        new.append(Segment(log.path, base, log.config, old[0].pool, clock=log.clock, ending=CLEANED))
    if new:
        files.sync_directory(log.path)
        log.replace_segments(new, old)
    directory.set_cleaner_offset(log.partition, answer["end_offset"])
    return Compacted(work.partition, before, log.size_bytes, answer["records_read"], answer["records_kept"])


# --- in a task -------------------------------------------------------------------------------------------------------


def _compact(path: str, work: _Work) -> Answer:
    """Compact a copy of the partition until nothing is dirty; tell which segments are others then."""
    partition = TopicPartition.parse(work.partition)
    directory = LogDirectory.open(path, read_only=True)
    try:
        config = directory.config_of(partition.topic)
    finally:
        directory.close()
    copy = os.path.join(work.scratch, work.partition)
    if files.exists(copy):  # of a task that was begun before, and died or is slow
        shutil.rmtree(copy)
    files.make_directory(copy)
    for name in files.names(os.path.join(path, work.partition)):
        os.link(os.path.join(path, work.partition, name), os.path.join(copy, name))
    opening = OpenOptions(
        config,
        FilePool(_OPEN_SEGMENTS_MAX, finds_held=True),
        recovery_point=work.next_offset,
        log_start=lambda: work.log_start,
        is_compacted=True,
        has_recovery_point=True,
    )
    log = open_log(partition, copy, opening)
    before = {each.base_offset: each.inode for each in log.snapshot()}
    first_dirty, read, kept = work.first_dirty, 0, 0
    while (found := find_dirty_range(log, first_dirty, work.now_ms)).cleanable_bytes:
        done = clean(log, found, now_ms=work.now_ms)
        first_dirty = done.end_offset
        read, kept = max(read, done.records_read), done.records_kept
    after = {each.base_offset: each.inode for each in log.snapshot()}
    return {
        "old": [base for base, inode in before.items() if after.get(base) != inode],
        "new": [base for base, inode in after.items() if before.get(base) != inode],
        "end_offset": first_dirty,
        "records_read": read,
        "records_kept": kept,
    }
