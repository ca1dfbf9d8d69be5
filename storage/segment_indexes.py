"""Making the indexes of a segment anew from its log.

Kafka's LogSegment.recover: an entry for the first batch that begins more than `index.interval.bytes` after the last
entry. The result may differ from what the writer made, and is as good. A writer's files are replaced whole; a reader
that may write nothing gets them as unnamed temporary files.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

from offsetfs.storage import batch_chain, files
from offsetfs.storage.batch import BatchHeader
from offsetfs.storage.files import File
from offsetfs.storage.legacy import TIMELESS_RUNS
from offsetfs.storage.mapped_index import I32_MAX
from offsetfs.storage.offset_index import OffsetIndex
from offsetfs.storage.time_index import TimeIndex

if TYPE_CHECKING:
    from offsetfs.storage.segment import Segment

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")


class IndexBuilder:
    """Collects the entries of both indexes while somebody walks the log."""

    __slots__ = (
        "_base_offset",
        "_indexed_position",
        "_interval_bytes",
        "_last_offset",
        "_time_entry",
        "max_timestamp",
        "offsets",
        "times",
    )

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._indexed_position = 0
        self._last_offset = base_offset - 1
        self._time_entry = -1
        self.max_timestamp = (-1, base_offset)
        self.offsets = bytearray()
        self.times = bytearray()

    def add(self, position: int, header: BatchHeader) -> None:
        """Take note of the batch at `position`; batches come in the order of the file.

        One whose offset cannot be where it stands is not indexed: the checksum does not cover it.
        """
        if not self._last_offset < header.last_offset <= self._base_offset + I32_MAX:
            return
        self._last_offset = header.last_offset
        if header.max_timestamp > self.max_timestamp[0]:
            self.max_timestamp = (header.max_timestamp, header.last_offset)
        if position - self._indexed_position > self._interval_bytes:
            self.offsets += _OFFSET_ENTRY.pack(header.last_offset - self._base_offset, position)
            self._add_time_entry()
            self._indexed_position = position

    def finish(self) -> None:
        """Add the time entry that every sealed segment ends with."""
        self._add_time_entry()

    def _add_time_entry(self) -> None:
        timestamp, offset = self.max_timestamp
        if timestamp > self._time_entry:
            self.times += _TIME_ENTRY.pack(timestamp, offset - self._base_offset)
            self._time_entry = timestamp


def path(segment: Segment, suffix: str) -> str:
    """Return the path of the segment's file with this suffix (`.index`, `.timeindex`, …)."""
    return segment.path(suffix)


def rebuild(segment: Segment, log: File) -> tuple[OffsetIndex, TimeIndex]:
    """Return both indexes made from the batches of `log`; damaged ones are stepped over and not indexed."""
    builder = IndexBuilder(segment.base_offset, segment.config.index_interval_bytes)
    for batch in batch_chain.batches(
        log, 0, segment.size, on_damage=lambda _error, _position: None, runs=TIMELESS_RUNS
    ):
        builder.add(batch.position or 0, batch.header)
    builder.finish()
    return install(segment, builder)


def install(segment: Segment, builder: IndexBuilder) -> tuple[OffsetIndex, TimeIndex]:
    """Put what the builder collected in the place of the segment's index files, and open them.

    A segment that is on its way out has no place to put them: another one may have its names.
    """
    with segment.names_lock:
        if not segment.read_only and not segment.is_removed:
            return _write_and_open(segment, segment.path(".index"), segment.path(".timeindex"), builder)
    with files.temporary_directory() as directory:
        index_path, time_path = (os.path.join(directory, name) for name in ("index", "timeindex"))
        return _write_and_open(segment, index_path, time_path, builder)


def _write_and_open(
    segment: Segment, index_path: str, time_path: str, builder: IndexBuilder
) -> tuple[OffsetIndex, TimeIndex]:
    base_offset, limit = segment.base_offset, segment.config.segment_index_bytes
    files.replace_file(index_path, bytes(builder.offsets))
    files.replace_file(time_path, bytes(builder.times))
    index = OffsetIndex.open(index_path, base_offset, bytes_max=limit)
    return index, TimeIndex.open(time_path, base_offset, bytes_max=limit)
