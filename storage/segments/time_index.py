"""The time index of a segment: `<base offset>.timeindex`, from a timestamp to an offset.

An entry (T, O) says: every record with a timestamp above T stands after offset O. O is the last offset of the first
batch whose largest timestamp is T. Timestamps rise strictly, offsets do not fall. Follows Kafka's `TimeIndex`; the page
docs/internals/format/time-index.md says when an entry is made. It has no checksum: the caller believes an entry when
the batch it names agrees.

    0                       8           12
    +-----------------------+-----------+
    | timestamp, ms (i64)   | offset −  |    big-endian
    |                       | base (i32)|
    +-----------------------+-----------+
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from offsetfs.storage.errors import CorruptIndex, InvalidIndexAppend
from offsetfs.storage.segments.index_file import IndexFile, relative
from offsetfs.storage.segments.index_search import time_floor
from offsetfs.storage.units import NO_TIMESTAMP, Offset, Timestamp

ENTRY = Struct(">qi")


class TimeIndex:
    """Pairs of (timestamp, offset). One writer, any number of readers; see `index_file` for what each may do."""

    __slots__ = ("_index", "_last_entry", "base_offset")

    def __init__(self, index: IndexFile, base_offset: int) -> None:
        self._index = index
        self.base_offset = Offset(base_offset)
        self._check()
        self._last_entry = self._read_last_entry()

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
    ) -> TimeIndex:
        """Open the index of the segment that starts at `base_offset`; arguments and errors as `OffsetIndex.open`."""
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
        """Whether only the last slot is left, which is kept for the entry that a segment ends with: time to roll."""
        return self._index.count >= self._index.count_max - 1

    @property
    def last_entry(self) -> tuple[Timestamp, Offset]:
        """The last entry; `(-1, base_offset)` when there is none."""
        return self._last_entry if self._index.writable else self._read_last_entry()

    @property
    def last_offset(self) -> Offset:
        """Offset of the last entry; the base offset when there is none."""
        return self.last_entry[1]

    def lookup(self, timestamp: int) -> tuple[Timestamp, Offset]:
        """Return the entry with the largest timestamp ≤ `timestamp`; `(-1, base_offset)` when none. O(log n)."""
        block, count = self._index.block_of(timestamp)
        found, offset = time_floor(block, count, self.base_offset, timestamp)
        return Timestamp(found), Offset(offset)

    def entries(self) -> Iterator[tuple[Timestamp, Offset]]:
        """Yield the entries there are now, as (timestamp, offset)."""
        return ((Timestamp(first), Offset(self.base_offset + second)) for first, second in self._index.entries())

    def _read_last_entry(self) -> tuple[Timestamp, Offset]:
        ends = self._index.ends()
        if ends is None:
            return NO_TIMESTAMP, self.base_offset
        return Timestamp(ends[1][0]), Offset(self.base_offset + ends[1][1])

    def _check(self) -> None:
        """Look at both ends. The middle is not looked at: it would cost reading all of it at every start."""
        first, last = self._index.ends() or ((0, 0), (0, 0))
        if not 0 <= first[0] <= last[0] or not 0 <= first[1] <= last[1]:
            raise CorruptIndex(f"runs from {first} to {last}, relative to {self.base_offset}", path=self.path)

    # --- writing ---------------------------------------------------------------------------------------------------

    def maybe_append(self, timestamp: int, offset: int, skip_full: bool = False) -> None:
        """Add an entry when `timestamp` is above the last one's; nothing when it is equal (so -1 is never written).

        `skip_full` is for the entry a segment ends with, and may use the slot that is kept for it. InvalidIndexAppend
        when full, when offset or timestamp lie below the last entry's, or the offset more than 2³¹−1 above the base.
        In the file after return, not on disk. An OSError leaves the index as it was.
        """
        last_timestamp, last_offset = self._last_entry
        if self.is_full and not skip_full:
            raise InvalidIndexAppend(f"full with {self.count} entries", path=self.path, offset=offset)
        if self.count and offset < last_offset:
            raise InvalidIndexAppend(f"below the last entry's offset {last_offset}", path=self.path, offset=offset)
        if self.count and timestamp < last_timestamp:
            reason = f"timestamp {timestamp} is below the last entry's {last_timestamp}"
            raise InvalidIndexAppend(reason, path=self.path, offset=offset)
        if timestamp > last_timestamp:
            self._index.append(timestamp, relative(offset, self.base_offset, self.path))
            self._last_entry = Timestamp(timestamp), Offset(offset)

    def truncate_to(self, offset: int) -> None:
        """Keep the entries with an offset below `offset`."""
        self._index.truncate(self._index.rank(1, offset - self.base_offset, self.count))
        self._last_entry = self._read_last_entry()

    def reset(self) -> None:
        """Drop all entries and cut the file to nothing. For recovery: nobody else may be looking."""
        self._index.reset()
        self._last_entry = NO_TIMESTAMP, self.base_offset

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
