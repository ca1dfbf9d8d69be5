"""The records of a v2 batch in plain Python: the specification of `native/codec.pyx`; tests compare both.

    length          varint     bytes that follow
    attributes      1 byte     unused
    timestamp delta varlong    from the batch's base timestamp
    offset delta    varint     from the batch's base offset
    key size        varint     negative: null         then the key
    value size      varint     negative: null         then the value
    header count    varint     0 or more              then for each header
        name size   varint     0 or more              then the name, UTF-8
        value size  varint     negative: null         then the value

A payload is the decompressed records section of a batch: `count` such records and not a byte more. Whatever else
arrives raises `MalformedBatch`, in bounded time and memory; nothing is allocated because a length field says so. As in
Kafka a batch that counts no records is not looked into, and whether offset deltas rise is checked by `survey` only.
Follows Kafka's DefaultRecord and DefaultRecordBatch.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.records.format import varint
from offsetfs.storage.records.format.record import Headers
from offsetfs.storage.records.format.record_row import (
    HEADERS_COUNT,
    HEADERS_POSITION,
    KEY_POSITION,
    KEY_SIZE,
    OFFSET_DELTA,
    TIMESTAMP_DELTA,
    VALUE_POSITION,
    VALUE_SIZE,
)
from offsetfs.storage.units import I32_MAX, I64_MAX, NO_TIMESTAMP, wrapped

RECORD_SIZE_MIN = 7
"""Seven fields of at least one byte each: no payload holds more records than a seventh of its bytes."""


Buffer = bytes | bytearray | memoryview
Row = tuple[int, int, int, int, int, int, int, int]
EncodableRecord = tuple[Buffer | None, Buffer | None, Sequence[tuple[str, Buffer | None]], int]
DecodedRecord = tuple[int, int, bytes | None, bytes | None, Headers]


# --- writing -------------------------------------------------------------------------------------------------------


def split(
    source: Buffer,
    start: int,
    end: int,
    target: bytearray | memoryview,
    position: int,
    offset_delta: int,
    timestamp_delta: int,
) -> tuple[int, int, int]:
    """Write each whole line of `source[start:end]` as a record into `target` from `position`.

    A line ends at a newline, which is dropped; a carriage return before it stays. The record has no key and no
    headers. Stops when no newline is left, the next record does not fit, or the offset delta would pass 2^31 - 1.
    Returns where the three go on: start, position, offset delta.
    """
    if not 0 <= start <= end <= len(source) or not 0 <= position <= len(target):
        raise ValueError("split outside of its buffers")
    if offset_delta < 0:
        raise ValueError("a negative offset delta")
    first, lines = start, bytes(memoryview(source)[start:end])
    while offset_delta <= I32_MAX:
        newline = lines.find(b"\n", start - first)
        if newline < 0:
            break
        value = lines[start - first : newline]
        record = _framed(_body(None, value, (), timestamp_delta, offset_delta))
        if len(record) > len(target) - position:
            break
        target[position : position + len(record)] = record
        position += len(record)
        start = first + newline + 1
        offset_delta += 1
    return start, position, offset_delta


def encode(records: Sequence[EncodableRecord], base_timestamp: int, offset_delta: int) -> bytes:
    """Return the records as a payload, their offset deltas counting up from `offset_delta`.

    A record is (key, value, headers, timestamp). `ValueError` for a timestamp below -1, a delta that does not fit
    its field, or a record above 2 GiB.
    """
    encoded = bytearray()
    for key, value, headers, timestamp in records:
        if timestamp < -1:
            raise ValueError(f"a timestamp of {timestamp}")
        if not 0 <= offset_delta <= I32_MAX:
            raise ValueError(f"an offset delta of {offset_delta}")
        encoded += _framed(_body(key, value, headers, timestamp - base_timestamp, offset_delta))
        offset_delta += 1
    return bytes(encoded)


def _framed(body: bytes) -> bytes:
    return varint.encode(len(body)) + body


def _body(
    key: Buffer | None,
    value: Buffer | None,
    headers: Sequence[tuple[str, Buffer | None]],
    timestamp_delta: int,
    offset_delta: int,
) -> bytes:
    parts = [b"\0", varint.encode_long(timestamp_delta), varint.encode(offset_delta), _sized(key), _sized(value)]
    parts.append(varint.encode(len(headers)))
    for name, header_value in headers:
        parts.append(_sized(name.encode("utf-8", "surrogateescape")))
        parts.append(_sized(header_value))
    return b"".join(parts)


def _sized(data: Buffer | None) -> bytes:
    if data is None:
        return varint.encode(-1)
    plain = bytes(data)
    return varint.encode(len(plain)) + plain


# --- reading -------------------------------------------------------------------------------------------------------


def scan(payload: Buffer, count: int) -> array[int]:
    """Return the row (`record_row`) of each record, after checking every byte of the structure."""
    rows = array("q")
    for row in _rows(_bytes_of(payload), count):
        rows.extend(row)
    return rows


def survey(payload: Buffer, count: int, base_timestamp: int) -> tuple[int, int, int]:
    """Return (earliest timestamp, latest timestamp, records without a key), after checking every byte of the structure.

    For batches of clients: `MalformedBatch` also where an offset delta is not the number of its record. Records without
    a timestamp (-1) do not count for the earliest, which is `I64_MAX` if none has one; the latest is at least -1, as
    in Kafka's LogValidator. Sums wrap as a Java long does.
    """
    earliest, latest, keyless = I64_MAX, int(NO_TIMESTAMP), 0
    for number, row in enumerate(_rows(_bytes_of(payload), count)):
        if row[OFFSET_DELTA] != number:
            raise MalformedBatch(f"record {number} has an offset delta of {row[OFFSET_DELTA]}")
        timestamp = wrapped(base_timestamp + row[TIMESTAMP_DELTA])
        if timestamp != NO_TIMESTAMP:
            earliest, latest = min(earliest, timestamp), max(latest, timestamp)
        keyless += row[KEY_SIZE] < 0
    return earliest, latest, keyless


def find(payload: Buffer, count: int, offset_delta: int) -> Row | None:
    """Return the row of the first record with this offset delta, or None.

    Records before it are only stepped over and nothing behind it is looked at, so damage there goes unnoticed.
    """
    data = _bytes_of(payload)
    _check_count(data, count)
    position = 0
    for _ in range(count):
        end, delta = _peek(data, position)
        if delta == offset_delta:
            return _row(data, position)[0]
        position = end
    _check_exhausted(data, position, count)
    return None


def decode(payload: Buffer, count: int) -> list[DecodedRecord]:
    """Return (offset delta, timestamp delta, key, value, headers) for each record."""
    data = _bytes_of(payload)
    return [_decoded(data, row) for row in _rows(data, count)]


def _decoded(data: memoryview, row: Row) -> DecodedRecord:
    return (
        row[OFFSET_DELTA],
        row[TIMESTAMP_DELTA],
        _slice(data, row[KEY_POSITION], row[KEY_SIZE]),
        _slice(data, row[VALUE_POSITION], row[VALUE_SIZE]),
        headers(data, row[HEADERS_POSITION], row[HEADERS_COUNT]),
    )


def join(payload: Buffer, count: int) -> bytearray:
    """Return all values, each followed by a newline; a null value is an empty line."""
    data = _bytes_of(payload)
    lines = bytearray()
    for row in _rows(data, count):
        lines += _slice(data, row[VALUE_POSITION], row[VALUE_SIZE]) or b""
        lines += b"\n"
    return lines


def measure(payload: Buffer, count: int) -> int:
    """Return `len(join(payload, count))` without building it."""
    return sum(max(row[VALUE_SIZE], 0) + 1 for row in _rows(_bytes_of(payload), count))


def headers(payload: Buffer, position: int, count: int) -> Headers:
    """Return the headers that a scanned row names by its last two numbers."""
    read_headers = []
    for _ in range(count):
        name, position = _sized_at(payload, position, len(payload))
        value, position = _sized_at(payload, position, len(payload))
        read_headers.append(((name or b"").decode("utf-8", "surrogateescape"), value))
    return tuple(read_headers)


def _bytes_of(payload: Buffer) -> memoryview:
    return memoryview(payload).cast("B")


def _rows(data: memoryview, count: int) -> Iterator[Row]:
    _check_count(data, count)
    position = 0
    for _ in range(count):
        row, position = _row(data, position)
        yield row
    _check_exhausted(data, position, count)


def _row(data: memoryview, position: int) -> tuple[Row, int]:
    """Return the row of the record at `position` and the position behind the record."""
    end, position = _frame(data, position)
    timestamp_delta, position = varint.decode_long(data, position, end)
    offset_delta, position = varint.decode(data, position, end)
    key_position, key_size, position = _field(data, position, end)
    value_position, value_size, position = _field(data, position, end)
    header_count, position = varint.decode(data, position, end)
    headers_position = position
    if not 0 <= header_count <= end - position:
        raise MalformedBatch(f"a record of {header_count} headers")
    for _ in range(header_count):
        _, name_size, position = _field(data, position, end)
        if name_size < 0:
            raise MalformedBatch("a header without a name")
        _, _, position = _field(data, position, end)
    if position != end:
        raise MalformedBatch(f"{end - position} bytes left over in a record")
    row = offset_delta, timestamp_delta, key_position, key_size, value_position, value_size
    return (*row, headers_position, header_count), end


def _peek(data: memoryview, position: int) -> tuple[int, int]:
    """Return the position behind the record at `position`, and its offset delta."""
    end, position = _frame(data, position)
    _, position = varint.decode_long(data, position, end)
    return end, varint.decode(data, position, end)[0]


def _frame(data: memoryview, position: int) -> tuple[int, int]:
    """Return the position behind the record at `position`, and that behind its length and attributes."""
    size, position = varint.decode(data, position, len(data))
    if not 1 <= size <= len(data) - position:
        raise MalformedBatch(f"a record of {size} bytes where {len(data) - position} are left")
    return position + size, position + 1


def _field(data: memoryview, position: int, end: int) -> tuple[int, int, int]:
    """Return position and size of the sized field here, and the position behind it. The size of a null is -1."""
    size, position = varint.decode(data, position, end)
    if size > end - position:
        raise MalformedBatch(f"a field of {size} bytes where {end - position} are left")
    return position, max(size, -1), position + max(size, 0)


def _sized_at(payload: Buffer, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = varint.decode(payload, position, end)
    return _slice(payload, position, size), position + max(size, 0)


def _slice(data: Buffer, position: int, size: int) -> bytes | None:
    return None if size < 0 else bytes(data[position : position + size])


def _check_count(data: memoryview, count: int) -> None:
    if count < 0 or count > len(data) // RECORD_SIZE_MIN:
        raise MalformedBatch(f"{count} records in {len(data)} bytes")


def _check_exhausted(data: memoryview, position: int, count: int) -> None:
    if count and position != len(data):
        raise MalformedBatch(f"{len(data) - position} bytes left over behind the last record")
