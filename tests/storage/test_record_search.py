"""Rows of records with some bytes in a field, compiled and in Python: the same answers, nothing read out of bounds."""

from __future__ import annotations

import random
from array import array
from types import ModuleType

import pytest

from offsetfs.storage.native import record_search as native_record_search
from offsetfs.storage.records.columns.record_search import IN_HEADERS, IN_KEY, IN_VALUE
from offsetfs.storage.records.format import codec
from offsetfs.storage.reference import record_search as reference_record_search

pytestmark = pytest.mark.unit

IMPLEMENTATIONS = (native_record_search, reference_record_search)
RECORDS: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]] = [
    (b"key", b"a value", [], 0),
    (b"a key", None, [("trace", b"key")], 0),
    (None, b"", [("key", None), ("trace", b"")], 0),
    (b"", b"key", [("trace", b"value"), ("trace", b"key")], 0),
    (None, None, [], 0),
]
PAYLOAD = codec.encode(RECORDS, 0, 0)
ROWS = codec.scan(PAYLOAD, len(RECORDS))


@pytest.mark.parametrize("module", IMPLEMENTATIONS)
def test_rows_have_the_bytes_in_one_of_the_fields(module: ModuleType) -> None:
    def found(needle: bytes, fields: int, is_whole: bool = False) -> list[int]:
        return module.rows_with(PAYLOAD, ROWS, needle, fields, is_whole).tolist()  # type: ignore[no-any-return]

    assert found(b"key", IN_KEY) == [0, 1]
    assert found(b"key", IN_KEY, True) == [0]
    assert found(b"key", IN_VALUE) == [3]
    assert found(b"key", IN_HEADERS) == [1, 2, 3]
    assert found(b"key", IN_KEY | IN_VALUE | IN_HEADERS) == [0, 1, 2, 3]
    assert found(b"key", 0) == []
    assert found(b"", IN_VALUE) == [0, 2, 3]  # a null has nothing
    assert found(b"", IN_VALUE, True) == [2]
    assert found(b"", IN_KEY, True) == [3]
    assert found(b"", IN_HEADERS) == [1, 2, 3]
    assert found(b"longer than a field is", 7) == []


@pytest.mark.parametrize("module", IMPLEMENTATIONS)
def test_rows_have_a_header_of_a_name_and_a_value(module: ModuleType) -> None:
    def found(name: bytes, value: bytes | None = None) -> list[int]:
        return module.rows_with_header(PAYLOAD, ROWS, name, value).tolist()  # type: ignore[no-any-return]

    assert found(b"trace") == [1, 2, 3]
    assert found(b"trace", b"key") == [1, 3]
    assert found(b"trace", b"") == [2]
    assert found(b"key", b"") == []  # a null is not empty
    assert found(b"key") == [2]
    assert found(b"trac") == found(b"") == []


@pytest.mark.parametrize("module", IMPLEMENTATIONS)
def test_a_payload_contains_bytes(module: ModuleType) -> None:
    for payload in (b"", b"abc", bytearray(b"abc"), memoryview(b"xabcx")[1:4]):
        assert module.contains(payload, b"")
        assert module.contains(payload, b"bc") == (len(payload) == 3)
        assert not module.contains(payload, b"abcd")


def test_a_large_payload_contains_bytes_wherever_they_are() -> None:
    """Places at the ends, at the edges of a step, and where most places look like the needle."""
    contains = native_record_search.contains
    chance = random.Random(7)
    for size in (4096, 5000, 70_003):
        text = bytes(chance.choices(b"abcdefgh ", k=size))
        for needle in (b"X", b"aX", b"Xa", b"abcXdefg", b"aaaaaaaaX", b"X" * 40, bytes(range(65, 91)) * 12):
            assert not contains(text, needle)
            for place in (0, 1, 31, 32, 63, 64, 2000, size // 64 * 64 - 1, size - len(needle) - 1, size - len(needle)):
                payload = text[:place] + needle + text[place + len(needle) :]
                assert contains(payload, needle), (size, needle, place)
                assert not contains(payload[: place + len(needle) - 1], needle), (size, needle, place)
    for _ in range(300):  # nearly every place looks like the needle
        payload = bytes(chance.choices(b"ab", (50, 1), k=5000 + chance.randrange(100)))
        needle = bytes(chance.choices(b"ab", (9, 1), k=chance.randrange(1, 90)))
        assert contains(payload, needle) == (needle in payload), needle


ROW = [0, 0, 0, 2, 2, 2, 4, 1]
WRONG_ROWS = {
    "a key beyond the payload": (2, 0, 9),
    "a value that begins before it": (4, -1, 2),
    "a size that wraps": (2, 1, 2**63 - 1),
    "headers beyond the payload": (6, 50, 1),
    "more headers than bytes": (6, 4, 2**40),
    "headers that begin before it": (6, -3, 1),
}


@pytest.mark.parametrize("module", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", WRONG_ROWS)
def test_rows_of_another_payload_are_refused(module: ModuleType, name: str) -> None:
    place, position, size = WRONG_ROWS[name]
    row = list(ROW)
    row[place : place + 2] = position, size
    with pytest.raises(ValueError):
        module.rows_with(b"kkvv\2h\2x", array("q", row), b"zz", IN_KEY | IN_VALUE | IN_HEADERS, False)
    if place == 6:
        with pytest.raises(ValueError):
            module.rows_with_header(b"kkvv\2h\2x", array("q", row), b"zz", None)
