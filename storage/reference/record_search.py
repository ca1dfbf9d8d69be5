"""Rows of records whose fields have some bytes, in plain Python: the specification of `native/record_search.pyx`; tests
compare both.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator

from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.records.format import varint
from offsetfs.storage.records.format.record_row import (
    COLUMNS,
    HEADERS_COUNT,
    HEADERS_POSITION,
    KEY_POSITION,
    KEY_SIZE,
    VALUE_POSITION,
    VALUE_SIZE,
)
from offsetfs.storage.reference.codec import Buffer

IN_KEY, IN_VALUE, IN_HEADERS = 1, 2, 4
"""The fields that are searched; the sum of several means any of them. Of headers, names and values are searched."""


def contains(payload: Buffer, needle: bytes) -> bool:
    """Whether a payload has the bytes anywhere: a cheap rejection before its records are scanned."""
    return needle in bytes(payload)


def rows_with(payload: Buffer, rows: array[int], needle: bytes, fields: int, is_whole: bool) -> array[int]:
    """Return the numbers of the scanned rows that have the bytes in one of the fields, ascending.

    `is_whole`: a field, or the name or value of a header, is equal to the bytes; otherwise it contains them. A null
    has nothing. `ValueError` for rows of another payload; headers behind one that matches are not looked at.
    """
    data = bytes(payload)

    def has(field: bytes | None) -> bool:
        return field is not None and (field == needle if is_whole else needle in field)

    def matches(row: array[int]) -> bool:
        key = _field(data, row[KEY_POSITION], row[KEY_SIZE])
        value = _field(data, row[VALUE_POSITION], row[VALUE_SIZE])
        if (fields & IN_KEY and has(key)) or (fields & IN_VALUE and has(value)):
            return True
        return bool(fields & IN_HEADERS) and any(has(name) or has(text) for name, text in _headers(data, row))

    return _numbers(rows, matches)


def rows_with_header(payload: Buffer, rows: array[int], name: bytes, value: bytes | None) -> array[int]:
    """Return the numbers of the scanned rows that have a header of this name, and with `value` also of this value.

    Raises as `rows_with`.
    """
    data = bytes(payload)

    def matches(row: array[int]) -> bool:
        return any(found == name and (value is None or text == value) for found, text in _headers(data, row))

    return _numbers(rows, matches)


def _numbers(rows: array[int], matches: Callable[[array[int]], bool]) -> array[int]:
    count = len(rows) // COLUMNS
    return array("q", (row for row in range(count) if matches(rows[row * COLUMNS : (row + 1) * COLUMNS])))


def _field(data: bytes, position: int, size: int) -> bytes | None:
    if size < 0:
        return None
    if not 0 <= position <= len(data) - size:
        raise ValueError("a field outside of its payload")
    return data[position : position + size]


def _headers(data: bytes, row: array[int]) -> Iterator[tuple[bytes | None, bytes | None]]:
    position, count = row[HEADERS_POSITION], row[HEADERS_COUNT]
    if count and not (0 <= position < len(data) and 0 <= count <= len(data) - position):
        raise ValueError("headers outside of their payload")
    for _ in range(count):
        pair: list[bytes | None] = []
        for _ in range(2):
            try:
                size, position = varint.decode(data, position, len(data))
            except MalformedBatch:
                raise ValueError("headers outside of their payload") from None
            pair.append(_field(data, position, size))
            position += max(size, 0)
        yield pair[0], pair[1]
