"""Columns in Arrow's layout that grow value by value, in Python: for the references of the decoders.

`native/decoded_columns.pxd` has the same for the compiled ones. The columns of a decoder are described by an array with
`COLUMN_NUMBERS` numbers for each: its kind, the bytes of a value (`WIDE`), the position of its children in another
array, and their number. A column stands before its children.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import NamedTuple

from offsetfs.storage.records.format.batch_header import Buffer

NOTHING, BITS, WIDE, VARIABLE, STRUCT, ITEMS = range(6)
"""The kinds of columns: of nulls, of booleans, of values of equal size, of bytes, and those that have children."""

COLUMN_NUMBERS = 4

MEMORY_BYTES_MAX = 1 << 30
"""The memory of all columns of a batch; a null of a wide record takes more memory than bytes in a value."""


class DecodingFault(NamedTuple):
    """A value that could not be decoded."""

    row: int
    code: int
    node: int
    """The position of the node in the program at which reading ended."""


@dataclass(frozen=True, slots=True)
class ColumnBuffers:
    """The buffers of one column, as Arrow's columnar format has them; None where the kind of the column has none."""

    count: int
    null_count: int
    validity: Buffer | None
    ends: Buffer | None
    """int32: `count + 1` ends of values or items."""
    data: Buffer | None


class GrowingColumn:
    """One column, while it grows."""

    def __init__(self, kind: int, width: int, children: list[GrowingColumn]) -> None:
        self.kind, self.width, self.children = kind, width, children
        self.count = self.null_count = 0
        self.valid = bytearray()
        self.ends = array("i", [0])
        self.data = bytearray()

    def append(self, item: object) -> None:
        """Append what a node has read; the children have their parts already."""
        if self.kind == BITS:
            _append_bit(self.data, self.count, bool(item))
        elif self.kind == WIDE:
            assert isinstance(item, bytes) and len(item) == self.width
            self.data += item
        elif self.kind == VARIABLE:
            assert isinstance(item, bytes)
            self.data += item
            self.ends.append(len(self.data))
        elif self.kind == ITEMS:
            self.ends.append(self.children[0].count)
        elif self.kind == STRUCT and isinstance(item, int):  # the number of a member
            for number, child in enumerate(self.children):
                if number != item:
                    child.append_null()
        _append_bit(self.valid, self.count, True)
        self.count += 1

    def append_null(self) -> None:
        if self.kind == BITS:
            _append_bit(self.data, self.count, False)
        elif self.kind == WIDE:
            self.data += bytes(self.width)
        elif self.kind in (VARIABLE, ITEMS):
            self.ends.append(self.ends[-1])
        elif self.kind == STRUCT:
            for child in self.children:
                child.append_null()
        _append_bit(self.valid, self.count, False)
        self.count += 1
        self.null_count += 1

    def buffers(self) -> ColumnBuffers:
        has_ends = self.kind in (VARIABLE, ITEMS)
        has_data = self.kind in (BITS, WIDE, VARIABLE)
        has_validity = self.null_count and self.kind != NOTHING
        return ColumnBuffers(
            self.count,
            self.null_count,
            bytes(self.valid) if has_validity else None,
            self.ends.tobytes() if has_ends else None,
            bytes(self.data) if has_data else None,
        )


def _append_bit(bits: bytearray, count: int, bit: bool) -> None:
    if not count % 8:
        bits.append(0)
    bits[-1] |= bit << count % 8


def columns_of(columns: array[int], children: array[int]) -> list[GrowingColumn]:
    """Return empty columns by their description."""
    made: dict[int, GrowingColumn] = {}
    for number in reversed(range(len(columns) // COLUMN_NUMBERS)):
        kind, width, first, count = columns[number * COLUMN_NUMBERS : (number + 1) * COLUMN_NUMBERS]
        made[number] = GrowingColumn(kind, width, [made[child] for child in children[first : first + count]])
    return [made[number] for number in range(len(made))]


def described_columns(columns: array[int], children: array[int]) -> list[array[int]]:
    """Return the numbers of each column; ValueError for a description that refers to what is not there."""
    if columns.typecode != "q" or children.typecode != "q":
        raise ValueError("columns of other than int64 numbers")
    count = len(columns) // COLUMN_NUMBERS
    if not count or len(columns) % COLUMN_NUMBERS:
        raise ValueError("columns that end too early")
    described = [columns[at : at + COLUMN_NUMBERS] for at in range(0, len(columns), COLUMN_NUMBERS)]
    for number, (kind, width, first, size) in enumerate(described):
        check(NOTHING <= kind <= ITEMS and 0 <= width < 1 << 31 and (kind == WIDE or not width))
        check(0 <= first <= first + size <= len(children))
        check(all(number < child < count for child in children[first : first + size]))
        check(1 <= size <= 2 if kind == ITEMS else kind == STRUCT or not size)
    return described


def check(is_right: bool) -> None:
    """Raise ValueError for a program or columns that are wrong."""
    if not is_right:
        raise ValueError("a program that refers to what is not there")
