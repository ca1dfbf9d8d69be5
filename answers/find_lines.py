"""The forms in which `offsetfs find` prints records: lines of `records.ndjson`, values, or paths of the tree."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from offsetfs.storage import Batch, TopicPartition
from offsetfs.storage.errors import DecompressionLimit
from offsetfs.storage.records import COLUMNS, OFFSET_DELTA, VALUE, joined_json, line_prefix

Lines: TypeAlias = "Callable[[Batch, array[int], array[int]], list[bytes]]"
"""Returns a line for each record of a batch: of the rows of `Batch.rows`, those with these numbers."""

LinesOf: TypeAlias = "Callable[[TopicPartition], Lines]"

_FEW = 4
"""Up to so many records of a batch are written one by one, each after a walk over the batch."""


def record_lines(name: TopicPartition) -> Lines:
    """Return what writes records as in `records.ndjson`."""
    return partial(_records, line_prefix(name.topic, name.partition))


def value_lines(name: TopicPartition) -> Lines:
    """Return what writes values, each with a newline; a null value is an empty line."""
    return _values


def path_lines(name: TopicPartition) -> Lines:
    """Return what writes paths such as `orders-3/42`."""
    return partial(_paths, str(name))


def _records(prefix: bytes, batch: Batch, rows: array[int], numbers: array[int]) -> list[bytes]:
    if len(numbers) > _FEW:
        try:
            lines = bytes(joined_json(batch, prefix)).splitlines(keepends=True)
            return [lines[number] for number in numbers]
        except DecompressionLimit:  # all records at once take more memory than a call may
            pass
    offsets = _offsets(batch, rows, numbers)
    return [bytes(joined_json(batch, prefix, offset_from=offset, offset_to=offset + 1)) for offset in offsets]


def _values(batch: Batch, rows: array[int], numbers: array[int]) -> list[bytes]:
    payload = memoryview(batch.payload())
    lines = []
    for number in numbers:
        position, size = rows[number * COLUMNS + VALUE], rows[number * COLUMNS + VALUE + 1]
        lines.append(bytes(payload[position : position + max(size, 0)]) + b"\n")
    return lines


def _paths(name: str, batch: Batch, rows: array[int], numbers: array[int]) -> list[bytes]:
    return [f"{name}/{offset}\n".encode() for offset in _offsets(batch, rows, numbers)]


def _offsets(batch: Batch, rows: array[int], numbers: array[int]) -> list[int]:
    return [batch.header.base_offset + rows[number * COLUMNS + OFFSET_DELTA] for number in numbers]
