"""The steps of `Segment.find_record`: where a search by time begins, and the record that it finds in a batch.

Follows Kafka's LogSegment.findOffsetByTimestamp. An entry (T, O) of the time index says that every record with a
timestamp above T lies after O. It is used only if the batch that holds O has T as its largest timestamp. Otherwise the
search begins at the start of the segment, which takes longer but gives the same answer. Unreadable batches are skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from offsetfs.storage.records.format import batch_chain
from offsetfs.storage.records.format.batch import Batch, BatchHeader
from offsetfs.storage.records.format.record_row import COLUMNS, OFFSET_DELTA, TIMESTAMP_DELTA
from offsetfs.storage.units import NO_TIMESTAMP

if TYPE_CHECKING:
    from offsetfs.storage.segments.segment import Segment
    from offsetfs.storage.segments.segment_files import SegmentFiles

_NEAR_BYTES = 1 << 10
"""The bytes read at once for the header of the batch that the index names, or one soon after it."""


class VisibilityFilter(Protocol):
    """Decides whether the records of a batch are visible to a reader."""

    def __call__(self, header: BatchHeader, *, nowait: bool = False) -> bool: ...


def shows_data(header: BatchHeader, *, nowait: bool = False) -> bool:
    """Return whether the batch is not a control batch."""
    return not header.is_control


class FoundRecord(NamedTuple):
    """A record found by its time, and the batch that holds it, with its checksum verified."""

    offset: int
    timestamp: int
    batch: Batch


def start_of(
    segment: Segment, opened: SegmentFiles, timestamp: int, offset_min: int, nowait: bool
) -> tuple[int, int | None]:
    """Return the position where a scan for `timestamp` starts, and the last offset before it, None if that is unknown.

    That is after the batch of the time index's entry, if that has an earlier time.
    """
    entry = opened.time_index.lookup(timestamp)
    in_order = entry[0] <= timestamp
    # Entries out of order, negative, or beyond the end of the log once led a search past its answer.
    known = _batch_of(segment, opened, entry, nowait) if in_order else None
    if known is not None and offset_min <= entry[1]:
        batch_position, header = known
        return (batch_position + header.size, header.last_offset) if entry[0] < timestamp else (batch_position, None)
    position = segment.floor_position(max(offset_min, segment.base_offset), nowait=nowait, opened=opened)
    return position, None if position else segment.base_offset - 1


def is_indexed(opened: SegmentFiles, header: BatchHeader) -> bool:
    """Whether the offset index has an entry with the batch's last offset, so that two sources agree."""
    return opened.index.lookup(header.last_offset)[0] == header.last_offset


def first_at_or_after(batch: Batch, timestamp: int, offset_min: int) -> FoundRecord | None:
    rows = batch.rows()
    base = batch.header.base_offset
    for row in range(0, len(rows), COLUMNS):
        offset, record_timestamp = base + rows[row + OFFSET_DELTA], batch.timestamp_of(rows[row + TIMESTAMP_DELTA])
        if record_timestamp >= timestamp and offset >= offset_min:
            return FoundRecord(offset, record_timestamp, batch)
    return None


def sound_entry(segment: Segment, opened: SegmentFiles, entry: tuple[int, int], *, nowait: bool) -> tuple[int, int]:
    """Return `entry` if the batch that it names has its timestamp, otherwise an entry for the start of the segment."""
    known = _batch_of(segment, opened, entry, nowait)
    return (NO_TIMESTAMP, segment.base_offset) if known is None else entry


def _batch_of(
    segment: Segment, opened: SegmentFiles, entry: tuple[int, int], nowait: bool
) -> tuple[int, BatchHeader] | None:
    """Return the position and the header of the batch that an entry names, if it has the entry's timestamp."""
    timestamp, offset = entry
    if timestamp < 0:
        return None
    position = segment.floor_position(offset, nowait=nowait, opened=opened)
    chain = batch_chain.walk(opened.log, position, segment.size, nowait=nowait, block_bytes=_NEAR_BYTES)
    for batch_position, header, _ in chain:
        if header.last_offset >= offset:
            agrees = header.base_offset <= offset and header.max_timestamp == timestamp
            return (batch_position, header) if agrees else None
    return None
