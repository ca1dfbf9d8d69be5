"""The offset index of a segment: `<base offset>.index`, from an offset to a byte of the log file.

Sparse: an entry for a batch about every `index.interval.bytes`, whose offset is the last of the append that began at
its position. So a lookup gives a place at or before the batch that is wanted, and the caller walks on from there.
Follows Kafka's `OffsetIndex`. The page docs/internals/format/offset-index.md says when an entry is made, which is not
decided here. An index has no checksum: the caller believes an entry when the batch at its position agrees.

    0           4           8
    +-----------+-----------+
    | offset −  | position  |    both i32, big-endian; offsets and positions rise
    | base (i32)| (i32)     |
    +-----------+-----------+
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import cast

from offsetfs.storage.errors import CorruptIndex, InvalidIndexAppend
from offsetfs.storage.segments.index_file import IndexFile, relative
from offsetfs.storage.segments.index_search import around
from offsetfs.storage.units import I32_MAX, Offset, Position

ENTRY = Struct(">ii")


class OffsetIndex:
    """Pairs of (offset, position). One writer, any number of readers; see `index_file` for what each may do."""

    __slots__ = ("_index", "_last_offset", "base_offset")

    def __init__(self, index: IndexFile, base_offset: int) -> None:
        self._index = index
        self.base_offset = Offset(base_offset)
        self._check()
        self._last_offset = self._read_last_offset()

    @classmethod
    def open(
        cls,
        path: str,
        base_offset: int,
        *,
        bytes_max: int,
        writable: bool = False,
        followed: bool = False,
        create: bool = False,
        prealloc: bool = False,
    ) -> OffsetIndex:
        """Open the index of the segment that starts at `base_offset`.

        `bytes_max` is `segment.index.bytes`. `prealloc` makes the file that long (sparse), as Kafka's active ones are.
        `followed`: another process may be writing it, so that its last entry may be there in half.
        Raises FileNotFoundError without `create`, and CorruptIndex, which is cured by making the index anew.
        """
        assert writable or not prealloc, "a reader writes nothing"
        index = IndexFile.open(path, ENTRY, bytes_max=bytes_max, writable=writable, followed=followed, create=create)
        try:
            opened = cls(index, base_offset)
            if prealloc:
                opened.preallocate()
        except BaseException:
            index.file.close()
            raise
        return opened

    # --- reading ---------------------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The path it was opened by; a rename does not change it."""
        return self._index.file.path

    @property
    def count(self) -> int:
        """Number of entries."""
        return self._index.count

    @property
    def is_full(self) -> bool:
        """Whether `bytes_max` has no room for another entry: time to roll."""
        return self._index.count >= self._index.count_max

    @property
    def last_offset(self) -> Offset:
        """Offset of the last entry; the base offset when there is none."""
        return self._last_offset if self._index.writable else self._read_last_offset()

    def lookup(self, offset: int) -> tuple[Offset, Position]:
        """Return the entry with the largest offset ≤ `offset`; `(base_offset, 0)` when there is none. O(log n)."""
        return self.around(offset)[0]

    def around(self, offset: int) -> list[tuple[Offset, Position]]:
        """Return what `lookup` returns, and the two entries behind it, as far as there are any. O(log n)."""
        block, count = self._index.block_of(offset - self.base_offset)
        return cast("list[tuple[Offset, Position]]", around(block, count, self.base_offset, offset))

    def upper_bound(self, entry: tuple[int, int], size: int) -> tuple[Offset, Position] | None:
        """Return the first entry at least `size` bytes behind the position of `entry`, or None. O(log n).

        Its offset bounds what a read of `size` bytes from there can return.
        """
        count = self._index.count
        number = self._index.rank(1, entry[1] + size, count)
        found = self._index.entry_at(number) if number < count else None
        return None if found is None else (Offset(self.base_offset + found[0]), Position(found[1]))

    def entries(self) -> Iterator[tuple[Offset, Position]]:
        """Yield the entries there are now, as (offset, position)."""
        return ((Offset(self.base_offset + first), Position(second)) for first, second in self._index.entries())

    def _read_last_offset(self) -> Offset:
        ends = self._index.ends()
        return Offset(self.base_offset + ends[1][0]) if ends else self.base_offset

    def _check(self) -> None:
        """Look at both ends. The middle is not looked at: it would cost reading all of it at every start."""
        first, last = self._index.ends() or ((0, 0), (0, 0))
        if not 0 <= first[0] <= last[0] or not 0 <= first[1] <= last[1]:
            raise CorruptIndex(f"runs from {first} to {last}, relative to {self.base_offset}", path=self.path)

    # --- writing ---------------------------------------------------------------------------------------------------

    def append(self, offset: int, position: int) -> None:
        """Add an entry; InvalidIndexAppend when full, not beyond the last one, or more than 2³¹−1 above the base.

        In the file after return, not on disk. An OSError leaves the index as it was.
        """
        stored = relative(offset, self.base_offset, self.path)
        if not 0 <= position <= I32_MAX:
            raise InvalidIndexAppend(f"position not in [0, {I32_MAX}]", path=self.path, position=position)
        if self.is_full:
            raise InvalidIndexAppend(f"full with {self.count} entries", path=self.path, offset=offset)
        if self.count and offset <= self._last_offset:
            raise InvalidIndexAppend(f"not beyond the last entry's {self._last_offset}", path=self.path, offset=offset)
        self._index.append(stored, position)
        self._last_offset = Offset(offset)

    def truncate_to(self, offset: int) -> None:
        """Keep the entries with an offset below `offset`."""
        self._index.truncate(self._index.rank(0, offset - self.base_offset, self.count))
        self._last_offset = self._read_last_offset()

    def reset(self) -> None:
        """Drop all entries and cut the file to nothing. For recovery: nobody else may be looking."""
        self._index.reset()
        self._last_offset = self.base_offset

    def preallocate(self) -> None:
        """Make the file as long as `bytes_max` allows (rounded down to whole entries), sparse."""
        self._index.preallocate()

    def trim(self) -> None:
        """Cut the file to its entries."""
        self._index.trim()

    def flush(self) -> None:
        """Put entries and length on disk."""
        self._index.flush()

    def close(self) -> None:
        """Trim, when writable, and close the file."""
        self._index.close()
