"""Batches of which a verification has nothing to say: the compiled `_quiet`, or its plain twin `quiet_pure`.

Both do the same to every input; the docstring is in `quiet_pure`. OFFSETFS_PURE=1 in the environment asks for the twin.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from offsetfs.storage.records.row_walk import Rows

if TYPE_CHECKING or os.environ.get("OFFSETFS_PURE") == "1":
    from offsetfs.storage.verify.quiet_pure import quiet_until
else:
    try:
        from offsetfs.storage.verify._quiet import quiet_until
    except ModuleNotFoundError:  # a module that is there but does not load is an error to be seen
        from offsetfs.storage.verify.quiet_pure import quiet_until

__all__ = ["parted", "quiet_until"]


def parted(rows: Rows, inflated_bytes_max: int) -> Iterator[tuple[Rows, bool]]:
    """Yield all batches in order: quiet ones that follow each other together, any other alone; and which it is."""
    block, start = rows.block
    first = 0
    while first < len(rows):
        behind = quiet_until(block, start, rows.numbers, first, inflated_bytes_max)
        is_quiet = behind > first
        yield rows.part(first, max(behind, first + 1)), is_quiet
        first = max(behind, first + 1)
