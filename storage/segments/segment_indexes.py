"""Rebuilds the indexes of a segment from its log.

As in Kafka's LogSegment.recover, the first batch that begins more than `index.interval.bytes` after the last entry gets
an entry. The result may differ from the writer's index and is equally valid. A writer replaces the files atomically. A
reader that may not write gets unnamed temporary files.
"""

from __future__ import annotations

import logging
import os
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsetfs.storage import files
from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.files import File
from offsetfs.storage.records.columns import row_walk
from offsetfs.storage.records.format import batch_chain, chain
from offsetfs.storage.records.format.batch import BatchHeader
from offsetfs.storage.segments.offset_index import OffsetIndex
from offsetfs.storage.segments.time_index import TimeIndex
from offsetfs.storage.units import Timestamp

if TYPE_CHECKING:
    from offsetfs.storage.segments.segment import Segment

_log = logging.getLogger(__name__)


class IndexBuilder:
    """Collects the entries of both indexes during a scan of the log, by batches or by rows (`chain`)."""

    __slots__ = ("_state", "offsets", "times")

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self._state = chain.index_state(base_offset, interval_bytes)
        self.offsets = bytearray()
        self.times = bytearray()

    def add(self, position: int, header: BatchHeader) -> None:
        """Add the batch at `position`; batches come in file order.

        A batch with an impossible offset is not indexed, because the checksum does not cover the offset.
        """
        self.add_rows(chain.row(position, header))

    def add_rows(self, numbers: array[int]) -> None:
        """Add batches, as `add` does."""
        offsets, times = chain.index(numbers, self._state)
        self.offsets += offsets
        self.times += times

    def finish(self) -> None:
        """Add the time entry that every sealed segment ends with."""
        self.times += chain.index_end(self._state)

    @property
    def max_timestamp(self) -> tuple[int, int]:
        """The largest timestamp and the last offset of the first batch that has it, or (-1, base offset)."""
        return chain.index_timestamp(self._state)


def rebuild(segment: Segment, log: File, reason: str) -> tuple[OffsetIndex, TimeIndex]:
    """Return both indexes, built from the batches of `log`. Damaged batches are skipped and not indexed.

    The `reason` is logged: indexes that are rebuilt again and again are a sign of a failing disk.
    """
    if segment.size:  # those of a new segment are made here, too
        _log.info("%s: its indexes are rebuilt: %s", log.path, reason)
    builder = IndexBuilder(segment.base_offset, segment.config.index_interval_bytes)
    for rows in row_walk.rows_over_damage(log, 0, segment.size):
        builder.add_rows(rows.numbers)
    builder.finish()
    return install(segment, builder)


def install(segment: Segment, builder: IndexBuilder) -> tuple[OffsetIndex, TimeIndex]:
    """Replace the segment's index files with the collected entries, and open them.

    A segment that is being removed gets temporary files, because another segment may have its names.
    """
    with segment.names_lock:
        if not segment.read_only and not segment.is_removed:
            return _write_and_open(segment, segment.path(".index"), segment.path(".timeindex"), builder)
    with files.temporary_directory() as directory:
        index_path, time_path = (os.path.join(directory, name) for name in ("index", "timeindex"))
        return _write_and_open(segment, index_path, time_path, builder)


def write(segment: Segment, builder: IndexBuilder) -> None:
    """Replace the index files of a segment that no other process uses.

    Durable once the caller syncs the directory; until then the old files may still be on disk.
    """
    _write(segment.path(".index"), segment.path(".timeindex"), builder, sync_names=False)


def _write_and_open(
    segment: Segment, index_path: str, time_path: str, builder: IndexBuilder
) -> tuple[OffsetIndex, TimeIndex]:
    base_offset, limit = segment.base_offset, segment.config.segment_index_bytes
    _write(index_path, time_path, builder, sync_names=True)
    index = OffsetIndex.open(index_path, base_offset, bytes_max=limit)
    return index, TimeIndex.open(time_path, base_offset, bytes_max=limit)


def _write(index_path: str, time_path: str, builder: IndexBuilder, *, sync_names: bool) -> None:
    files.replace_file(index_path, bytes(builder.offsets), sync_name=False)
    files.replace_file(time_path, bytes(builder.times), sync_name=sync_names)  # both files are in one directory


@dataclass(frozen=True, slots=True)
class LogPrefix:
    """Whole batches at the beginning of a log file, and the content of the index files of a sealed segment of them."""

    size: int
    """The size in bytes; 0 if no batch is before the offset."""
    max_timestamp: Timestamp
    """The largest record timestamp, in milliseconds since 1970; -1 if there is none."""
    offset_index: bytes
    time_index: bytes


def measure_prefix(log: File, size: int, base_offset: int, end: int, *, interval_bytes: int) -> LogPrefix:
    """Return what the first `size` bytes of a log file have before the offset `end`: the batches [base_offset, end).

    `interval_bytes`: `index.interval.bytes`. All batches before `end` are read. `MalformedBatch` if a batch has
    offsets on both sides of `end`, or has a header that cannot be true; and what `log` raises.
    """
    builder, kept = IndexBuilder(base_offset, interval_bytes), 0
    for position, header, seen in batch_chain.headers(log, 0, size, block_bytes=batch_chain.BLOCK_BYTES):
        if header.last_offset >= end:
            first = (
                batch_chain.check(log, position, header, seen).base_offset if header.is_wrapper else header.base_offset
            )
            if first < end:
                reason = f"the batch has offsets {first} to {header.last_offset}, on both sides of {end}"
                raise MalformedBatch(reason, path=log.path, position=position, offset=first)
            break
        builder.add(position, header)
        kept = position + header.size
    builder.finish()
    return LogPrefix(kept, Timestamp(builder.max_timestamp[0]), bytes(builder.offsets), bytes(builder.times))
