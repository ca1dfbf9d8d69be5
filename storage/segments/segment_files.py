"""The files of a segment: what they are called, and how they are opened for readers and for the one who appends.

    00000000000000000042.log           batches                              .snapshot       the producers before it
                        .index         where batches are, by offset         .values-map     sizes in `values`
                        .timeindex     the largest times so far             .records-map    sizes in `records.ndjson`
                        .txnindex      what was aborted

Promises: who opens gets this segment's log or ESTALE, and indexes that fit to each other; missing or broken ones are
made anew. Leaves to others: who keeps files open for how long (open_files, segment), renaming and removing the files of
a log (segment_names).
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsetfs.storage import files
from offsetfs.storage.errors import CorruptIndex
from offsetfs.storage.files import File
from offsetfs.storage.names import MAP_SUFFIXES, segment_name, segment_offset_max
from offsetfs.storage.segments import offset_search, preallocation, removed_names, segment_indexes, time_search
from offsetfs.storage.segments.offset_index import OffsetIndex
from offsetfs.storage.segments.time_index import TimeIndex

if TYPE_CHECKING:
    from offsetfs.storage.segments.segment import Segment

LIVE = ""
"""What the names of a segment's files end in while it is part of a log."""

SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")
"""The files of a segment, in the order in which Kafka renames them: indexes without a log are no segment."""

BESIDE = (".snapshot", *MAP_SUFFIXES)
"""What lies beside a segment and is named like it: the producers before it, and the maps of its views."""

RELATIVE_OFFSET_MAX = 2**31 - 1
"""How far an offset may be from its segment's first: indexes have 32 bits for it."""


@dataclass(slots=True, weakref_slot=True, eq=False)
class SegmentFiles:
    """The open files of a segment. They close when the last reader lets go."""

    log: File
    index: OffsetIndex
    time_index: TimeIndex


def open_for_reading(segment: Segment) -> SegmentFiles:
    """Open log and indexes; indexes that are not there, or cannot be, are made anew."""
    log = open_log(segment)
    limit, followed = segment.config.segment_index_bytes, segment.read_only
    try:
        index = OffsetIndex.open(segment.path(".index"), segment.base_offset, bytes_max=limit, followed=followed)
        time_index = TimeIndex.open(segment.path(".timeindex"), segment.base_offset, bytes_max=limit, followed=followed)
    except (FileNotFoundError, CorruptIndex):
        index, time_index = segment_indexes.rebuild(segment, log)
    return SegmentFiles(log, index, time_index)


def open_log(segment: Segment) -> File:
    """Open the log file alone. OSError ESTALE when it is not there any more, or another one is."""
    # This process, or another one that it follows, may rename the file while this looks for it: the old name first.
    for path in (segment.log_path, *removed_paths(segment, ".log")):
        try:
            log = files.open_file(path)
        except FileNotFoundError:
            if segment.inode is None:
                raise
        else:
            if segment.inode in (None, log.stat().st_ino):
                return log
    raise OSError(errno.ESTALE, "the segment was removed or replaced meanwhile", segment.log_path)


def removed_paths(segment: Segment, suffix: str) -> list[str]:
    """Return the paths that a file of the segment may have once the segment is removed."""
    names = (segment_name(segment.base_offset, suffix + each) for each in removed_names.endings(segment.inode))
    return [os.path.join(segment.directory, name) for name in names]


def open_for_appends(segment: Segment) -> SegmentFiles:
    """Open all for writing: the indexes at their full length, the log with nothing set aside behind its end."""
    base_offset, limit = segment.base_offset, segment.config.segment_index_bytes
    index = OffsetIndex.open(segment.path(".index"), base_offset, bytes_max=limit, writable=True, create=True)
    time_index = TimeIndex.open(segment.path(".timeindex"), base_offset, bytes_max=limit, writable=True, create=True)
    index.preallocate()
    time_index.preallocate()
    log = files.open_file(segment.log_path, writable=True)
    preallocation.give_back_left(log)
    return SegmentFiles(log, index, time_index)


def ends_agree(segment: Segment, opened: SegmentFiles) -> bool:
    """Whether the last entry of each index is true: new ones come behind it, and must be able to."""
    last = segment_offset_max(segment.base_offset)
    offset, position = opened.index.lookup(last)
    if position and not offset_search.agrees(segment, opened.log, offset, position, last, False):
        return False
    entry = opened.time_index.last_entry
    return time_search.sound_entry(segment, opened, entry, nowait=False) == entry


def sync_closed(segment: Segment) -> None:
    """Put log and indexes on disk through descriptors of their own: the segment was rolled since it was written."""
    for suffix in (".log", ".index", ".timeindex"):
        with files.opened(segment.path(suffix), writable=True) as file:
            file.sync()


def remove(directory: str, base_offset: int, ending: str = LIVE) -> None:
    """Remove the files of a segment that is no log's: a leftover, or one that could not be made."""
    for suffix in SUFFIXES:
        path = os.path.join(directory, segment_name(base_offset, suffix + ending))
        if files.exists(path):
            files.remove_file(path)
