"""Fast path of verification: skips batches without findings, compiled or in Python.

`offsetfs.storage.reference.valid_batches` has the docstring of `valid_until`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from offsetfs.storage.native import select
from offsetfs.storage.records.columns.row_walk import Rows

if TYPE_CHECKING:
    from offsetfs.storage.reference import valid_batches as _valid_batches
else:
    _valid_batches = select("valid_batches")

valid_until = _valid_batches.valid_until

__all__ = ["split_valid", "valid_until"]


def split_valid(rows: Rows, inflated_bytes_max: int) -> Iterator[tuple[Rows, bool]]:
    """Yield all batches in order: consecutive valid ones together, each other batch alone, with a flag for valid."""
    block, start = rows.block
    first = 0
    while first < len(rows):
        behind = valid_until(block, start, rows.numbers, first, inflated_bytes_max)
        is_valid = behind > first
        yield rows.part(first, max(behind, first + 1)), is_valid
        first = max(behind, first + 1)
