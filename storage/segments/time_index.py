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

from struct import Struct

from offsetfs.storage.errors import InvalidIndexAppend
from offsetfs.storage.segments.index_file import IndexFile, relative, time_floor
from offsetfs.storage.units import NO_TIMESTAMP, Offset, Timestamp

TIME_ENTRY = Struct(">qi")


class TimeIndex(IndexFile[tuple[Timestamp, Offset]]):
    """The (timestamp, offset) entries of a segment; an empty index ends with `(-1, base_offset)`.

    One writer, any number of readers; see `index_file` for the rules.
    """

    __slots__ = ()

    entry = TIME_ENTRY
    offset_column = 1
    # As Kafka's TimeIndex.isFull: the entry of the largest timestamp must still fit when the segment is closed.
    reserved = 1

    def _entry_of(self, first: int, second: int) -> tuple[Timestamp, Offset]:
        return Timestamp(first), Offset(self.base_offset + second)

    def _before_first(self) -> tuple[Timestamp, Offset]:
        return NO_TIMESTAMP, self.base_offset

    @property
    def last_offset(self) -> Offset:
        """The offset of the last entry; the base offset if there is none."""
        return self.last_entry[1]

    def lookup(self, timestamp: int) -> tuple[Timestamp, Offset]:
        """Return the entry with the largest timestamp ≤ `timestamp`, or `(-1, base_offset)`. O(log n)."""
        block, count = self._block_of(timestamp)
        entry_timestamp, offset = time_floor(block, count, self.base_offset, timestamp)
        return Timestamp(entry_timestamp), Offset(offset)

    def maybe_append(self, timestamp: int, offset: int, skip_full: bool = False) -> None:
        """Add an entry if `timestamp` is above the last one; do nothing if it is equal (so -1 is never written).

        `skip_full` is for the entry that a segment ends with, which may use the reserved slot. InvalidIndexAppend if
        full, if offset or timestamp are below the last entry's, or the offset is more than 2³¹−1 above the base.
        Written on return, but not synced. After an OSError the index is unchanged.
        """
        last_timestamp, last_offset = self._last
        if self.is_full and not skip_full:
            raise InvalidIndexAppend(f"full with {self.count} entries", path=self.path, offset=offset)
        if self.count and offset < last_offset:
            raise InvalidIndexAppend(f"below the last entry's offset {last_offset}", path=self.path, offset=offset)
        if self.count and timestamp < last_timestamp:
            reason = f"timestamp {timestamp} is below the last entry's {last_timestamp}"
            raise InvalidIndexAppend(reason, path=self.path, offset=offset)
        # Timestamps of records may fall; the index keeps only those that rise, as TimeIndex.maybeAppend.
        if timestamp > last_timestamp:
            self._append(timestamp, relative(offset, self.base_offset, self.path))
