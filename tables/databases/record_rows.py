"""The records of a batch as columns of the table: lists of Python values, which every driver of a database takes.

Keys and values are cut out of the payload by the rows of a scan; there is no object for a record.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import struct
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

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

_VALUE_SIZE = VALUE + 1


@dataclass(frozen=True, slots=True)
class RowSource:
    """The values that all rows of a partition have in common."""

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
    typed: dict[str, list[Any]] = field(default_factory=dict)
    """The columns of decoded values."""

    def __len__(self) -> int:
        return len(self.offsets)

    def column(self, name: str) -> Sequence[object]:
        """Return a column of the table as Python values: times in milliseconds, None for a null."""
        if name in self.typed:
            return self.typed[name]
        if name == TOPIC:
            return [self.partition.topic] * len(self)
        if name == PARTITION:
            return [self.partition.partition] * len(self)
        if name == PRODUCER:
            return [self.producer_id] * len(self)
        if name == TIME:
            return [None if timestamp == NO_TIMESTAMP else timestamp for timestamp in self.timestamps]
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
    gathered = gather_headers(batch.payload(), rows)
    ends = gathered.ends
    total = ends[len(counts)]
    names, values = _cut(gathered.names, total), _cut(gathered.values, total)
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
    offsets = [int(record.offset) for record in records]
    _check(batch, offsets, 0, OFFSET_MAX - 1)
    base = offsets[0] if offsets else 0
    deltas = [offset - base for offset in offsets]
    return RecordRows(
        source.partition,
        offsets,
        message_uuids(source.origin, source.partition.partition, base, deltas, None),
        [record.key for record in records],
        [record.value for record in records],
        [None] * len(records),
        None,
        [int(record.timestamp) for record in records],
    )


# --- headers ----------------------------------------------------------------------------------------------------------

Headers = tuple[tuple[str, bytes | None], ...]

_encode = json.JSONEncoder(ensure_ascii=False).encode


def header_json(headers: Iterable[tuple[bytes, bytes | None]]) -> str:
    """Return headers, each a name and a value as bytes, as JSON, in the form that `records.ndjson` has.

        [{"key":"trace","value":"abc"},{"key":"trace","value":null},{"key":"raw","value_b64":"/w=="}]

    A list, because names may repeat and have an order. Bytes that are no UTF-8 are in base64 under a name that ends in
    `_b64`, and so are bytes with a NUL: PostgreSQL's JSONB stores none.
    """
    return "[" + ",".join(f"{{{_name(name)},{_field('value', value)}}}" for name, value in headers) + "]"


@functools.lru_cache(maxsize=4096)
def _name(name: bytes) -> str:
    return _field("key", name)


def _field(name: str, data: bytes | None) -> str:
    if data is None:
        return f'"{name}":null'
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return f'"{name}_b64":"{base64.b64encode(data).decode()}"'
    return f'"{name}":{_encode(text)}'


def headers_of(text: str | None) -> Headers:
    """Return the headers of a row, names as a `Record` has them; ValueError for another form than `header_json`'s."""
    if text is None:
        return ()
    headers = json.loads(text)
    if not isinstance(headers, list):
        raise ValueError("headers are a list")
    return tuple(_header(header) for header in headers)


def _header(header: Any) -> tuple[str, bytes | None]:
    if not isinstance(header, dict) or len(header) != 2:
        raise ValueError('a header is {"key":…,"value":…}')
    name = _bytes_of(header, "key")
    if name is None:
        raise ValueError("a header has a key")
    return name.decode("utf-8", "surrogateescape"), _bytes_of(header, "value")


def _bytes_of(header: dict[str, Any], name: str) -> bytes | None:
    encoded = f"{name}_b64"
    if encoded in header and isinstance(header[encoded], str):
        return base64.b64decode(header[encoded], validate=True)
    value = header.get(name, 0)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"a header has {name} or {encoded}, each of them text")
    return None if value is None else value.encode()


# --- ids of messages --------------------------------------------------------------------------------------------------

_ERA_BITS = 31
_MASK = (1 << _ERA_BITS) - 1
_SEED = struct.Struct(">16siqhq")
_NUMBER = struct.Struct(">I")
_NO_PRODUCER = -1


def origin_of(topic: str, topic_id: bytes | None) -> bytes:
    """Return 16 bytes that stand for a topic: its id, or a hash of its name where the directory has no id."""
    return topic_id or hashlib.sha256(b"topic name " + topic.encode()).digest()[:16]


def message_uuids(
    origin: bytes,
    partition: int,
    base_offset: int,
    deltas: Sequence[int],
    producer: tuple[int, int, int] | None,
) -> list[bytes]:
    """Return the ids of the records of a batch, 16 bytes each. A record has the same id, however often it is loaded.

         0                   1                   2                   3
        +---------------------------------------------------------------+
        |                     hash, 48 bits                             |
        +                               +-------+-----------------------+
        |                               | 8     | hash, 12 bits         |
        +---+---------------------------+-------+-----------------------+
        |1 0| hash, 30 bits                                             |
        +---+-----------------------------------------------------------+
        | 0 | number, 31 bits                                           |
        +---+-----------------------------------------------------------+

    A UUID of version 8 (RFC 9562). `number` is the sequence of the record if its producer was idempotent, otherwise its
    offset, modulo 2³¹. The hash is SHA-256 of topic id, partition, producer id and epoch, and offset divided by 2³¹.
    Sequences start again at 0 after 2³¹ records, and the offset is then in another range of 2³¹. Neighbors in the log
    are neighbors in an index, so that inserts touch few of its pages.

    `producer`: its id, its epoch and the sequence of the batch; None to use offsets.
    """
    producer_id, epoch, base_number = producer or (_NO_PRODUCER, -1, base_offset)
    first_era = base_offset >> _ERA_BITS
    if not deltas or (base_offset + deltas[-1]) >> _ERA_BITS == first_era:
        prefix = _prefix(origin, partition, producer_id, epoch, first_era)
        return [prefix + _NUMBER.pack((base_number + delta) & _MASK) for delta in deltas]
    return [
        _prefix(origin, partition, producer_id, epoch, (base_offset + delta) >> _ERA_BITS)
        + _NUMBER.pack((base_number + delta) & _MASK)
        for delta in deltas
    ]


@functools.lru_cache(maxsize=1024)
def _prefix(origin: bytes, partition: int, producer_id: int, epoch: int, era: int) -> bytes:
    prefix = bytearray(hashlib.sha256(_SEED.pack(origin, partition, producer_id, epoch, era)).digest()[:12])
    prefix[6] = prefix[6] & 0x0F | 0x80
    prefix[8] = prefix[8] & 0x3F | 0x80
    return bytes(prefix)
