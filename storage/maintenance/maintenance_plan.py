"""Predicts what the background tasks of a directory would do now. Changes nothing.

Uses the same decisions as the tasks. The directory may be open for reading, also while a mount or a broker uses it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from offsetfs.storage import files
from offsetfs.storage.compaction.compaction import DirtyRange, find_dirty_range
from offsetfs.storage.directory import partition_directories
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import METADATA_TOPIC, TopicPartition, parse_segment_name
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.retention import expired_segments
from offsetfs.storage.segments import deletions


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """The effect of a task on one partition. `bytes`: the size of the `.log` files that it would remove or rewrite."""

    task: str
    name: str
    segments: int
    bytes: int
    because: tuple[str, ...] = ()


def plan_maintenance(
    directory: LogDirectory, partitions: Collection[TopicPartition], *, now: bool = False
) -> Iterator[PlannedTask]:
    """Yield what `BackgroundTasks.run_all` would do to these partitions. Raises if a log does not open."""
    for partition in partitions:
        if partition.topic == METADATA_TOPIC:
            continue
        with directory.borrowed(partition) as log:
            yield from _compaction(directory, log, now)
            yield from _retention(directory, log)
            yield from _removal(log)
    if len(partitions) == len(directory.partitions()):
        for path in partition_directories.deleted_directories(directory.path):
            yield PlannedTask("removal", os.path.basename(path), *_size_of(path, _is_log))


def _retention(directory: LogDirectory, log: Log) -> Iterator[PlannedTask]:
    knows_policy = directory.knows_policy(log.partition.topic)
    expiry = expired_segments(log, directory.cautious_clock.now_ms(), knows_policy=knows_policy)
    if expiry.segments:
        size = sum(segment.size for segment in expiry.segments)
        yield PlannedTask(
            "retention", str(log.partition), len(expiry.segments), size, tuple(dict.fromkeys(expiry.reasons))
        )


def dirty_range(directory: LogDirectory, log: Log) -> DirtyRange | None:
    """Return what the next compaction of a log would process; None if its topic is not known to be compacted.

    Costs as `find_dirty_range`.
    """
    if not (log.config.is_compacted and directory.knows_policy(log.partition.topic)):
        return None
    return find_dirty_range(log, directory.cleaner_offset(log.partition), directory.cautious_clock.now_ms())


def _compaction(directory: LogDirectory, log: Log, now: bool) -> Iterator[PlannedTask]:
    dirty = dirty_range(directory, log)
    if dirty is None:
        return
    active = log.snapshot().active
    is_due = dirty.is_due or (now and (dirty.cleanable_bytes > 0 or active.size > 0))
    if is_due:
        rolled = [active] if now and active.size else []
        rewritten = [s for s in log.snapshot() if s.base_offset < dirty.first_uncleanable] + rolled
        size = sum(segment.size for segment in rewritten)
        yield PlannedTask("compaction", str(log.partition), len(rewritten), size, (_reason(dirty),))


def _reason(dirty: DirtyRange) -> str:
    if dirty.is_overdue:
        return "lag"
    return f"{dirty.ratio:.0%} dirty"


def _removal(log: Log) -> Iterator[PlannedTask]:
    count, size = _size_of(log.path, _is_removed_log)
    if count:
        yield PlannedTask("removal", str(log.partition), count, size)


def _is_log(name: str) -> bool:
    return name.endswith(".log")


def _is_removed_log(name: str) -> bool:
    parsed = parse_segment_name(name)
    return parsed is not None and deletions.without_removed_ending(parsed[1]) == ".log"


def _size_of(path: str, is_counted: Callable[[str], bool]) -> tuple[int, int]:
    """Return the number of files in a directory that are counted, and their size in bytes."""
    sizes = [files.status(os.path.join(path, name)).st_size for name in files.names(path) if is_counted(name)]
    return len(sizes), sum(sizes)
