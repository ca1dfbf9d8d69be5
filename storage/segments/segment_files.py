"""The files of a segment: their names, and opening them for reading or for appends.

    00000000000000000042.log           batches                              .snapshot       producers before it
                        .index         offset index                         .values-map     line index of `values`
                        .timeindex     time index                           .records-map    line index of
                        .txnindex      aborted transactions                                 `records.ndjson`

An opening returns the files of this very segment, or raises ESTALE. The returned indexes fit the log; missing or
damaged ones are rebuilt. Other modules decide how long files stay open (open_files, segment), and rename and remove
them (segment_names).
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsetfs.storage import files
from offsetfs.storage.errors import CorruptIndex, sentence
from offsetfs.storage.files import File
from offsetfs.storage.names import MAP_SUFFIXES, segment_name, segment_offset_max
from offsetfs.storage.segments import active_segment, deletions, offset_search, segment_indexes, time_search
from offsetfs.storage.segments.offset_index import OffsetIndex
from offsetfs.storage.segments.time_index import TimeIndex
from offsetfs.storage.units import I32_MAX

if TYPE_CHECKING:
    from offsetfs.storage.segments.segment import Segment


@dataclass(slots=True, weakref_slot=True, eq=False)
class SegmentFiles:
    """The open files of a segment. They close when the last reader drops them."""

    log: File
    index: OffsetIndex
    time_index: TimeIndex


LIVE = ""
"""The suffix of the files of a segment that is part of a log: none."""

SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")
"""The files of a segment, in the order in which Kafka renames them: indexes without a log are no segment."""

BESIDE = (".snapshot", *MAP_SUFFIXES)
"""Files named after a segment: the producer snapshot at its start, and its line indexes."""

RELATIVE_OFFSET_MAX = I32_MAX
"""The largest distance of an offset from the base offset of its segment: index fields have 32 bits."""


def open_for_reading(segment: Segment) -> SegmentFiles:
    """Open log and indexes; rebuild indexes that are missing or invalid."""
    log = open_log(segment)
    limit, followed = segment.config.segment_index_bytes, segment.read_only
    try:
        index = OffsetIndex.open(segment.path(".index"), segment.base_offset, bytes_max=limit, followed=followed)
        time_index = TimeIndex.open(segment.path(".timeindex"), segment.base_offset, bytes_max=limit, followed=followed)
    except (FileNotFoundError, CorruptIndex) as error:
        index, time_index = segment_indexes.rebuild(segment, log, sentence(error))
    return SegmentFiles(log, index, time_index)


def open_log(segment: Segment) -> File:
    """Open the log file alone. OSError ESTALE if it is gone, or another file has its name."""
    # This process, or one that it follows, may rename the file during the search: so the old name is tried first.
    for path in (segment.log_path, *removed_paths(segment, ".log")):
        try:
            log = files.open_file(path)
        except FileNotFoundError:
            if segment.inode is None:
                raise
        else:
            if segment.inode in (None, log.stat().st_ino):
                return log
    raise OSError(errno.ESTALE, "the segment was removed or replaced", segment.log_path)


def removed_paths(segment: Segment, suffix: str) -> list[str]:
    """Return the paths that a file of the segment may have once the segment is removed."""
    names = (segment_name(segment.base_offset, suffix + ending) for ending in deletions.removed_endings(segment.inode))
    return [os.path.join(segment.directory, name) for name in names]


def open_for_appends(segment: Segment) -> SegmentFiles:
    """Open all files for writing: the indexes at full size, the log without blocks beyond its end."""
    base_offset, limit = segment.base_offset, segment.config.segment_index_bytes
    index = OffsetIndex.open(segment.path(".index"), base_offset, bytes_max=limit, writable=True, create=True)
    time_index = TimeIndex.open(segment.path(".timeindex"), base_offset, bytes_max=limit, writable=True, create=True)
    index.preallocate()
    time_index.preallocate()
    log = files.open_file(segment.log_path, writable=True)
    active_segment.release_leftover(log)
    return SegmentFiles(log, index, time_index)


def ends_agree(segment: Segment, opened: SegmentFiles) -> bool:
    """Whether the last entry of each index is correct, so that new entries can follow it."""
    last = segment_offset_max(segment.base_offset)
    offset, position = opened.index.lookup(last)
    if position and not offset_search.agrees(segment, opened.log, offset, position, last, False):
        return False
    entry = opened.time_index.last_entry
    return time_search.sound_entry(segment, opened, entry, nowait=False) == entry


def sync_closed(segment: Segment) -> None:
    """Sync log and indexes through separate descriptors: the segment was rolled since it was written."""
    for suffix in (".log", ".index", ".timeindex"):
        with files.open_file(segment.path(suffix), writable=True) as file:
            file.sync()


def remove(directory: str, base_offset: int, ending: str = LIVE) -> None:
    """Remove the files of a segment that belongs to no log: leftover files, or a segment whose creation failed."""
    for suffix in SUFFIXES:
        path = os.path.join(directory, segment_name(base_offset, suffix + ending))
        if files.exists(path):
            files.remove_file(path)
