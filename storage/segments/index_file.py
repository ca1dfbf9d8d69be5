"""A file of fixed-size entries: written with pwrite, read with pread.

What the offset index and the time index have in common: no header, no checksum, entries one after the other, possibly
followed by zeros, because Kafka makes the index of the active segment as long as it may become (sparse) and cuts it
to its entries when the segment is rolled or closed. Follows Kafka's `AbstractIndex`, with three differences:

*   Kafka maps the file. A mapped file answers with SIGBUS, which ends the process, when a store meets a full disk or
    when another process cuts the file. pwrite returns ENOSPC, and pread of a file that was cut returns fewer bytes.
*   Kafka takes every slot of an existing file for an entry. Here the zeros at the end are not counted, so a file that
    a crash left long, or that a running broker is filling, reads right.
*   Kafka searches a "warm section" at the end first, to touch fewer pages. Here a look-up searches the first keys of
    all blocks of 1,024 entries, which are kept in memory (2 KiB for the index of 1 GiB), and then reads one block.

The kept keys may be out of date when another process writes the file. A look-up checks them against the block that it
has read, and forgets them when the block does not agree.

Threads: one writer, any number of readers. `append` moves `count` after the entry is in the file. A read-only opener
may read a file that another process fills: it asks for the length at each look-up.

Costs: one descriptor. A look-up is one pread of 8 or 12 KiB, and the first ones a pread of an entry for each level.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from struct import Struct

from offsetfs.storage import files
from offsetfs.storage.errors import CorruptIndex, InvalidIndexAppend
from offsetfs.storage.units import I32_MAX, I64_MAX

BLOCK_ENTRIES = 1024
"""How many entries a look-up reads. Measured: 8 KiB cost 0.2 µs more to read than one entry does."""

FOLLOWING_ENTRIES = 2
"""How many entries behind the block a look-up reads: `OffsetIndex.around` returns the two behind the one it finds."""

_SECOND_FIELD_SIZE = 4  # a position, or a relative offset

_UNKNOWN = -I64_MAX - 1  # in `_first_keys`: not read yet


class IndexFile:
    """The entries of one index file. What they mean is the owner's business."""

    __slots__ = ("_count", "_first_keys", "_length", "bytes_max", "entry", "file", "followed", "writable")

    def __init__(self, file: files.File, entry: Struct, *, bytes_max: int, writable: bool, followed: bool) -> None:
        self._first_keys = array("q")  # of each block; replaced, never shortened, because readers hold no lock
        self.file = file
        self.entry = entry
        self.bytes_max = bytes_max
        self.writable = writable
        self.followed = followed
        length = file.size()
        if length % entry.size or length > I32_MAX:
            reason = f"{length} bytes are no whole number of {entry.size}-byte entries, or above {I32_MAX}"
            raise CorruptIndex(reason, path=file.path)
        self._length = length
        self._count = self._find_count(length // entry.size, 0)

    @classmethod
    def open(
        cls, path: str, entry: Struct, *, bytes_max: int, writable: bool, followed: bool, create: bool
    ) -> IndexFile:
        """Open the file; FileNotFoundError without `create`, CorruptIndex when its length cannot be right."""
        assert writable or not create, "a reader writes nothing"
        file = files.open_file(path, writable=writable, create=create)
        try:
            return cls(file, entry, bytes_max=bytes_max, writable=writable, followed=followed)
        except BaseException:
            file.close()
            raise

    # --- reading ---------------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Number of entries, as of now."""
        return self._count if self.writable else self._refresh()

    @property
    def count_max(self) -> int:
        """Number of entries that `bytes_max` has room for; 0 when it is below the size of one."""
        return self.bytes_max // self.entry.size

    def entry_at(self, number: int) -> tuple[int, int] | None:
        """Return the fields of one entry; None when the file ends before it."""
        data = self.file.read(number * self.entry.size, self.entry.size)
        return self.entry.unpack(data) if len(data) == self.entry.size else None

    def block_of(self, key: int) -> tuple[bytearray, int]:
        """Return the block that holds the last entry whose first field is ≤ `key`, and how many entries it holds.

        Up to two entries behind the block follow. The first block when the first fields of all entries are above.
        """
        data, count, is_sound = self._read_block(key, self.count)
        if not is_sound:
            self._first_keys = array("q")
            data, count, _ = self._read_block(key, min(self.count, self.file.size() // self.entry.size))
        return data, count

    def _read_block(self, key: int, count: int) -> tuple[bytearray, int, bool]:
        """Return what `block_of` does, and whether the block agrees with the keys in memory and with `count`."""
        size, block = self.entry.size, self._block_number(key, count)
        first = block * BLOCK_ENTRIES
        wanted = min(BLOCK_ENTRIES + FOLLOWING_ENTRIES, count - first)
        data = self.file.read(first * size, wanted * size)
        found = len(data) // size
        if found < wanted or (block > 0 and self.entry.unpack_from(data)[0] > key):
            return data, found, False
        is_last = found <= BLOCK_ENTRIES or self.entry.unpack_from(data, BLOCK_ENTRIES * size)[0] > key
        return data, found, is_last

    def _block_number(self, key: int, count: int) -> int:
        blocks = -(-count // BLOCK_ENTRIES)
        if blocks <= 1:
            return 0
        keys = self._first_keys
        if len(keys) < blocks:
            keys.extend([_UNKNOWN] * (blocks - len(keys)))

        def first_key(block: int) -> int:
            if keys[block] == _UNKNOWN:
                entry = self.entry_at(block * BLOCK_ENTRIES)
                if entry is None:  # the file was cut: search before it
                    return I64_MAX
                keys[block] = entry[0]
            return keys[block]

        return bisect_right(range(1, blocks), key, key=first_key)

    def rank(self, column: int, value: int, count: int) -> int:
        """Return the number of the first of `count` entries whose field `column` is at least `value`, else `count`.

        Reads one entry for each step of a binary search.
        """

        def field(number: int) -> int:
            entry = self.entry_at(number)
            return I64_MAX if entry is None else entry[column]

        return bisect_left(range(count), value, key=field)

    def entries(self) -> Iterator[tuple[int, int]]:
        """Yield the fields of every entry there is now, as they stand in the file."""
        size, count = self.entry.size, self.count
        for first in range(0, count, BLOCK_ENTRIES):
            data = self.file.read(first * size, min(BLOCK_ENTRIES, count - first) * size)
            yield from self.entry.iter_unpack(memoryview(data)[: len(data) // size * size])
            if len(data) < min(BLOCK_ENTRIES, count - first) * size:
                return  # the file was cut

    def ends(self) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """Return the fields of the first and of the last entry, None when there are none."""
        count = self.count
        if not count:
            return None
        first, last = self.entry_at(0), self.entry_at(count - 1)
        return None if first is None or last is None else (first, last)

    def _refresh(self) -> int:
        """Look how far somebody has written: two or three preads, but not in a file that we alone write and filled."""
        length = self.file.size()
        if length != self._length or self.followed or self._count * self.entry.size != length:
            if length < self._length:
                self._first_keys = array("q")
            self._count = self._find_count(length // self.entry.size, self._count)
            self._length = length
        return self._count

    def _find_count(self, slots: int, known: int) -> int:
        """Return how many of `slots` slots stand before the zeros at the end; `known` of them did last time.

        No entry but the first can be all zeros, for offsets and timestamps rise. The first alone being zero would be
        (base offset, position 0), which an empty index answers as well, or timestamp 0 of the first record, which is
        given up: the padding cannot be told from it.
        """
        if not slots or not self._is_zero(slots - 1):
            return slots - self._is_half(slots - 1)
        low = known if 1 < known < slots and not self._is_zero(known - 1) else 1
        if low < slots and not self._is_zero(low):
            low = bisect_left(range(slots), True, low + 1, slots - 1, key=self._is_zero)
        return 0 if low == 1 and self._is_zero(0) else low - self._is_half(low - 1)

    def _is_half(self, number: int) -> bool:
        """Whether an entry is just being written: a broker stores its first field, then its second, into its map.

        No whole entry but the first has a 0 there. Where nobody writes it is damage.
        """
        if not self.followed or number < 1:
            return False
        entry = self.file.read(number * self.entry.size, self.entry.size)
        return any(entry) and not any(entry[-_SECOND_FIELD_SIZE:])

    def _is_zero(self, number: int) -> bool:
        return not any(self.file.read(number * self.entry.size, self.entry.size))

    # --- writing ---------------------------------------------------------------------------------------------------

    def append(self, first: int, second: int) -> None:
        """Write one entry behind the last. On an error the count has not moved, and the next entry takes the place."""
        assert self.writable
        self.file.write(self._count * self.entry.size, self.entry.pack(first, second))
        self._count += 1

    def truncate(self, count: int) -> None:
        """Keep the first `count` entries. What stood behind them is zeroed: a later opener must not count it."""
        assert self.writable and count >= 0
        stale = self._count - count
        if stale > 0:
            self._count = count
            self.file.write(count * self.entry.size, bytes(stale * self.entry.size))
            self._first_keys = array("q")

    def reset(self) -> None:
        """Drop all entries and cut the file to nothing. Nobody else may be looking: for recovery."""
        assert self.writable
        self._count = 0
        self.file.truncate(0)
        self._first_keys = array("q")

    def preallocate(self) -> None:
        """Make the file as long as `bytes_max` allows, sparse, as Kafka keeps the active segment's."""
        assert self.writable
        self.file.truncate(max(self.count_max, self._count) * self.entry.size)

    def trim(self) -> None:
        """Cut the file to its entries, as Kafka leaves every index of a segment that is not active."""
        assert self.writable
        self.file.truncate(self._count * self.entry.size)

    def flush(self) -> None:
        """Put entries and length on disk. An index that is lost costs a rebuild, never a record."""
        self.file.sync()

    def close(self) -> None:
        """Trim, when writable, and close."""
        try:
            if self.writable:
                self.trim()
        finally:
            self.file.close()


def relative(offset: int, base_offset: int, path: str) -> int:
    """Return `offset` as an entry stores it; InvalidIndexAppend outside `[base, base + 2³¹)`."""
    if not 0 <= offset - base_offset <= I32_MAX:
        raise InvalidIndexAppend(f"not in [{base_offset}, {base_offset + I32_MAX}]", path=path, offset=offset)
    return offset - base_offset
