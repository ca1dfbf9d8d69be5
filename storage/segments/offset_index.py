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

from collections.abc import Iterator
from struct import Struct
from typing import cast

from offsetfs.storage.errors import CorruptIndex, InvalidIndexAppend
from offsetfs.storage.segments.index_file import IndexFile, relative
from offsetfs.storage.segments.index_search import around
from offsetfs.storage.units import I32_MAX, Offset, Position

ENTRY = Struct(">ii")


class OffsetIndex:
    """The (offset, position) entries of a segment.

    One writer, any number of readers; see `index_file` for the rules.
    """

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
        """Open the index of the segment that begins at `base_offset`.

        `bytes_max` is `segment.index.bytes`. `prealloc` extends the file to that size (sparse), as Kafka does for
        active ones. `followed`: another process may be writing the file, so its last entry may be incomplete. Raises
        FileNotFoundError without `create`, and CorruptIndex, after which the caller rebuilds the index.
        """
        assert writable or not prealloc, "a read-only index is not preallocated"
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
        """The path by which the file was opened; a rename does not change it."""
        return self._index.file.path

    @property
    def count(self) -> int:
        """The number of entries."""
        return self._index.count

    @property
    def is_full(self) -> bool:
        """Whether no further entry fits into `bytes_max`, so that the segment must roll."""
        return self._index.count >= self._index.count_max

    @property
    def last_offset(self) -> Offset:
        """The offset of the last entry; the base offset if there is none."""
        return self._last_offset if self._index.writable else self._read_last_offset()

    def lookup(self, offset: int) -> tuple[Offset, Position]:
        """Return the entry with the largest offset ≤ `offset`, or `(base_offset, 0)`. O(log n)."""
        return self.around(offset)[0]

    def around(self, offset: int) -> list[tuple[Offset, Position]]:
        """Return the result of `lookup`, and up to two entries after it. O(log n)."""
        block, count = self._index.block_of(offset - self.base_offset)
        return cast("list[tuple[Offset, Position]]", around(block, count, self.base_offset, offset))

    def upper_bound(self, entry: tuple[int, int], size: int) -> tuple[Offset, Position] | None:
        """Return the first entry at least `size` bytes after the position of `entry`, or None. O(log n).

        Its offset is an upper bound for a read of `size` bytes from there.
        """
        count = self._index.count
        number = self._index.rank(1, entry[1] + size, count)
        found = self._index.entry_at(number) if number < count else None
        return None if found is None else (Offset(self.base_offset + found[0]), Position(found[1]))

    def entries(self) -> Iterator[tuple[Offset, Position]]:
        """Yield the current entries as (offset, position)."""
        return ((Offset(self.base_offset + first), Position(second)) for first, second in self._index.entries())

    def _read_last_offset(self) -> Offset:
        ends = self._index.ends()
        return Offset(self.base_offset + ends[1][0]) if ends else self.base_offset

    def _check(self) -> None:
        """Check the first and the last entry. Checking all of them would cost a read of the file at each start."""
        first, last = self._index.ends() or ((0, 0), (0, 0))
        if not 0 <= first[0] <= last[0] or not 0 <= first[1] <= last[1]:
            raise CorruptIndex(f"runs from {first} to {last}, relative to {self.base_offset}", path=self.path)

    # --- writing ---------------------------------------------------------------------------------------------------

    def append(self, offset: int, position: int) -> None:
        """Add an entry; InvalidIndexAppend if full, not above the last one, or more than 2³¹−1 above the base.

        Written on return, but not synced. After an OSError the index is unchanged.
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

    @property
    def free(self) -> int:
        """How many entries can be added."""
        return max(self._index.count_max - self._index.count, 0)

    def append_packed(self, entries: bytes) -> None:
        """Add the entries that `chain.index` has made for batches behind the last one; at most `free`.

        Errors as of `append`.
        """
        if entries:
            self._index.append_packed(entries)
            self._last_offset = Offset(self.base_offset + ENTRY.unpack(entries[-ENTRY.size :])[0])

    def truncate_to(self, offset: int) -> None:
        """Keep the entries with offsets below `offset`."""
        self._index.truncate(self._index.rank(0, offset - self.base_offset, self.count))
        self._last_offset = self._read_last_offset()

    def reset(self) -> None:
        """Remove all entries and cut the file to length 0. For recovery only: there may be no other reader."""
        self._index.reset()
        self._last_offset = self.base_offset

    def preallocate(self) -> None:
        """Extend the file to `bytes_max`, rounded down to whole entries, as a sparse file."""
        self._index.preallocate()

    def trim(self) -> None:
        """Cut the file to its entries."""
        self._index.trim()

    def flush(self) -> None:
        """Sync entries and length."""
        self._index.flush()

    def close(self) -> None:
        """Trim the file, if it is writable, and close it."""
        self._index.close()
