"""Conditions of `offsetfs find` on the bytes of records, asked of a whole batch at a time.

Each condition rejects most batches by one look at their inflated bytes; only where that finds something are the records
scanned and their fields compared. The native search releases the lock of the interpreter. `find_patterns` has the
condition of a regular expression.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from offsetfs.storage import Batch
from offsetfs.storage.records import (
    COLUMNS,
    IN_HEADERS,
    IN_KEY,
    IN_VALUE,
    MAGIC,
    contains,
    rows_with,
    rows_with_header,
)

Buffer: TypeAlias = bytes | bytearray | memoryview

FIELDS = {"key": IN_KEY, "value": IN_VALUE, "headers": IN_HEADERS, "any": IN_KEY | IN_VALUE | IN_HEADERS}
"""Where a text or a pattern is looked for, by the words of `--in`."""


class Condition(Protocol):
    """What a record must have. Any thread."""

    def may_be_in(self, data: Buffer, magic: int) -> bool:
        """Whether records in these bytes, of whole batches of one format, can match: False is certain."""

    def rows(self, batch: Batch, rows: array[int]) -> array[int]:
        """Return the numbers of the rows of `Batch.rows` that match, ascending."""


@dataclass(frozen=True, slots=True)
class HasKey:
    """The key is equal to some bytes."""

    key: bytes

    def may_be_in(self, data: Buffer, magic: int) -> bool:
        # In a record of v2 the size of the key stands before it: with it, few other bytes are like the key.
        return contains(data, _varint(len(self.key)) + self.key if magic == MAGIC else self.key)

    def rows(self, batch: Batch, rows: array[int]) -> array[int]:
        return rows_with(batch.payload(), rows, self.key, IN_KEY, True)


@dataclass(frozen=True, slots=True)
class HasText:
    """One of the fields contains some bytes."""

    text: bytes
    fields: int

    def may_be_in(self, data: Buffer, magic: int) -> bool:
        return contains(data, self.text)

    def rows(self, batch: Batch, rows: array[int]) -> array[int]:
        return rows_with(batch.payload(), rows, self.text, self.fields, False)


@dataclass(frozen=True, slots=True)
class HasHeader:
    """There is a header of this name, and with `value` of this value."""

    name: bytes
    value: bytes | None

    def may_be_in(self, data: Buffer, magic: int) -> bool:
        return contains(data, self.name) and (self.value is None or contains(data, self.value))

    def rows(self, batch: Batch, rows: array[int]) -> array[int]:
        return rows_with_header(batch.payload(), rows, self.name, self.value)


def may_be_in(data: Buffer, conditions: Sequence[Condition], magic: int = MAGIC) -> bool:
    """Whether a record in these bytes, of whole batches of one format, can meet all conditions."""
    return all(condition.may_be_in(data, magic) for condition in conditions)


def matching_rows(batch: Batch, conditions: Sequence[Condition]) -> tuple[array[int], array[int]]:
    """Return the rows of a batch, and the numbers of those that meet all conditions; nothing twice if none can.

    Raises what `Batch.rows` raises.
    """
    nothing = array("q")
    if not may_be_in(batch.payload(), conditions, batch.header.magic):
        return nothing, nothing
    rows = batch.rows()
    found = None
    for condition in conditions:
        matching = condition.rows(batch, rows)
        found = matching if found is None else array("q", sorted({*found} & {*matching}))
        if not found:
            return nothing, nothing
    return rows, array("q", range(len(rows) // COLUMNS)) if found is None else found


def _varint(number: int) -> bytes:
    rest, made = number << 1, bytearray()
    while rest > 0x7F:
        made.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*made, rest))
