"""The records of a batch as columns of the table: lists of Python values, which every driver of a database takes.

Keys and values are cut out of the payload by the rows of a scan; there is no object for a record.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from offsetfs.storage import OFFSET_MAX, Batch, BatchSlice, TopicPartition
from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.records import (
    COLUMNS,
    HEADERS_COUNT,
    KEY,
    KEY_SIZE,
    NO_TIMESTAMP,
    OFFSET_DELTA,
    TIMESTAMP_DELTA,
    VALUE,
    Column,
    gather_headers,
)
from offsetfs.tables.databases.header_json import header_json
from offsetfs.tables.databases.layout import (
    HEADERS,
    MESSAGE_KEY,
    OFFSET,
    PARTITION,
    PAYLOAD,
    PRODUCER,
    TIME,
    TOPIC,
    UUID,
)
from offsetfs.tables.databases.message_uuids import message_uuids

_VALUE_SIZE = VALUE + 1


@dataclass(frozen=True, slots=True)
class RowSource:
    """What all rows of a partition have in common."""

    partition: TopicPartition
    origin: bytes
    """16 bytes that stand for the topic, see `message_uuids`."""
    uses_producers: bool = True
    """Whether the sequence of an idempotent producer is part of the id of a message."""


@dataclass(slots=True)
class RecordRows:
    """Rows of one partition in the order of their offsets; each list has an entry for each row."""

    partition: TopicPartition
    offsets: list[int]
    uuids: list[bytes]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[str | None]
    """JSON; None for a record without headers."""
    producer_id: int | None
    """None for a producer that is not idempotent."""
    timestamps: list[int]
    """Milliseconds since 1970; -1 for none."""

    def __len__(self) -> int:
        return len(self.offsets)

    def column(self, name: str) -> Sequence[object]:
        """Return a column of the table as Python values: times in milliseconds, None for a null."""
        if name == TOPIC:
            return [self.partition.topic] * len(self)
        if name == PARTITION:
            return [self.partition.partition] * len(self)
        if name == PRODUCER:
            return [self.producer_id] * len(self)
        if name == TIME:
            return [None if each == NO_TIMESTAMP else each for each in self.timestamps]
        lists: dict[str, Sequence[object]] = {
            UUID: self.uuids,
            OFFSET: self.offsets,
            MESSAGE_KEY: self.keys,
            PAYLOAD: self.values,
            HEADERS: self.headers,
        }
        return lists[name]

    def only(self, picks: list[int]) -> RecordRows:
        """Return the rows with these numbers."""
        return RecordRows(
            self.partition,
            [self.offsets[pick] for pick in picks],
            [self.uuids[pick] for pick in picks],
            [self.keys[pick] for pick in picks],
            [self.values[pick] for pick in picks],
            [self.headers[pick] for pick in picks],
            self.producer_id,
            [self.timestamps[pick] for pick in picks],
        )


def record_rows(piece: BatchSlice, source: RowSource) -> RecordRows:
    """Return the records of a batch that belong to the range. Raises as `Batch.rows`, and `MalformedBatch` for a record
    whose offset lies outside of its batch."""
    batch, start, stop = piece
    rows = _old_rows(batch, source) if batch.header.is_old else _rows(batch, source)
    if start <= batch.base_offset and batch.header.next_offset <= stop:
        return rows
    return rows.only([number for number, offset in enumerate(rows.offsets) if start <= offset < stop])


def _rows(batch: Batch, source: RowSource) -> RecordRows:
    header, rows = batch.header, batch.rows()
    data = bytes(batch.payload())
    deltas = rows[OFFSET_DELTA::COLUMNS]
    base = header.base_offset
    offsets = [base + delta for delta in deltas]
    _check(batch, offsets, base, header.last_offset)
    is_idempotent = header.producer_id >= 0 and header.base_sequence >= 0
    producer = (header.producer_id, header.producer_epoch, header.base_sequence) if is_idempotent else None
    return RecordRows(
        source.partition,
        offsets,
        message_uuids(
            *(source.origin, source.partition.partition, base, deltas), producer if source.uses_producers else None
        ),
        _fields(data, rows[KEY::COLUMNS], rows[KEY_SIZE::COLUMNS]),
        _fields(data, rows[VALUE::COLUMNS], rows[_VALUE_SIZE::COLUMNS]),
        _headers(batch, rows),
        header.producer_id if header.producer_id >= 0 else None,
        [batch.timestamp_of(delta) for delta in rows[TIMESTAMP_DELTA::COLUMNS]],
    )


def _check(batch: Batch, offsets: Sequence[int], first: int, last: int) -> None:
    # A checksum covers the offsets, not whether they fit. COPY of PostgreSQL takes one above 2⁶³ for a negative one.
    if offsets and not first <= min(offsets) <= max(offsets) <= last:
        raise batch.placed(MalformedBatch("a record whose offset lies outside of its batch"))


def _fields(data: bytes, positions: Iterable[int], sizes: Iterable[int]) -> list[bytes | None]:
    return [
        None if size < 0 else data[position : position + size] for position, size in zip(positions, sizes, strict=True)
    ]


def _headers(batch: Batch, rows: array[int]) -> list[str | None]:
    counts = rows[HEADERS_COUNT::COLUMNS]
    if not any(counts):
        return [None] * len(counts)
    found = gather_headers(batch.payload(), rows)
    ends = found.ends
    total = ends[len(counts)]
    names, values = _cut(found.names, total), _cut(found.values, total)
    return [
        header_json(zip(names[ends[row] : ends[row + 1]], values[ends[row] : ends[row + 1]], strict=True))  # type: ignore[arg-type]
        if count
        else None
        for row, count in enumerate(counts)
    ]


def _cut(column: Column, count: int) -> list[bytes | None]:
    data, ends, validity = bytes(column.data), column.ends, column.validity
    return [
        None if validity is not None and not validity[row >> 3] >> (row & 7) & 1 else data[ends[row] : ends[row + 1]]
        for row in range(count)
    ]


def _old_rows(batch: Batch, source: RowSource) -> RecordRows:
    """Return messages of formats v0 and v1, which have neither headers nor producers."""
    records = batch.records()
    offsets = [int(each.offset) for each in records]
    _check(batch, offsets, 0, OFFSET_MAX - 1)
    base = offsets[0] if offsets else 0
    deltas = [offset - base for offset in offsets]
    return RecordRows(
        source.partition,
        offsets,
        message_uuids(source.origin, source.partition.partition, base, deltas, None),
        [each.key for each in records],
        [each.value for each in records],
        [None] * len(records),
        None,
        [int(each.timestamp) for each in records],
    )
