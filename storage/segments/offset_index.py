"""The offset index of a segment, `<base offset>.index`: maps an offset to a byte position in the log file.

The index is sparse: one entry for about every `index.interval.bytes`. The offset of an entry is the last offset of the
append that begins at its position. So a look-up returns a position at or before the batch, and the caller scans from
there. Follows Kafka's `OffsetIndex`; docs/internals/format/offset-index.md says when entries are written. An index has
no checksum: the caller uses an entry only if the batch at its position agrees.

    0           4           8
    +-----------+-----------+
    | offset −  | position  |    both i32, big-endian; offsets and positions rise
    | base (i32)| (i32)     |
    +-----------+-----------+
"""

from __future__ import annotations

from struct import Struct
from typing import cast

from offsetfs.storage.errors import InvalidIndexAppend
from offsetfs.storage.segments.index_file import IndexFile, around, relative
from offsetfs.storage.units import I32_MAX, Offset, Position

OFFSET_ENTRY = Struct(">ii")


class OffsetIndex(IndexFile[tuple[Offset, Position]]):
    """The (offset, position) entries of a segment; an empty index ends with `(base_offset, 0)`.

    One writer, any number of readers; see `index_file` for the rules.
    """

    __slots__ = ()

    entry = OFFSET_ENTRY
    offset_column = 0

    def _entry_of(self, first: int, second: int) -> tuple[Offset, Position]:
        return Offset(self.base_offset + first), Position(second)

    def _before_first(self) -> tuple[Offset, Position]:
        return self.base_offset, Position(0)

    @property
    def last_offset(self) -> Offset:
        """The offset of the last entry; the base offset if there is none."""
        return self.last_entry[0]

    def lookup(self, offset: int) -> tuple[Offset, Position]:
        """Return the entry with the largest offset ≤ `offset`, or `(base_offset, 0)`. O(log n)."""
        return self.around(offset)[0]

    def around(self, offset: int) -> list[tuple[Offset, Position]]:
        """Return the result of `lookup`, and up to two entries after it. O(log n)."""
        block, count = self._block_of(offset - self.base_offset)
        return cast("list[tuple[Offset, Position]]", around(block, count, self.base_offset, offset))

    def upper_bound(self, entry: tuple[int, int], size: int) -> tuple[Offset, Position] | None:
        """Return the first entry at least `size` bytes after the position of `entry`, or None. O(log n).

        Its offset is an upper bound for a read of `size` bytes from there.
        """
        count = self.count
        number = self._rank(1, entry[1] + size, count)
        fields = self._fields_at(number) if number < count else None
        return None if fields is None else self._entry_of(*fields)

    def append(self, offset: int, position: int) -> None:
        """Add an entry; InvalidIndexAppend if full, not above the last one, or more than 2³¹−1 above the base.

        Written on return, but not synced. After an OSError the index is unchanged.
        """
        stored = relative(offset, self.base_offset, self.path)
        if not 0 <= position <= I32_MAX:
            raise InvalidIndexAppend(f"position not in [0, {I32_MAX}]", path=self.path, position=position)
        if self.is_full:
            raise InvalidIndexAppend(f"full with {self.count} entries", path=self.path, offset=offset)
        if self.count and offset <= self._last[0]:
            raise InvalidIndexAppend(f"not beyond the last entry's {self._last[0]}", path=self.path, offset=offset)
        self._append(stored, position)
