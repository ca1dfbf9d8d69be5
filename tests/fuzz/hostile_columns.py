"""Columns with any numbers and buffers as lines of JSON: the compiled writer does what its reference does."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from offsetfs.storage.errors import DecompressionLimit
from offsetfs.storage.native import column_json as native
from offsetfs.storage.reference import column_json as reference
from offsetfs.storage.reference.column_json import KINDS, SECOND_UNITS, JsonColumn

_HEAD = 9
_LINES_BYTES_MAX = 1 << 16


def lines(data: bytes) -> None:
    """Write the columns that the bytes describe: how many, a head for each, and buffers behind all heads."""
    if not data:
        return
    count = data[0] % 6 + 1
    heads, rest = data[1 : 1 + count * _HEAD], data[1 + count * _HEAD :]
    if len(heads) < count * _HEAD:
        return
    columns = [_column(number, heads[number * _HEAD : (number + 1) * _HEAD], rest) for number in range(count)]
    assert _outcome(native, columns) == _outcome(reference, columns)


def _column(number: int, head: bytes, rest: bytes) -> JsonColumn:
    kind, count, start, flags, param, first, size, second, third = head
    return JsonColumn(
        kind % (KINDS + 1),
        count % 9,
        name=b'"n',
        is_omitted=bool(flags & 1),
        param=SECOND_UNITS[param % 4] if flags & 2 else param,
        children=tuple(number + 1 + each for each in range(flags >> 6)),
        validity=rest[third : third + 2] if flags & 4 else None,
        ends=rest[first : first + size] if flags & 8 else None,
        data=rest[second:] if flags & 16 else None,
        start=start % 3,
    )


def _outcome(module: ModuleType, columns: list[JsonColumn]) -> object:
    try:
        return module.lines(columns, _LINES_BYTES_MAX)
    except (ValueError, DecompressionLimit) as error:
        return type(error)


def seeds(name: str) -> Iterator[bytes]:
    """Yield columns that can be written."""
    numbers, ends = bytes(range(64)), b"\0\0\0\0\1\0\0\0\3\0\0\0\3\0\0\0"
    for kind in range(KINDS):
        children = (kind >= reference.STRUCT) + (kind == reference.MAP)
        head = bytes([kind, 2, 0, 0b11110 | children << 6, 1, 0, 16, 16, 0])
        leaf = bytes([reference.TEXT, 3, 0, 0b11000, 0, 0, 16, 20, 0])
        yield bytes([children]) + head + leaf * children + ends + numbers
