"""The size of a range of a log in bytes, and the offsets where the range can be cut for parallel readers.

Positions come from offset indexes, so a size is exact to an index interval, and nothing but indexes is read. An index
is a hint: a cut may lie inside a batch if the index is damaged. Then the readers of both pieces read that batch, and
each returns its own records, so a damaged index costs time but neither loses nor repeats a record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from offsetfs.storage.partition.segment_retry import with_retry
from offsetfs.storage.segments.segment import Segment

if TYPE_CHECKING:
    from offsetfs.storage.partition.log import Log

Piece = tuple[int, int, int]
"""The offsets `[start, stop)` of a piece of a range, and its size in bytes."""


def size_between(log: Log, start: int, stop: int) -> int:
    """Return about how many bytes of segments have the offsets `[start, stop)`. OSError as `with_retry`."""
    return with_retry(log, start, lambda _: sum(last - first for _, first, last in _segment_parts(log, start, stop)))


def cut(log: Log, start: int, stop: int, piece_bytes: int) -> list[Piece]:
    """Return contiguous pieces of about `piece_bytes` that cover `[start, stop)`. OSError as `with_retry`.

    A range of up to one and a half times `piece_bytes` is one piece.
    """
    return with_retry(log, start, lambda _: list(_pieces(log, start, stop, piece_bytes)))


def _pieces(log: Log, start: int, stop: int, piece_bytes: int) -> Iterator[Piece]:
    parts = list(_segment_parts(log, start, stop))
    size = sum(last - first for _, first, last in parts)
    if size <= piece_bytes + piece_bytes // 2:
        yield start, stop, size
        return
    gathered = 0
    for segment, position, last in parts:
        index = segment.open_files().index
        while gathered + last - position > piece_bytes:
            entry = index.upper_bound((segment.base_offset, position), piece_bytes - gathered)
            if entry is None or entry[1] >= last or not start < entry[0] + 1 < stop:
                break
            yield start, entry[0] + 1, gathered + entry[1] - position
            start, position, gathered = entry[0] + 1, entry[1], 0
        gathered += last - position
    if start < stop:
        yield start, stop, gathered


def _segment_parts(log: Log, start: int, stop: int) -> Iterator[tuple[Segment, int, int]]:
    """Yield each segment that has some of the offsets, and the positions between which they are, to an interval."""
    segments = log.snapshot()
    for segment in segments.from_floor(start):
        if segment.base_offset >= stop:
            return
        following = segments.next_base_offset(segment)
        index = segment.open_files().index
        first = 0 if start <= segment.base_offset else min(index.lookup(start)[1], segment.size)
        is_whole = following is not None and following <= stop
        last = segment.size if is_whole else min(_position_after(segment, stop), segment.size)
        yield segment, first, max(last, first)


def _position_after(segment: Segment, offset: int) -> int:
    """Return the position of the first entry at or above `offset`, the end of the segment if there is none."""
    index = segment.open_files().index
    floor = index.lookup(offset - 1)
    following = index.upper_bound(floor, 1)
    return segment.size if following is None else following[1]
