"""Rows counted by patterns, compiled and in Python: the same answers to everything, and nothing read out of bounds."""

from __future__ import annotations

from array import array
from types import ModuleType

import pytest

from offsetfs.storage.native import field_patterns as native_field_patterns
from offsetfs.storage.records.columns.columns import KEY, VALUE
from offsetfs.storage.records.columns.field_patterns import BEYOND, NULL, OTHER, FieldPattern
from offsetfs.storage.records.format import codec
from offsetfs.storage.reference import field_patterns as reference_field_patterns

pytestmark = pytest.mark.unit

IMPLEMENTATIONS = (native_field_patterns, reference_field_patterns)

PATTERNS = [
    FieldPattern(b"guid", b"\1", 3, 3),
    FieldPattern(b"id", b"", 1, 8),
    FieldPattern(None, b"\0\0", 4, 4),
    FieldPattern(None, b"\0", 2, 2),
]


@pytest.mark.parametrize("module", IMPLEMENTATIONS)
def test_rows_are_counted_by_the_bytes_that_match_a_pattern(module: ModuleType) -> None:
    guid, other = ("guid", b"\1ab-rest"), ("id", b"7")
    records: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]] = [
        (None, b"\0\0\0\5first", [], 0),
        (None, b"\0\0\0\5second", [], 0),
        (b"", None, [], 0),
        (b"\0\1", b"\0\0\0", [], 0),
        (None, b"text", [], 0),
        (None, b"\0\0\0\5", [other, guid], 0),
        (None, None, [guid, ("guid", b"\1cd"), ("guid", b"\2xx"), ("guid", b"\1"), ("guid", None), other], 0),
        (None, b"\0\0\0\5", [("other", b"\1ab")], 0),
    ]
    payload = codec.encode(records, 0, 0)
    rows = codec.scan(payload, len(records))
    assert module.count_patterns(payload, rows, VALUE, PATTERNS, 9) == [
        (2, b"\0\0\0\5", 3, 0),
        (NULL, b"", 1, 2),
        (3, b"\0\0", 1, 3),
        (OTHER, b"", 1, 4),
        (0, b"\1ab", 1, 5),
        (0, b"\1cd", 1, 6),
    ]
    fields = [each for each in PATTERNS if each.header is None]
    assert [each.rows for each in module.count_patterns(payload, rows, KEY, fields, 9)] == [6, 1, 1]
    assert module.count_patterns(payload, rows[:0], VALUE, PATTERNS, 9) == []


@pytest.mark.parametrize("module", IMPLEMENTATIONS)
def test_matches_beyond_the_limit_are_counted_together(module: ModuleType) -> None:
    records: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]]
    records = [(None, b"\0%c" % (number % 100), [], 0) for number in range(1000)]
    payload = codec.encode(records, 0, 0)
    rows = codec.scan(payload, len(records))
    for limit in (0, 1, 40, 100):
        found = module.count_patterns(payload, rows, VALUE, PATTERNS[3:], limit)
        assert [each for each in found if each.pattern != BEYOND] == [
            (0, b"\0%c" % number, 10, number) for number in range(limit)
        ]
        assert [each[2:] for each in found if each.pattern == BEYOND] == [(1000 - 10 * limit, limit)] * (limit < 100)


ROW = [0, 0, 0, 2, 2, 2, 4, 1]

WRONG_ROWS = {
    "a field beyond the payload": (KEY, 0, 9),
    "a field that begins before it": (KEY, -1, 2),
    "a size that wraps": (KEY, 1, 2**63 - 1),
    "headers beyond the payload": (6, 50, 1),
    "more headers than bytes": (6, 4, 2**40),
    "headers that begin before it": (6, -3, 1),
}


@pytest.mark.parametrize("module", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", WRONG_ROWS)
def test_rows_of_another_payload_are_not_counted(module: ModuleType, name: str) -> None:
    place, position, size = WRONG_ROWS[name]
    row = list(ROW)
    row[place : place + 2] = position, size
    with pytest.raises(ValueError):
        module.count_patterns(b"kkvv\2h\2x", array("q", row), KEY, PATTERNS, 9)
