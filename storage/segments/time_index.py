"""The time index of a segment, `<base offset>.timeindex`: maps a timestamp to an offset.

An entry (T, O) means: every record with a timestamp above T has an offset above O. O is the last offset of the first
batch whose largest timestamp is T. Timestamps rise strictly, offsets do not fall. Follows Kafka's `TimeIndex`;
docs/internals/format/time-index.md says when entries are written. It has no checksum: the caller uses an entry only if
the batch that it names agrees.

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
    """The (timestamp, offset) entries of a segment.

    One writer, any number of readers; see `index_file` for the rules.
    """

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
        """Open the index of the segment that begins at `base_offset`; arguments and errors as `OffsetIndex.open`."""
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
        """Whether only the last slot is free.

        It is reserved for the entry that a segment ends with, so the segment must roll.
        """
        # As Kafka's TimeIndex.isFull: the entry of the largest timestamp must still fit when the segment is closed.
        return self._index.count >= self._index.count_max - 1

    @property
    def last_entry(self) -> tuple[Timestamp, Offset]:
        """The last entry; `(-1, base_offset)` if there is none."""
        return self._last_entry if self._index.writable else self._read_last_entry()

    @property
    def last_offset(self) -> Offset:
        """The offset of the last entry; the base offset if there is none."""
        return self.last_entry[1]

    def lookup(self, timestamp: int) -> tuple[Timestamp, Offset]:
        """Return the entry with the largest timestamp ≤ `timestamp`, or `(-1, base_offset)`. O(log n)."""
        block, count = self._index.block_of(timestamp)
        found, offset = time_floor(block, count, self.base_offset, timestamp)
        return Timestamp(found), Offset(offset)

    def entries(self) -> Iterator[tuple[Timestamp, Offset]]:
        """Yield the current entries as (timestamp, offset)."""
        return ((Timestamp(first), Offset(self.base_offset + second)) for first, second in self._index.entries())

    def _read_last_entry(self) -> tuple[Timestamp, Offset]:
        ends = self._index.ends()
        if ends is None:
            return NO_TIMESTAMP, self.base_offset
        return Timestamp(ends[1][0]), Offset(self.base_offset + ends[1][1])

    def _check(self) -> None:
        """Check the first and the last entry. Checking all of them would cost a read of the file at each start."""
        first, last = self._index.ends() or ((0, 0), (0, 0))
        if not 0 <= first[0] <= last[0] or not 0 <= first[1] <= last[1]:
            raise CorruptIndex(f"runs from {first} to {last}, relative to {self.base_offset}", path=self.path)

    # --- writing ---------------------------------------------------------------------------------------------------

    def maybe_append(self, timestamp: int, offset: int, skip_full: bool = False) -> None:
        """Add an entry if `timestamp` is above the last one; do nothing if it is equal (so -1 is never written).

        `skip_full` is for the entry that a segment ends with, which may use the reserved slot. InvalidIndexAppend if
        full, if offset or timestamp are below the last entry's, or the offset is more than 2³¹−1 above the base.
        Written on return, but not synced. After an OSError the index is unchanged.
        """
        last_timestamp, last_offset = self._last_entry
        if self.is_full and not skip_full:
            raise InvalidIndexAppend(f"full with {self.count} entries", path=self.path, offset=offset)
        if self.count and offset < last_offset:
            raise InvalidIndexAppend(f"below the last entry's offset {last_offset}", path=self.path, offset=offset)
        if self.count and timestamp < last_timestamp:
            reason = f"timestamp {timestamp} is below the last entry's {last_timestamp}"
            raise InvalidIndexAppend(reason, path=self.path, offset=offset)
        # Timestamps of records may fall; the index keeps only those that rise, as TimeIndex.maybeAppend.
        if timestamp > last_timestamp:
            self._index.append(timestamp, relative(offset, self.base_offset, self.path))
            self._last_entry = Timestamp(timestamp), Offset(offset)

    @property
    def free(self) -> int:
        """How many entries can be added; one more slot is reserved for the entry that a segment ends with."""
        return max(self._index.count_max - 1 - self._index.count, 0)

    def append_packed(self, entries: bytes) -> None:
        """Add the entries that `chain.index` has made for batches behind the last one; at most `free`.

        Errors as of `maybe_append`.
        """
        if entries:
            self._index.append_packed(entries)
            timestamp, offset = ENTRY.unpack(entries[-ENTRY.size :])
            self._last_entry = Timestamp(timestamp), Offset(self.base_offset + offset)

    def truncate_to(self, offset: int) -> None:
        """Keep the entries with offsets below `offset`."""
        self._index.truncate(self._index.rank(1, offset - self.base_offset, self.count))
        self._last_entry = self._read_last_entry()

    def reset(self) -> None:
        """Remove all entries and cut the file to length 0. For recovery only: there may be no other reader."""
        self._index.reset()
        self._last_entry = NO_TIMESTAMP, self.base_offset

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
