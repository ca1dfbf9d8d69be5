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
    except ModuleNotFoundError:  # a module that is there but does not load is an error to be seen
        from offsetfs.storage.verify.valid_batches_pure import valid_until

__all__ = ["split_valid", "valid_until"]


def split_valid(rows: Rows, inflated_bytes_max: int) -> Iterator[tuple[Rows, bool]]:
    """Yield all batches in order: quiet ones that follow each other together, any other alone; and which it is."""
    block, start = rows.block
    first = 0
    while first < len(rows):
        behind = valid_until(block, start, rows.numbers, first, inflated_bytes_max)
        is_quiet = behind > first
        yield rows.part(first, max(behind, first + 1)), is_quiet
        first = max(behind, first + 1)
