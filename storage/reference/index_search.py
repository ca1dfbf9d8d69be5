"""Binary search in the entries of an index file, in Python: the reference of the compiled `native/index_search.pyx`.

`view` must hold at least `count` entries, else `ValueError`. Entries that are not sorted give some result, the same as
that of `bisect.bisect_right`. O(log n).
"""

from __future__ import annotations

from bisect import bisect_right
from struct import Struct

from offsetfs.storage.files import Buffer

OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")


def around(view: Buffer, count: int, base_offset: int, offset: int) -> list[tuple[int, int]]:
    """Return the (offset, position) with the largest offset ≤ `offset`, and up to two entries after it.

    The first one is `(base_offset, 0)` if all offsets are larger.
    """
    _check(view, count, OFFSET_ENTRY)
    key = OFFSET_ENTRY.unpack_from
    index = bisect_right(range(count), offset - base_offset, key=lambda slot: key(view, slot * OFFSET_ENTRY.size)[0])
    floor = [] if index else [(base_offset, 0)]
    for slot in range(max(index - 1, 0), min(index + 2, count)):
        first, second = OFFSET_ENTRY.unpack_from(view, slot * OFFSET_ENTRY.size)
        floor.append((base_offset + first, second))
    return floor


def time_floor(view: Buffer, count: int, base_offset: int, timestamp: int) -> tuple[int, int]:
    """Return the (timestamp, offset) with the largest timestamp ≤ `timestamp`, or `(-1, base_offset)`."""
    _check(view, count, TIME_ENTRY)
    key = TIME_ENTRY.unpack_from
    index = bisect_right(range(count), timestamp, key=lambda slot: key(view, slot * TIME_ENTRY.size)[0])
    if not index:
        return -1, base_offset
    first, second = TIME_ENTRY.unpack_from(view, (index - 1) * TIME_ENTRY.size)
    return first, base_offset + second


def _check(view: Buffer, count: int, entry: Struct) -> None:
    if not 0 <= count <= len(view) // entry.size:
        raise ValueError("more entries than bytes")
