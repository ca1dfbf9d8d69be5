"""Rows counted by the first bytes of a header or field, in plain Python: the specification of
`native/field_patterns.pyx`; tests compare both.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from offsetfs.storage.records.format.record_row import COLUMNS
from offsetfs.storage.reference.codec import Buffer
from offsetfs.storage.reference.columns import Column, HeaderColumns, gather_headers


class FieldPattern(NamedTuple):
    """How the values of a header, or the fields themselves, begin.

    A value matches if it has `least` bytes and begins with `prefix`; its first `most` bytes are counted.
    """

    header: bytes | None
    """The name of the header; None: the field itself."""
    prefix: bytes
    least: int
    most: int


NULL, OTHER, BEYOND = -1, -2, -3
"""In place of a pattern: null fields, fields without a match, and matches beyond `different_max`."""


class PatternCount(NamedTuple):
    """Rows with the same bytes for one pattern, and the number of these rows."""

    pattern: int
    """The number of the pattern, or `NULL`, `OTHER` or `BEYOND`."""
    data: bytes
    rows: int
    first: int
    """The number of the first of these rows."""


def count_patterns(
    payload: Buffer, rows: array[int], column: int, patterns: Sequence[FieldPattern], different_max: int
) -> list[PatternCount]:
    """Count the scanned rows by the bytes that match a pattern, in the order of their first rows.

    A header that matches goes before the field. Of several headers, that of the first pattern counts, and the last one
    with its name, which is the one that Kafka's `lastHeader` returns. Raises as `gather_headers`.
    """
    view = memoryview(payload).cast("B")
    found: dict[tuple[int, bytes], list[int]] = {}
    different = 0
    headers = gather_headers(payload, rows) if any(pattern.header is not None for pattern in patterns) else None
    pairs = zip(rows[column::COLUMNS], rows[column + 1 :: COLUMNS], strict=True)
    for row, (position, size) in enumerate(pairs):
        if size >= 0 and (position < 0 or position + size > len(view)):
            raise ValueError("a field outside of its payload")
        key = None if headers is None else _matching_header(headers, row, patterns)
        if key is None:
            key = _matching_field(bytes(view[position : position + size]) if size >= 0 else None, patterns)
        if key not in found and key[0] >= 0:
            if different >= different_max:
                key = BEYOND, b""
            else:
                different += 1
        counted = found.setdefault(key, [0, row])
        counted[0] += 1
    return [PatternCount(*key, *counted) for key, counted in found.items()]


def _matching_header(headers: HeaderColumns, row: int, patterns: Sequence[FieldPattern]) -> tuple[int, bytes] | None:
    best = None
    for number in range(headers.ends[row], headers.ends[row + 1]):
        name, value = (_value(column, number) for column in (headers.names, headers.values))
        for index, pattern in enumerate(patterns[: len(patterns) if best is None else best[0] + 1]):
            if pattern.header is not None and pattern.header == name and _is_match(value, pattern):
                best = index, (value or b"")[: pattern.most]
                break
    return best


def _matching_field(value: bytes | None, patterns: Sequence[FieldPattern]) -> tuple[int, bytes]:
    if value is None:
        return NULL, b""
    for index, pattern in enumerate(patterns):
        if pattern.header is None and _is_match(value, pattern):
            return index, value[: pattern.most]
    return OTHER, b""


def _is_match(value: bytes | None, pattern: FieldPattern) -> bool:
    return value is not None and len(value) >= pattern.least and value.startswith(pattern.prefix)


def _value(column: Column, number: int) -> bytes | None:
    if column.validity is not None and not column.validity[number >> 3] >> (number & 7) & 1:
        return None
    return bytes(column.data[column.ends[number] : column.ends[number + 1]])
