"""Formats the record lines of a dump, in Python: the reference that tests compare `native/dump.pyx` with.

    | offset: 7 CreateTime: 1700000000000 keySize: 2 valueSize: 5 sequence: 3 headerKeys: [a,b] key: k1 payload: hello

A null key or value prints nothing and has the size -1. Text is decoded as in Java (`java_text`). Whole lines are
written to a buffer of the caller, as many as fit. Follows the record part of Kafka's DumpLogSegments.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass

from offsetfs.kafka.protocol.java_text import decoded, printed
from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.records.format import varint
from offsetfs.storage.records.format.record_row import (
    COLUMNS,
    HEADERS_COUNT,
    HEADERS_POSITION,
    KEY_POSITION,
    KEY_SIZE,
    OFFSET_DELTA,
    TIMESTAMP_DELTA,
    VALUE_POSITION,
    VALUE_SIZE,
)
from offsetfs.storage.units import I32_MAX, I32_MIN, I64_MAX, I64_MIN, wrapped

LINE_SIZE_MAX = 256
"""The maximum size of a line without keys, values and header names: eight numbers and the words between them."""

REPLACEMENT_SIZE = 3
"""The bytes that replace one byte of invalid UTF-8."""

NO_OFFSET = -1

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class LineStyle:
    """The common properties of the record lines of one batch, and the offsets `[offset_min, offset_end)` to print.

    `timestamp_label` is b"CreateTime" or b"LogAppendTime"; with `append_time` that is every record's timestamp.
    `metadata` selects everything from the offset to the header names, `data` key and value.
    """

    base_offset: int
    base_timestamp: int
    append_time: int | None
    timestamp_label: bytes
    base_sequence: int
    metadata: bool
    data: bool
    offset_min: int = I64_MIN
    offset_end: int = I64_MAX


def format_records(
    payload: Buffer, rows: array[int], first: int, style: LineStyle, target: bytearray, used: int
) -> tuple[int, int]:
    """Write the lines of the records from row `first` on to `target` from `used`; return where both continue.

    `rows` are the result of `codec.scan` for `payload`. Stops after the last row, or at the first record whose line may
    not fit: `LINE_SIZE_MAX`, and three bytes for each byte of key, value and header names. `ValueError` for rows of
    another payload.
    """
    count = len(rows) // COLUMNS
    if not 0 <= first <= count or not 0 <= used <= len(target):
        raise ValueError("lines outside of their buffers")
    for number in range(first, count):
        row = rows[number * COLUMNS : (number + 1) * COLUMNS]
        _check_inside(row, len(payload))
        offset = wrapped(style.base_offset + row[OFFSET_DELTA])
        if not style.offset_min <= offset < style.offset_end:
            continue
        names = list(header_names(payload, row[HEADERS_POSITION], row[HEADERS_COUNT]))
        if _size_max(row, names) > len(target) - used:
            return number, used
        line = _line(payload, row, offset, names, style)
        target[used : used + len(line)] = line
        used += len(line)
    return count, used


def follow(rows: array[int], base_offset: int, last_offset: int, gaps: array[int]) -> int:
    """Append a pair to `gaps` for each offset that is not the previous one plus 1; return the last offset.

    `last_offset` is that of the previous record, `NO_OFFSET` if there was none.
    """
    for delta in rows[OFFSET_DELTA::COLUMNS]:
        offset = wrapped(base_offset + delta)
        if last_offset != NO_OFFSET and offset != wrapped(last_offset + 1):  # as a Java long is counted on
            gaps.extend((last_offset, offset))
        last_offset = offset
    return last_offset


def header_names(payload: Buffer, position: int, count: int) -> Iterator[Buffer]:
    """Yield the names of the `count` headers at `position`; `MalformedBatch` for malformed headers."""
    for _ in range(count):
        size, position = _size_at(payload, position)
        yield payload[position : position + size]
        value_size, position = _size_at(payload, position + size)
        position += value_size


def sequence_of(base_sequence: int, offset_delta: int) -> int:
    """Return the sequence of a record, -1 if the batch has none."""
    return -1 if base_sequence < 0 else incremented(base_sequence, offset_delta)


def incremented(sequence: int, increment: int) -> int:
    """Return the sequence `increment` after `sequence`: 0 follows 2³¹−1, with the overflow of a Java int."""
    if sequence > wrapped(I32_MAX - increment, I32_MIN):
        return wrapped(increment - (I32_MAX - sequence) - 1, I32_MIN)
    return wrapped(sequence + increment, I32_MIN)


def _check_inside(row: array[int], size: int) -> None:
    for position, length in (
        (row[KEY_POSITION], row[KEY_SIZE]),
        (row[VALUE_POSITION], row[VALUE_SIZE]),
        (row[HEADERS_POSITION], 0),
    ):
        if not 0 <= position <= size or length > size - position:
            raise ValueError("rows of another payload")


def _size_at(payload: Buffer, position: int) -> tuple[int, int]:
    size, position = varint.decode(payload, position, len(payload))
    if size > len(payload) - position:
        raise MalformedBatch("a header longer than what is left")
    return max(size, 0), position


def _size_max(row: array[int], names: list[Buffer]) -> int:
    text = max(row[KEY_SIZE], 0) + max(row[VALUE_SIZE], 0) + sum(len(name) for name in names)
    return LINE_SIZE_MAX + REPLACEMENT_SIZE * text + len(names)


def _line(payload: Buffer, row: array[int], offset: int, names: list[Buffer], style: LineStyle) -> bytes:
    parts = [_metadata(row, offset, names, style)] if style.metadata else []
    prefix = b" " if style.metadata else b"| "
    if style.data and row[KEY_SIZE] >= 0:
        parts += [prefix, b"key: ", printed(payload[row[KEY_POSITION] : row[KEY_POSITION] + row[KEY_SIZE]])]
    if style.data and row[VALUE_SIZE] >= 0:
        parts += [b" payload: ", printed(payload[row[VALUE_POSITION] : row[VALUE_POSITION] + row[VALUE_SIZE]])]
    return b"".join([*parts, b"\n"])


def _metadata(row: array[int], offset: int, names: list[Buffer], style: LineStyle) -> bytes:
    timestamp = style.append_time
    if timestamp is None:
        timestamp = wrapped(style.base_timestamp + row[TIMESTAMP_DELTA])
    label = style.timestamp_label.decode()
    keys = ",".join(decoded(name) for name in names)
    return (
        f"| offset: {offset} {label}: {timestamp} keySize: {row[KEY_SIZE]} valueSize: {row[VALUE_SIZE]}"
        f" sequence: {sequence_of(style.base_sequence, row[OFFSET_DELTA])} headerKeys: [{keys}]"
    ).encode()
