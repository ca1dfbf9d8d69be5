"""The record scans of compaction, in Python: the reference that tests compare `native/compaction.pyx` with.

There are two scans over blocks of a log, with a map between them. The first stores the keys of the dirty part in the
map (`reference/offset_map.py`). The second, in this module, copies the records to keep. Both take only plain batches
(see `reference/plain_batch.py`), and leave others to the caller. Follows Kafka's Cleaner (cleanInto) and
MemoryRecords.filterTo.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct

from offsetfs.storage.compaction.rewritten_batch import empty_batch, horizon_of, rebuilt
from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.records.format import varint
from offsetfs.storage.records.format.batch import Batch
from offsetfs.storage.records.format.batch_header import BatchHeader, Buffer, parse_header
from offsetfs.storage.records.format.record_row import (
    COLUMNS,
    KEY_POSITION,
    KEY_SIZE,
    OFFSET_DELTA,
    TIMESTAMP_DELTA,
    VALUE_SIZE,
)
from offsetfs.storage.reference.offset_map import SLOT_SIZE, Indexer, OffsetMap
from offsetfs.storage.reference.plain_batch import (
    FULL,
    MORE,
    NO_SPACE,
    OTHER,
    BatchBounds,
    check_inside,
    check_offset,
    check_rows,
    plain_batch,
    rising_rows,
)
from offsetfs.storage.units import I32_MAX, I64_MAX, wrapped

__all__ = [  # all names of `native/compaction.pyx`
    "FULL",
    "MORE",
    "NO_SPACE",
    "OTHER",
    "SLOT_SIZE",
    "Filter",
    "Indexer",
    "OffsetMap",
    "OutputIndexer",
    "rebase",
]

_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")


@dataclass(frozen=True, slots=True)
class _Kept:
    count: int
    max_timestamp: int
    has_tombstone: bool
    records: bytearray | None  # None means all of them


class Filter:
    """Copies the records to keep of each batch, for one round.

    A record is kept if its offset is above those in the map. It is also kept if it has a key, no later record has that
    key, and it has a value or is a tombstone whose horizon is not reached. Base and last offset of a batch never
    change.
    """

    def __init__(
        self,
        offset_map: OffsetMap,
        upper_bound: int,
        now_ms: int,
        new_horizon_ms: int,
        last_offsets: Mapping[int, int],
    ) -> None:
        """Set the parameters of the round.

        These are its end `upper_bound`, its clock, the horizon for tombstones that have none, and the last offset of
        each active producer by id. The map must not change any more.
        """
        self._map = offset_map
        self._latest_offset = offset_map.latest_offset
        self._upper_bound = upper_bound
        self._now_ms = now_ms
        self._new_horizon_ms = new_horizon_ms
        self._last_offsets = dict(last_offsets)
        self._bounds = BatchBounds()
        self.records_read = 0
        self.records_kept = 0
        self.records_without_key = 0
        """Records that were removed because they have no key."""
        self.space_needed = 0

    def set_bounds(self, floor: int, limit: int) -> None:
        """See `Indexer.expect`."""
        self._bounds = BatchBounds(floor, limit)

    @property
    def floor(self) -> int:
        """The lowest offset at which the next batch can begin."""
        return self._bounds.floor

    def advance_to(self, last_offset: int) -> None:
        """Record that all offsets up to `last_offset` have been processed."""
        self._bounds.floor = last_offset + 1

    def is_last(self, producer_id: int, last_offset: int) -> bool:
        """Whether a batch with this last offset is kept without records if all its records are removed.

        That holds for the last batch of an active producer, because of its epoch and sequence, and for the last batch
        of the round, because of its offset.
        """
        is_last_of_producer = producer_id >= 0 and self._last_offsets.get(producer_id) == last_offset
        return is_last_of_producer or last_offset + 1 == self._upper_bound

    def run(self, block: Buffer, start: int, end: int, out: Buffer, position: int) -> tuple[int, int, int]:
        """Copy the records to keep of the plain batches in `block[start:end]` to `out`, from `position` on.

        Returns the position of the next batch, the end of the output, and the status.
        """
        if not 0 <= start <= end <= len(block) or not 0 <= position <= len(out):
            raise ValueError("positions outside of the buffers")
        view, space = memoryview(block)[:end], memoryview(out)
        while True:
            batch, status = plain_batch(view, start, self._bounds)
            if batch is None:
                return start, position, status
            header = batch.header
            self.space_needed = header.size
            if header.size > len(space) - position:
                return start, position, NO_SPACE
            counts = self.records_read, self.records_kept, self.records_without_key
            try:
                written = self._filtered(batch)
            except MalformedBatch:
                return start, position, OTHER
            if len(written) > len(space) - position:
                self.records_read, self.records_kept, self.records_without_key = counts
                self.space_needed = len(written)
                return start, position, NO_SPACE
            space[position : position + len(written)] = written
            position += len(written)
            self._bounds.floor = header.next_offset
            start += header.size

    def _filtered(self, batch: Batch) -> Buffer:
        """Return what remains of a plain batch."""
        header, payload = batch.header, batch.payload()
        kept = self._keep(
            payload,
            header.count,
            header.base_offset,
            header.last_offset_delta,
            header.base_timestamp,
            header.has_delete_horizon,
        )
        if not kept.count:
            return empty_batch(header) if self.is_last(header.producer_id, header.last_offset) else b""
        records: Buffer = payload if kept.records is None else kept.records
        if kept.has_tombstone and not header.has_delete_horizon:
            return with_horizon(header, records, kept.count, kept.max_timestamp, self._new_horizon_ms)
        if kept.records is None:
            return batch.data
        return rebuilt(header, records, kept.count, kept.max_timestamp)

    def retain(
        self,
        payload: Buffer,
        count: int,
        base_offset: int,
        last_offset_delta: int,
        base_timestamp: int,
        has_horizon: bool,
    ) -> tuple[int, int, bool, bytearray | None]:
        """Return what remains of a decompressed batch: record count, largest timestamp, whether it has a tombstone,
        records.

        The records are None if all of them stay. Raises `MalformedBatch` as `Indexer.add`.
        """
        kept = self._keep(payload, count, base_offset, last_offset_delta, base_timestamp, has_horizon)
        return kept.count, kept.max_timestamp, kept.has_tombstone, kept.records

    def _keep(
        self,
        payload: Buffer,
        count: int,
        base_offset: int,
        last_offset_delta: int,
        base_timestamp: int,
        has_horizon: bool,
    ) -> _Kept:
        tombstones_stay = not has_horizon or self._now_ms < base_timestamp
        records, kept, without_key, max_timestamp, has_tombstone, end = bytearray(), 0, 0, -1, False, 0
        for row in rising_rows(payload, count, last_offset_delta):
            start, end = end, _end_of_record(payload, end)
            stays = self._keeps(payload, row, base_offset, tombstones_stay)
            without_key += stays is None
            if stays:
                kept += 1
                max_timestamp = max(max_timestamp, wrapped(base_timestamp + row[TIMESTAMP_DELTA]))
                has_tombstone |= row[VALUE_SIZE] < 0
                records += payload[start:end]
        self.records_read += count
        self.records_kept += kept
        self.records_without_key += without_key
        return _Kept(kept, max_timestamp, has_tombstone, None if kept == count else records)

    def _keeps(self, payload: Buffer, row: tuple[int, ...], base_offset: int, tombstones_stay: bool) -> bool | None:
        """Whether a record stays; None if it is removed because it has no key."""
        delta, _, key_position, key_size, _, value_size, *_ = row
        if base_offset + delta > self._latest_offset:
            return True
        if key_size < 0:
            return None
        key = memoryview(payload)[key_position : key_position + key_size]
        return base_offset + delta >= self._map.get(key) and (value_size >= 0 or tombstones_stay)

    def mark(self, messages: Buffer, rows: array[int], base_offset: int, tombstones_stay: bool) -> bytearray:
        """Return 1 for each v0 or v1 message that stays, and 0 for each that is removed; `rows` describe them."""
        marks = bytearray()
        check_rows(rows)
        for at in range(0, len(rows), COLUMNS):
            row = tuple(rows[at : at + COLUMNS])
            check_inside(messages, row[KEY_POSITION], row[KEY_SIZE])
            check_offset(base_offset + row[OFFSET_DELTA])
            stays = self._keeps(messages, row, base_offset, tombstones_stay)
            self.records_without_key += stays is None
            marks.append(bool(stays))
        self.records_read += len(marks)
        self.records_kept += sum(marks)
        return marks


def _end_of_record(payload: Buffer, position: int) -> int:
    """Return the end position of the record that begins at `position`."""
    size, position = varint.decode(payload, position, len(payload))
    return position + size


def rebase(payload: Buffer, count: int, shift: int, is_constant: bool) -> bytearray:
    """Return the records with `shift` added to each timestamp delta, or with deltas of `shift` if `is_constant`."""
    records, position = bytearray(), 0
    for _ in range(count):
        size, start = varint.decode(payload, position, len(payload))
        position = start + size
        if size < 1 or position > len(payload):
            raise MalformedBatch("records that cannot be read")
        delta, rest = varint.decode_long(payload, start + 1, position)
        stamp = varint.encode_long(shift if is_constant else wrapped(delta + shift))
        records += varint.encode(1 + len(stamp) + position - rest) + payload[start : start + 1]
        records += stamp + payload[rest:position]
    return records


def with_horizon(header: BatchHeader, records: Buffer, count: int, max_timestamp: int, horizon_ms: int) -> bytearray:
    """Return the batch with these of its records, uncompressed, and the delete horizon of its tombstones."""
    horizon, shift, is_append_time = horizon_of(header, horizon_ms)
    return rebuilt(horizon, rebase(records, count, shift, is_append_time), count, max_timestamp)


# --- the indexes of what was written -------------------------------------------------------------------------------


class OutputIndexer:
    """Collects the index entries of a segment that is being written, at most `entries_max` for each index.

    Like `segment_indexes.IndexBuilder`, it adds an entry for the first batch that begins more than `interval_bytes`
    after the last entry. If there are too many entries, every second one is removed and the interval doubles.
    """

    def __init__(self, base_offset: int, interval_bytes: int, entries_max: int) -> None:
        self.base_offset = base_offset
        self.last_offset = base_offset - 1
        self.offsets = bytearray()
        self.times = bytearray()
        self._interval_bytes = interval_bytes
        self._entries_max = entries_max
        self._indexed_position = 0
        self._max_timestamp = -1
        self._offset_of_max = base_offset
        self._time_entry = -1

    def add(self, data: Buffer, start: int, end: int, position: int) -> None:
        """Add the whole batches in `data[start:end]`, which begin at byte `position` of the log."""
        if not 0 <= start <= end <= len(data) or not 0 <= position <= I64_MAX - (end - start):
            raise ValueError("positions outside of the block")
        view, batch_position = memoryview(data)[:end], start
        while batch_position < end:
            header = parse_header(view, batch_position)
            self.last_offset = header.last_offset
            if header.max_timestamp > self._max_timestamp:
                self._max_timestamp, self._offset_of_max = header.max_timestamp, header.last_offset
            if batch_position + position - start - self._indexed_position > self._interval_bytes:
                self._add_entry(batch_position + position - start)
            batch_position += header.size

    def _add_entry(self, position: int) -> None:
        self._indexed_position = position
        if not self._entries_max or position > I32_MAX or not self._is_indexable(self.last_offset):
            return
        self.offsets += _OFFSET_ENTRY.pack(self.last_offset - self.base_offset, position)
        self._add_time()
        if len(self.offsets) > _OFFSET_ENTRY.size * self._entries_max:
            self.offsets = _thinned(self.offsets, _OFFSET_ENTRY.size)
            self.times = _thinned(self.times, _TIME_ENTRY.size)
            self._interval_bytes = 2 * self._interval_bytes + 1

    def _is_indexable(self, offset: int) -> bool:
        """Whether an index of the segment can hold the offset. That of a damaged batch may be out of range."""
        return 0 <= offset - self.base_offset <= I32_MAX

    def _add_time(self) -> None:
        if self._max_timestamp > self._time_entry and self._is_indexable(self._offset_of_max):
            self.times += _TIME_ENTRY.pack(self._max_timestamp, self._offset_of_max - self.base_offset)
            self._time_entry = self._max_timestamp

    def finish(self) -> None:
        """Add the time entry that every sealed segment ends with."""
        self._add_time()


def _thinned(entries: bytearray, size: int) -> bytearray:
    """Return every second entry, including the last."""
    first = (len(entries) // size - 1) % 2 * size
    return bytearray(b"".join(entries[at : at + size] for at in range(first, len(entries), 2 * size)))
