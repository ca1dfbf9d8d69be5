"""Records as columns in plain Python: the specification of `native/columns.pyx`; tests compare both.

A column has the layout that Arrow gives to values of varying length, so that Arrow can use the buffers
without a copy:

    ends       32-bit numbers, one more than values: value n is data[ends[n]:ends[n + 1]]
    data       all values, one behind the other
    validity   a bit a value, the lowest first, 0 for a null; None: there is no null

Reading gathers columns from the rows of a batch (`Batch.rows`), writing turns columns into records of a batch that is
being built. What is gathered is checked against the payload; what is written against the columns.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from offsetfs.storage.records.format import varint
from offsetfs.storage.records.format.batch_cursor import BatchCursor
from offsetfs.storage.records.format.partitioner import partition_of
from offsetfs.storage.records.format.record_row import (
    COLUMNS,
    HEADERS_COUNT,
    HEADERS_POSITION,
    KEY_POSITION,
    VALUE_POSITION,
)
from offsetfs.storage.reference.codec import Buffer
from offsetfs.storage.units import I32_MAX, wrapped

KEY, VALUE, HEADERS = KEY_POSITION, VALUE_POSITION, HEADERS_POSITION
"""The column of a scanned row that has the position of each; its size or count follows."""


class Column(NamedTuple):
    """Values of varying length, and nulls; see above."""

    ends: array[int] | memoryview
    data: Buffer
    validity: Buffer | None = None


class HeaderColumns(NamedTuple):
    """The headers of record n are those from `ends[n]` to before `ends[n + 1]`, each a name and a value."""

    ends: array[int] | memoryview
    names: Column
    values: Column


class RecordColumns(NamedTuple):
    """Records to be written. What is None is null in all of them; timestamps are milliseconds, 64 bits each."""

    keys: Column | None
    values: Column | None
    headers: HeaderColumns | None
    timestamps: array[int] | memoryview


class Encoded(NamedTuple):
    """The progress of `encode_columns`."""

    pick: int
    """The next of the picks."""

    cursor: BatchCursor
    """The batch then, without its target, and with the sums of this call."""

    record_bytes: int
    """The size that the next record has as the first of a batch, when it did not fit; else 0."""


# --- reading -------------------------------------------------------------------------------------------------------


def gather(payload: Buffer, rows: array[int], column: int) -> Column:
    """Return the keys or the values (`column`) of the scanned rows.

    ValueError where the rows are of another payload, or the column takes more than 2 GiB.
    """
    pairs = zip(rows[column::COLUMNS], rows[column + 1 :: COLUMNS], strict=True)
    return _gathered(memoryview(payload).cast("B"), list(pairs))


def gather_headers(payload: Buffer, rows: array[int]) -> HeaderColumns:
    """Return the headers of the scanned rows; raises as `gather`."""
    view = memoryview(payload).cast("B")
    ends = array("i", [0])
    names: list[tuple[int, int]] = []
    values: list[tuple[int, int]] = []
    for position, count in zip(rows[HEADERS_POSITION::COLUMNS], rows[HEADERS_COUNT::COLUMNS], strict=True):
        if not 0 <= count <= min(len(view), I32_MAX) - len(names):  # a header has two bytes at least
            raise ValueError("headers outside of their payload")
        for _ in range(count):
            for fields in names, values:
                if not 0 <= position < len(view):
                    raise ValueError("headers outside of their payload")
                size, position = varint.decode(view, position, len(view))
                fields.append((position, max(size, -1)))
                position += max(size, 0)
        ends.append(len(names))
    return HeaderColumns(ends, _gathered(view, names), _gathered(view, values))


def _gathered(view: memoryview, pairs: Sequence[tuple[int, int]]) -> Column:
    ends, data, validity = array("i", [0]), bytearray(), bytearray((len(pairs) + 7) // 8)
    for number, (position, size) in enumerate(pairs):
        if size >= 0:
            if position < 0 or position + size > len(view):
                raise ValueError("a field outside of its payload")
            data += view[position : position + size]
            validity[number >> 3] |= 1 << (number & 7)
        if len(data) > I32_MAX:
            raise ValueError("a column of more than 2 GiB")
        ends.append(len(data))
    return Column(ends, data, validity if any(size < 0 for _, size in pairs) else None)


# --- writing -------------------------------------------------------------------------------------------------------


def spread_keys(keys: Column, count: int, partitions: int) -> array[int]:
    """Return for each of `count` keys the partition, of so many, to which it belongs (`partitioner`); -1 for a null."""
    if partitions < 1:
        raise ValueError(f"{partitions} partitions")
    if not 0 <= count < len(keys.ends):
        raise ValueError("a row outside of its column")
    values = (_value(keys, row, count) for row in range(count))
    return array("i", (-1 if key is None else partition_of(key, partitions) for key in values))


def encode_columns(columns: RecordColumns, picks: array[int], pick: int, cursor: BatchCursor) -> Encoded:
    """Write the rows `picks[pick:]` as records into the target of `cursor`, as many as fit.

    ValueError for a timestamp below -1, a row that is not there, a header without a name.
    """
    target, position, delta = cursor.target, cursor.position, cursor.offset_delta
    base, latest, values_bytes, record_bytes = cursor.base_timestamp, -1, 0, 0
    assert target is not None
    timestamps = memoryview(columns.timestamps)
    while pick < len(picks) and delta <= I32_MAX:
        row = picks[pick]
        if not 0 <= row < len(timestamps):
            raise ValueError("a row that is not there")
        timestamp = timestamps[row]
        if timestamp < -1:
            raise ValueError(f"a timestamp of {timestamp}")
        rest, value_size = _fields(columns, row, len(timestamps))
        record = _framed(wrapped(timestamp - (timestamp if base is None else base)), delta, rest)
        if len(record) > len(target) - position:
            record_bytes = len(_framed(0, 0, rest))
            break
        target[position : position + len(record)] = record
        base, latest = timestamp if base is None else base, max(latest, timestamp)
        position, delta, pick = position + len(record), delta + 1, pick + 1
        values_bytes += value_size + 1
    return Encoded(pick, BatchCursor(None, position, delta, base, latest, values_bytes), record_bytes)


def _framed(timestamp_delta: int, offset_delta: int, rest: bytes) -> bytes:
    body = b"\0" + varint.encode_long(timestamp_delta) + varint.encode(offset_delta) + rest
    return varint.encode(len(body)) + body


def _fields(columns: RecordColumns, row: int, count: int) -> tuple[bytes, int]:
    """Return what stands behind the deltas of a record, and the size of its value."""
    key = None if columns.keys is None else _value(columns.keys, row, count)
    value = None if columns.values is None else _value(columns.values, row, count)
    parts, headers = [_sized(key), _sized(value)], columns.headers
    first, end = (0, 0) if headers is None else (headers.ends[row], headers.ends[row + 1])
    if not 0 <= first <= end:
        raise ValueError("headers outside of their column")
    parts.append(varint.encode(end - first))
    for number in range(first, end):
        assert headers is not None
        total = headers.ends[count]
        name = _value(headers.names, number, total)
        if name is None:
            raise ValueError("a header without a name")
        parts += [_sized(name), _sized(_value(headers.values, number, total))]
    return b"".join(parts), len(value or b"")


def _value(column: Column, row: int, count: int) -> bytes | None:
    if not 0 <= row < count or len(column.ends) <= count:
        raise ValueError("a row outside of its column")
    if column.validity is not None and not column.validity[row >> 3] >> (row & 7) & 1:
        return None
    start, end = column.ends[row], column.ends[row + 1]
    if not 0 <= start <= end <= len(column.data):
        raise ValueError("a value outside of its column")
    return bytes(column.data[start:end])


def _sized(data: bytes | None) -> bytes:
    return varint.encode(-1) if data is None else varint.encode(len(data)) + data
