"""Finds records of a segment by time.

Follows Kafka's LogSegment.findOffsetByTimestamp. An entry (T, O) of the time index says that every record with a
timestamp above T lies after O. It is used only if the batch that holds O has T as its largest timestamp. Otherwise the
search begins at the start of the segment, which takes longer but gives the same answer. Unreadable batches are skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from offsetfs.storage.errors import UNREADABLE, StorageError, WouldBlock
from offsetfs.storage.records.columns import row_walk
from offsetfs.storage.records.format import batch_chain, chain
from offsetfs.storage.records.format.batch import Batch, BatchHeader
from offsetfs.storage.records.format.legacy import RUNS, TIMELESS_RUNS
from offsetfs.storage.records.format.record_row import COLUMNS, OFFSET_DELTA, TIMESTAMP_DELTA
from offsetfs.storage.segments import offset_search
from offsetfs.storage.segments.segment_interfaces import SearchableSegment, SegmentFiles
from offsetfs.storage.units import NO_TIMESTAMP

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


def find_record(
    segment: SearchableSegment,
    timestamp: int,
    offset_min: int,
    *,
    shows: VisibilityFilter = shows_data,
    offset_end: int | None = None,
    on_damage: Callable[[StorageError], object] = lambda error: None,
    nowait: bool = False,
) -> FoundRecord | None:
    """Return the first record ≥ `offset_min` with a timestamp ≥ `timestamp`, or None.

    Unreadable batches on the way are passed to `on_damage`; with `nowait` they raise `WouldBlock`. If offsets are out
    of order, because a batch has a wrong offset, `offset_order` finds the record.
    """
    opened = segment.open_files(nowait=nowait)
    position, before = _start(segment, opened, timestamp, offset_min, nowait)
    log = opened.log
    for batch_position, header, seen in batch_chain.walk(
        log, position, segment.size, on_damage=on_damage, nowait=nowait, runs=RUNS
    ):
        rises = before < header.base_offset if before is not None else _is_indexed(opened, header)
        before = header.last_offset
        if header.max_timestamp < timestamp or header.last_offset < offset_min or not shows(header, nowait=nowait):
            continue
        try:
            batch = batch_chain.load(opened.log, batch_position, header, seen, nowait=nowait)
            found = _first_at_or_after(batch, timestamp, offset_min)
            if found is None:
                continue
            # The base offset may be damaged, so the time leads to a batch only if its offset fits between its
            # neighbors.
            if rises and offset_search.ends_in_order(
                segment, opened.log, batch_position, header, seen, offset_end, nowait
            ):
                return found
            holder = segment.find(found.offset, offset_end=offset_end, nowait=nowait)
        except UNREADABLE as error:
            if nowait:
                raise WouldBlock(
                    "the search must skip damage", path=segment.log_path, position=batch_position
                ) from None
            on_damage(error)
            continue
        if holder is not None and batch_position <= (holder.position or 0) < batch_position + header.size:
            return found
    return None


def _start(
    segment: SearchableSegment, opened: SegmentFiles, timestamp: int, offset_min: int, nowait: bool
) -> tuple[int, int | None]:
    """Return the position where the scan starts, and the last offset before it, None if that is unknown.

    That is after the batch of the time index's entry, if that has an earlier time.
    """
    entry = opened.time_index.lookup(timestamp)
    in_order = entry[0] <= timestamp
    # Entries out of order, negative, or beyond the end of the log once led a search past its answer.
    known = _batch_of(segment, opened, entry, nowait) if in_order else None
    if known is not None and offset_min <= entry[1]:
        batch_position, header = known
        return (batch_position + header.size, header.last_offset) if entry[0] < timestamp else (batch_position, None)
    position = offset_search.floor_position(segment, opened, max(offset_min, segment.base_offset), nowait)
    return position, None if position else segment.base_offset - 1


def _is_indexed(opened: SegmentFiles, header: BatchHeader) -> bool:
    """Whether the offset index has an entry with the batch's last offset, so that two sources agree."""
    return opened.index.lookup(header.last_offset)[0] == header.last_offset


def _first_at_or_after(batch: Batch, timestamp: int, offset_min: int) -> FoundRecord | None:
    rows = batch.rows()
    base = batch.header.base_offset
    for row in range(0, len(rows), COLUMNS):
        offset, record_timestamp = base + rows[row + OFFSET_DELTA], batch.timestamp_of(rows[row + TIMESTAMP_DELTA])
        if record_timestamp >= timestamp and offset >= offset_min:
            return FoundRecord(offset, record_timestamp, batch)
    return None


def last_entry(segment: SearchableSegment) -> tuple[int, int]:
    """Return the last entry of the time index, if it is valid. The segment's largest timestamp is at least that."""
    opened = segment.open_files()
    return sound_entry(segment, opened, opened.time_index.last_entry, nowait=False)


def measure_max_timestamp(segment: SearchableSegment) -> tuple[int, int]:
    """Return the largest timestamp and the last offset of the first batch that has it, or (-1, base offset).

    Uses the last entry of the time index, if it is valid, and scans the later batches.
    """
    opened = segment.open_files()
    timestamp, offset = sound_entry(segment, opened, opened.time_index.last_entry, nowait=False)
    position = offset_search.floor_position(segment, opened, offset, nowait=False) if timestamp >= 0 else 0
    for rows in row_walk.header_rows(opened.log, position, segment.size, runs=TIMELESS_RUNS):
        times = rows.column(chain.MAX_TIMESTAMP)
        latest = max(times)
        if latest > timestamp:
            timestamp, offset = latest, rows.batch(times.index(latest))[1].last_offset
    return timestamp, offset


def max_data_timestamp(segment: SearchableSegment, offset_min: int) -> int:
    """Return the largest timestamp of the batches with records that reach `offset_min`; -1 if none does.

    Transaction markers are not records.
    """
    headers = (header for _, header in segment.headers(over_damage=True, runs=RUNS) if header.last_offset >= offset_min)
    # ListOffsets -3 (KIP-734) asks for a record; a transaction marker may have a later timestamp.
    data = (header for header in headers if header.count and not header.is_control)
    return max((header.max_timestamp for header in data), default=-1)


def sound_entry(
    segment: SearchableSegment, opened: SegmentFiles, entry: tuple[int, int], *, nowait: bool
) -> tuple[int, int]:
    """Return `entry` if the batch that it names has its timestamp, otherwise an entry for the start of the segment."""
    known = _batch_of(segment, opened, entry, nowait)
    return (NO_TIMESTAMP, segment.base_offset) if known is None else entry


def _batch_of(
    segment: SearchableSegment, opened: SegmentFiles, entry: tuple[int, int], nowait: bool
) -> tuple[int, BatchHeader] | None:
    """Return the position and the header of the batch that an entry names, if it has the entry's timestamp."""
    timestamp, offset = entry
    if timestamp < 0:
        return None
    position = offset_search.floor_position(segment, opened, offset, nowait)
    chain = batch_chain.walk(opened.log, position, segment.size, nowait=nowait, block_bytes=_NEAR_BYTES)
    for batch_position, header, _ in chain:
        if header.last_offset >= offset:
            agrees = header.base_offset <= offset and header.max_timestamp == timestamp
            return (batch_position, header) if agrees else None
    return None
