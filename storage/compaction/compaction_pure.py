"""What compaction does to records, in plain Python: the specification that `_compaction.pyx` is held equal to by tests.

Two walks over blocks of a log, and a map between them. The first puts the keys of the dirty part into the map
(`offset_map_pure`). The second, here, copies what is to stay. Both take plain batches only (`plain_batch_pure` says
which), and leave the others to the caller. Follows Kafka's Cleaner (cleanInto) and MemoryRecords.filterTo.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct

from offsetfs.storage.compaction.offset_map_pure import SLOT_SIZE, Indexer, OffsetMap
from offsetfs.storage.compaction.plain_batch_pure import (
    FULL,
    MORE,
    NO_ROOM,
    OTHER,
    BatchBounds,
    check_inside,
    check_offset,
    check_rows,
    plain_batch,
    rising_rows,
)
from offsetfs.storage.compaction.rewritten_batch import empty_batch, horizon_of, rebuilt, wrapped
from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.records import varint
from offsetfs.storage.records.batch import Batch
from offsetfs.storage.records.batch_header import BatchHeader, Buffer, parse_header
from offsetfs.storage.records.codec_pure import COLUMNS
from offsetfs.storage.units import I32_MAX, I64_MAX

__all__ = [  # all that `_compaction` has
    "FULL",
    "MORE",
    "NO_ROOM",
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
    records: bytearray | None  # None: all of them


class Filter:
    """Copies what is to stay of each batch, for one round.

    A record stays when it lies behind what the map has seen; or when it has a key, no later one has it, and it has a
    value or is a tombstone whose time has not come. Base and last offset of a batch stay, whatever goes from between.
    """

    def __init__(
        self,
        offset_map: OffsetMap,
        upper_bound: int,
        now_ms: int,
        new_horizon_ms: int,
        last_offsets: Mapping[int, int],
    ) -> None:
        """Fix the round: its end `upper_bound`, its clock, the horizon that tombstones get which have none yet, and
        the last offset of each active producer by its id. The map is not to change any more.
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
        """Dropped for want of a key, though nothing says that they are old."""
        self.room_needed = 0

    def expect(self, floor: int, limit: int) -> None:
        """As `Indexer.expect`."""
        self._bounds = BatchBounds(floor, limit)

    @property
    def floor(self) -> int:
        """The offset below which the next batch cannot begin."""
        return self._bounds.floor

    def passed(self, last_offset: int) -> None:
        """Take note that everything up to `last_offset` has been seen."""
        self._bounds.floor = last_offset + 1

    def is_last(self, producer_id: int, last_offset: int) -> bool:
        """Whether a batch with this last offset stays as an empty one when all its records go.

        The last of an active producer does, for its epoch and sequence; so does the last of the round, for its offset.
        """
        is_last_of_producer = producer_id >= 0 and self._last_offsets.get(producer_id) == last_offset
        return is_last_of_producer or last_offset + 1 == self._upper_bound

    def run(self, block: Buffer, start: int, end: int, out: Buffer, position: int) -> tuple[int, int, int]:
        """Copy what stays of the plain batches of `block[start:end]` into `out`, from `position` on.

        Returns where the next batch begins, where the output ends, and the status.
        """
        if not 0 <= start <= end <= len(block) or not 0 <= position <= len(out):
            raise ValueError("a walk outside of its buffers")
        view, room = memoryview(block)[:end], memoryview(out)
        while True:
            batch, status = plain_batch(view, start, self._bounds)
            if batch is None:
                return start, position, status
            header = batch.header
            self.room_needed = header.size
            if header.size > len(room) - position:
                return start, position, NO_ROOM
            counts = self.records_read, self.records_kept, self.records_without_key
            try:
                written = self._filtered(batch)
            except MalformedBatch:
                return start, position, OTHER
            if len(written) > len(room) - position:
                self.records_read, self.records_kept, self.records_without_key = counts
                self.room_needed = len(written)
                return start, position, NO_ROOM
            room[position : position + len(written)] = written
            position += len(written)
            self._bounds.floor = header.next_offset
            start += header.size

    def _filtered(self, batch: Batch) -> Buffer:
        """Return what becomes of a plain batch."""
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
        """Return what stays of an inflated batch: number, largest timestamp, whether there is a tombstone, the records.

        None for the records when all of them stay. `MalformedBatch` as `Indexer.add`.
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
            stays = self._stays(payload, row, base_offset, tombstones_stay)
            without_key += stays is None
            if stays:
                kept += 1
                max_timestamp = max(max_timestamp, wrapped(base_timestamp + row[1]))
                has_tombstone |= row[5] < 0
                records += payload[start:end]
        self.records_read += count
        self.records_kept += kept
        self.records_without_key += without_key
        return _Kept(kept, max_timestamp, has_tombstone, None if kept == count else records)

    def _stays(self, payload: Buffer, row: tuple[int, ...], base_offset: int, tombstones_stay: bool) -> bool | None:
        """Whether a record stays; None when it goes for want of a key."""
        delta, _, key_position, key_size, _, value_size, *_ = row
        if base_offset + delta > self._latest_offset:
            return True
        if key_size < 0:
            return None
        key = memoryview(payload)[key_position : key_position + key_size]
        return base_offset + delta >= self._map.get(key) and (value_size >= 0 or tombstones_stay)

    def mark(self, messages: Buffer, rows: array[int], base_offset: int, tombstones_stay: bool) -> bytearray:
        """Return 1 for each message of v0 or v1 that stays, 0 for each that goes; `rows` describe them."""
        marks = bytearray()
        check_rows(rows)
        for at in range(0, len(rows), COLUMNS):
            row = tuple(rows[at : at + COLUMNS])
            check_inside(messages, row[2], row[3])
            check_offset(base_offset + row[0])
            stays = self._stays(messages, row, base_offset, tombstones_stay)
            self.records_without_key += stays is None
            marks.append(bool(stays))
        self.records_read += len(marks)
        self.records_kept += sum(marks)
        return marks


def _end_of_record(payload: Buffer, position: int) -> int:
    """Return the position behind the record that begins at `position`."""
    size, position = varint.decode(payload, position, len(payload))
    return position + size


def rebase(payload: Buffer, count: int, shift: int, is_constant: bool) -> bytearray:
    """Return the records with `shift` added to each timestamp delta or, with `is_constant`, in place of it."""
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
    """Return the batch with these of its records, not compressed, and the time from which its tombstones may go."""
    horizon, shift, is_append_time = horizon_of(header, horizon_ms)
    return rebuilt(horizon, rebase(records, count, shift, is_append_time), count, max_timestamp)


# --- the indexes of what was written -------------------------------------------------------------------------------


class OutputIndexer:
    """Collects the entries of both indexes of a segment in the making, in no more than `entries_max` of each.

    As `segment_indexes.IndexBuilder`, an entry for the first batch that begins more than `interval_bytes` after the
    last entry. When there are too many every second one goes, and the interval doubles.
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
        """Take note of the whole batches in `data[start:end]`, which stand from byte `position` of the log on."""
        if not 0 <= start <= end <= len(data) or not 0 <= position <= I64_MAX - (end - start):
            raise ValueError("a walk outside of its block")
        view, place = memoryview(data)[:end], start
        while place < end:
            header = parse_header(view, place)
            self.last_offset = header.last_offset
            if header.max_timestamp > self._max_timestamp:
                self._max_timestamp, self._offset_of_max = header.max_timestamp, header.last_offset
            if place + position - start - self._indexed_position > self._interval_bytes:
                self._add_entry(place + position - start)
            place += header.size

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
        """Whether an index of the segment can hold the offset, which a damaged batch may have anywhere."""
        return 0 <= offset - self.base_offset <= I32_MAX

    def _add_time(self) -> None:
        if self._max_timestamp > self._time_entry and self._is_indexable(self._offset_of_max):
            self.times += _TIME_ENTRY.pack(self._max_timestamp, self._offset_of_max - self.base_offset)
            self._time_entry = self._max_timestamp

    def finish(self) -> None:
        """Add the time entry that every sealed segment ends with."""
        self._add_time()


def _thinned(entries: bytearray, size: int) -> bytearray:
    """Return every second entry, the last one among them."""
    first = (len(entries) // size - 1) % 2 * size
    return bytearray(b"".join(entries[at : at + size] for at in range(first, len(entries), 2 * size)))
