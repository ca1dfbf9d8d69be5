"""Compaction in a copy of the partition, so that another process can do the work.

    begin_compaction     holder of the log   finds what is dirty; everything is on disk then
    compact_copy         worker              compacts a copy of the partition: hard links, on the same file system
    install_compacted    holder of the log   replaces the old segments by the new ones, crash-safe, as the cleaner does

Only the holder changes the log. A worker that outlives it, or that is repeated, changes its copy alone. The result is
that of `compaction`, byte for byte; it takes what is dirty, whatever the ratio, and the active segment stays.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from offsetfs.storage import files
from offsetfs.storage.compaction.compaction import clean, find_dirty_range
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition, segment_name
from offsetfs.storage.partition import changes
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.swap import CLEANED
from offsetfs.storage.recovery.log_loader import OpenOptions, open_log
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_files import SUFFIXES

_OPEN_SEGMENTS_MAX = 64


@dataclass(frozen=True, slots=True)
class DirtyPartition:
    """The input of a worker for one partition. `now_ms`: the time that decides about tombstones."""

    partition: str
    first_dirty: int
    log_start: int
    next_offset: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class CompactedCopy:
    """The segments that a compaction replaced and made, by base offset, and how far it came."""

    old: tuple[int, ...]
    new: tuple[int, ...]
    end_offset: int
    records_read: int
    records_kept: int


def begin_compaction(directory: LogDirectory, log: Log) -> DirtyPartition | None:
    """Return what there is to compact, None when nothing is dirty. Flushes the log and saves its recovery point.

    Raises as `Log.flush`, and OSError.
    """
    now_ms = directory.cautious_clock.now_ms()
    dirty = find_dirty_range(log, directory.cleaner_offset(log.partition), now_ms)
    if not dirty.cleanable_bytes:
        return None
    with log.changing():
        pass  # removes the files of an unfinished round, before this one creates its own
    log.flush()
    log.context.save_recovery_point(log.recovery_point)
    return DirtyPartition(str(log.partition), dirty.first_dirty, log.log_start_offset, log.next_offset, now_ms)


def compact_copy(path: str, dirty: DirtyPartition, copy: str) -> CompactedCopy:
    """Compact the directory `copy`, which has links to the files of a partition of the log directory `path`.

    The files of the partition do not change. Durable on return. Raises as `compaction.clean`, and OSError.
    """
    partition = TopicPartition.parse(dirty.partition)
    directory = LogDirectory.open(path, read_only=True)
    try:
        config = directory.config_of(partition.topic)
    finally:
        directory.close()
    opening = OpenOptions(
        config,
        FilePool(_OPEN_SEGMENTS_MAX, finds_held=True),
        recovery_point=dirty.next_offset,
        log_start=lambda: dirty.log_start,
        is_compacted=True,
        has_recovery_point=True,
    )
    log = open_log(partition, copy, opening)
    before = {segment.base_offset: segment.inode for segment in log.snapshot()}
    first_dirty, read, kept = dirty.first_dirty, 0, 0
    while (remaining := find_dirty_range(log, first_dirty, dirty.now_ms)).cleanable_bytes:
        done = clean(log, remaining, now_ms=dirty.now_ms)
        first_dirty = done.end_offset
        read, kept = max(read, done.records_read), done.records_kept
    after = {segment.base_offset: segment.inode for segment in log.snapshot()}
    return CompactedCopy(
        old=tuple(base for base, inode in before.items() if after.get(base) != inode),
        new=tuple(base for base, inode in after.items() if before.get(base) != inode),
        end_offset=first_dirty,
        records_read=read,
        records_kept=kept,
    )


def install_compacted(directory: LogDirectory, log: Log, copy: str, done: CompactedCopy) -> None:
    """Replace segments of `log` by those that `compact_copy` made in `copy`. Durable on return."""
    old, new = [segment for segment in log.snapshot() if segment.base_offset in set(done.old)], []
    for base in done.new:
        for suffix in SUFFIXES:
            made = os.path.join(copy, segment_name(base, suffix))
            if files.exists(made):
                files.rename(made, os.path.join(log.path, segment_name(base, suffix + CLEANED)))
        new.append(Segment(log.path, base, log.config, old[0].pool, clock=log.clock, ending=CLEANED))
    if new:
        files.sync_directory(log.path)
        changes.replace_segments(log, new, old)
    directory.set_cleaner_offset(log.partition, done.end_offset)
