"""Fast path of verification: skips batches without findings.

Selects the compiled `_valid_batches`, or its Python reference `valid_batches_pure` if OFFSETFS_PURE=1 is set. Both
return the same results; the docstring is in `valid_batches_pure`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from offsetfs.storage.records.row_walk import Rows

if TYPE_CHECKING or os.environ.get("OFFSETFS_PURE") == "1":
    from offsetfs.storage.verify.valid_batches_pure import valid_until
else:
    try:
        from offsetfs.storage.verify._valid_batches import valid_until
    except ModuleNotFoundError:  # a module that exists but fails to load is an error that must be visible
        from offsetfs.storage.verify.valid_batches_pure import valid_until

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
