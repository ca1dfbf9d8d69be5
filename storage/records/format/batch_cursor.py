"""The position in an open batch, as functions that encode records take and return it."""

from __future__ import annotations

from typing import NamedTuple


class BatchCursor(NamedTuple):
    """The place of the next record of a batch; in a result also the sums of the records that the call wrote."""

    target: bytearray | memoryview | None
    """The bytes of the batch; None in a result."""

    position: int
    """The byte of `target` at which the next record begins."""

    offset_delta: int
    """The offset delta of the next record."""

    base_timestamp: int | None
    """None if the batch has no record yet."""

    max_timestamp: int = -1
    values_bytes: int = 0
