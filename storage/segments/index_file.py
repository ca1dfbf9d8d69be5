"""The common part of the offset index and the time index: a file of entries of two numbers, which rise.

Written with pwrite and read with pread. The file has no header and no checksum, only entries, possibly
followed by zeros: Kafka preallocates the index of the active segment as a sparse file, and cuts it to its entries when
the segment is rolled or closed. Follows Kafka's `AbstractIndex`, with three differences:

* Kafka maps the file. A store to a mapped file on a full disk, or a load after another process cut the file, raises
SIGBUS, which kills the process. pwrite returns ENOSPC instead, and pread returns fewer bytes.
* Kafka counts every slot of an existing file as an entry. Here the zeros at the end are not counted, so an index that a
crash left too long, or that a running broker is filling, is read correctly.
* Kafka searches a "warm section" at the end first, to touch fewer pages. Here a look-up searches the first keys of all
blocks of 1,024 entries, which are cached in memory (2 KiB for the index of 1 GiB), and then reads one block.

The cached keys can be stale if another process writes the file. A look-up compares them with the block that it reads,
and drops the cache if they differ.

Threads: one writer, any number of readers. `append` increments `count` after the entry is in the file. A reader of a
file that another process fills determines the count at each look-up.

The binary searches `around` and `time_floor` are compiled or in Python; `offsetfs.storage.reference.index_search` has
their docstrings.

Cost: one descriptor. A look-up is one pread of 8 or 12 KiB; the first look-ups add a pread of one entry per level.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from struct import Struct
from typing import TYPE_CHECKING, ClassVar, Generic, Self, TypeVar

from offsetfs.storage import files
from offsetfs.storage.errors import CorruptIndex, InvalidIndexAppend
from offsetfs.storage.native import select
from offsetfs.storage.units import I32_MAX, I64_MAX, Offset

if TYPE_CHECKING:
    from offsetfs.storage.reference import index_search as _index_search
else:
    _index_search = select("index_search")

around = _index_search.around
time_floor = _index_search.time_floor

BLOCK_ENTRIES = 1024
"""The number of entries that a look-up reads. Measured: reading 8 KiB takes 0.2 µs longer than reading one entry."""

FOLLOWING_ENTRIES = 2
"""The number of entries after the block that a look-up reads, because `OffsetIndex.around` returns two more entries."""

_SECOND_FIELD_SIZE = 4  # a position, or a relative offset

_UNKNOWN = -I64_MAX - 1  # in `_first_keys`: not read yet


Entry = TypeVar("Entry", bound=tuple[int, int])
"""An entry with its offset: that of the record, where the file has the distance from the base offset."""


class IndexFile(Generic[Entry]):
    """The entries of one index file. A subclass interprets their two fields."""

    __slots__ = (
        "_count",
        "_first_keys",
        "_is_synced",
        "_last",
        "_length",
        "base_offset",
        "bytes_max",
        "file",
        "followed",
        "writable",
    )

    entry: ClassVar[Struct]
    offset_column: ClassVar[int]
    """The number of the field that is the offset."""
    reserved: ClassVar[int] = 0
    """The entries at the end that only the last append of a segment may use."""

    def __init__(self, file: files.File, base_offset: int, *, bytes_max: int, writable: bool, followed: bool) -> None:
        self._first_keys = array("q")  # of each block; replaced, never shortened, because readers hold no lock
        self.file = file
        self.base_offset = Offset(base_offset)
        self.bytes_max = bytes_max
        self.writable = writable
        self.followed = followed
        length = file.size()
        # As AbstractIndex.sanityCheck: half an entry at the end once stayed, and after a power loss the log accepted no
        # records.
        if length % self.entry.size or length > I32_MAX:
            reason = f"{length} bytes are no whole number of {self.entry.size}-byte entries, or above {I32_MAX}"
            raise CorruptIndex(reason, path=file.path)
        self._length = length
        self._count = self._find_count(length // self.entry.size, 0)
        # The first and the last entry. Checking all of them would cost a read of the file at each start.
        ends = self._ends()
        first, last = ends or ((0, 0), (0, 0))
        if not 0 <= first[0] <= last[0] or not 0 <= first[1] <= last[1]:
            raise CorruptIndex(f"runs from {first} to {last}, relative to {self.base_offset}", path=self.path)
        self._last = self._before_first() if ends is None else self._entry_of(*last)
        self._is_synced = not self._count

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
    ) -> Self:
        """Open the index of the segment that begins at `base_offset`.

        `bytes_max` is `segment.index.bytes`. `prealloc` extends the file to that size (sparse), as Kafka does for
        active ones. `followed`: another process may be writing the file, so its last entry may be incomplete. Raises
        FileNotFoundError without `create`, and CorruptIndex, after which the caller rebuilds the index.
        """
        assert writable or not create, "a read-only index cannot be created"
        assert writable or not prealloc, "a read-only index is not preallocated"
        file = files.open_file(path, writable=writable, create=create)
        try:
            opened = cls(file, base_offset, bytes_max=bytes_max, writable=writable, followed=followed)
            if prealloc:
                opened.preallocate()
        except BaseException:
            file.close()
            raise
        return opened

    # --- of the kind of index ----------------------------------------------------------------------------------------

    def _entry_of(self, first: int, second: int) -> Entry:
        """Return the entry that the file has as these fields."""
        raise NotImplementedError

    def _before_first(self) -> Entry:
        """Return what stands for the last entry of an empty index."""
        raise NotImplementedError

    # --- reading ---------------------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The path by which the file was opened; a rename does not change it."""
        return self.file.path

    @property
    def count(self) -> int:
        """The number of entries at the moment."""
        return self._count if self.writable else self._refresh()

    @property
    def count_max(self) -> int:
        """The number of entries that fit into `bytes_max`; 0 if it is smaller than one entry."""
        return self.bytes_max // self.entry.size

    @property
    def is_full(self) -> bool:
        """Whether only reserved entries fit into `bytes_max`, so that the segment must roll."""
        return self.count >= self.count_max - self.reserved

    @property
    def free(self) -> int:
        """The number of entries that can be added, apart from the reserved entries."""
        return max(self.count_max - self.reserved - self.count, 0)

    @property
    def last_entry(self) -> Entry:
        """The last entry; `_before_first` if there is none."""
        return self._last if self.writable else self._read_last()

    def _read_last(self) -> Entry:
        ends = self._ends()
        return self._before_first() if ends is None else self._entry_of(*ends[1])

    def entries(self) -> Iterator[Entry]:
        """Yield the current entries."""
        return (self._entry_of(first, second) for first, second in self._fields())

    def _fields_at(self, number: int) -> tuple[int, int] | None:
        """Return the fields of one entry; None if the file ends before it."""
        data = self.file.read(number * self.entry.size, self.entry.size)
        return self.entry.unpack(data) if len(data) == self.entry.size else None

    def _block_of(self, key: int) -> tuple[bytearray, int]:
        """Return the block that holds the last entry whose first field is ≤ `key`, and the number of its entries.

        The block is followed by up to two more entries. Returns the first block if all first fields are larger than
        `key`.
        """
        # Two passes: the cached keys may be stale beside a broker, and then the block does not hold the key.
        data, count, is_sound = self._read_block(key, self.count)
        if not is_sound:
            self._first_keys = array("q")
            data, count, _ = self._read_block(key, min(self.count, self.file.size() // self.entry.size))
        return data, count

    def _read_block(self, key: int, count: int) -> tuple[bytearray, int, bool]:
        """Return the result of `_block_of`, and whether the block agrees with the cached keys and with `count`."""
        size, block = self.entry.size, self._block_number(key, count)
        first = block * BLOCK_ENTRIES
        wanted = min(BLOCK_ENTRIES + FOLLOWING_ENTRIES, count - first)
        data = self.file.read(first * size, wanted * size)
        read_count = len(data) // size
        if read_count < wanted or (block > 0 and self.entry.unpack_from(data)[0] > key):
            return data, read_count, False
        is_last = read_count <= BLOCK_ENTRIES or self.entry.unpack_from(data, BLOCK_ENTRIES * size)[0] > key
        return data, read_count, is_last

    def _block_number(self, key: int, count: int) -> int:
        blocks = -(-count // BLOCK_ENTRIES)
        if blocks <= 1:
            return 0
        keys = self._first_keys
        if len(keys) < blocks:
            keys.extend([_UNKNOWN] * (blocks - len(keys)))

        def first_key(block: int) -> int:
            if keys[block] == _UNKNOWN:
                entry = self._fields_at(block * BLOCK_ENTRIES)
                if entry is None:  # the file was cut: search before it
                    return I64_MAX
                keys[block] = entry[0]
            return keys[block]

        return bisect_right(range(1, blocks), key, key=first_key)

    def _rank(self, column: int, value: int, count: int) -> int:
        """Return the number of the first of `count` entries whose field `column` is at least `value`, or `count`.

        Reads one entry for each step of a binary search.
        """

        def field(number: int) -> int:
            entry = self._fields_at(number)
            return I64_MAX if entry is None else entry[column]

        return bisect_left(range(count), value, key=field)

    def _fields(self) -> Iterator[tuple[int, int]]:
        """Yield the fields of each current entry."""
        size, count = self.entry.size, self.count
        for first in range(0, count, BLOCK_ENTRIES):
            data = self.file.read(first * size, min(BLOCK_ENTRIES, count - first) * size)
            yield from self.entry.iter_unpack(memoryview(data)[: len(data) // size * size])
            if len(data) < min(BLOCK_ENTRIES, count - first) * size:
                return  # the file was cut

    def _ends(self) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """Return the fields of the first and the last entry, None if there are none."""
        count = self.count
        if not count:
            return None
        first, last = self._fields_at(0), self._fields_at(count - 1)
        return None if first is None or last is None else (first, last)

    def _refresh(self) -> int:
        """Update the count from the file: two or three preads, or none if only this process writes the file and it is
        full.
        """
        length = self.file.size()
        if length != self._length or self.followed or self._count * self.entry.size != length:
            if length < self._length:
                self._first_keys = array("q")
            self._count = self._find_count(length // self.entry.size, self._count)
            self._length = length
        return self._count

    def _find_count(self, slots: int, known: int) -> int:
        """Return how many of `slots` slots precede the zeros at the end; `known` is the previous result.

        Only the first entry can be all zeros, because offsets and timestamps rise. If only the first is zero, it may be
        padding: such an entry is ignored. It would be (base offset, position 0), which an empty index returns as well,
        or timestamp 0 of the first record.
        """
        if not slots or not self._is_zero(slots - 1):
            return slots - self._is_half(slots - 1)
        low = known if 1 < known < slots and not self._is_zero(known - 1) else 1
        if low < slots and not self._is_zero(low):
            low = bisect_left(range(slots), True, low + 1, slots - 1, key=self._is_zero)
        return 0 if low == 1 and self._is_zero(0) else low - self._is_half(low - 1)

    def _is_half(self, number: int) -> bool:
        """Whether an entry is being written. A broker stores the first field in its mapped file, then the second.

        In a complete entry, other than the first, neither field is 0. In a file without a writer this is damage.
        """
        # `verify` beside a broker once reported an entry as damaged whose second field was not stored yet.
        if not self.followed or number < 1:
            return False
        entry = self.file.read(number * self.entry.size, self.entry.size)
        return any(entry) and not any(entry[-_SECOND_FIELD_SIZE:])

    def _is_zero(self, number: int) -> bool:
        return not any(self.file.read(number * self.entry.size, self.entry.size))

    # --- writing ---------------------------------------------------------------------------------------------------

    def _append(self, first: int, second: int) -> None:
        """Write one entry after the last one.

        After an error `count` is unchanged, and the next entry overwrites the slot.
        """
        assert self.writable
        self.file.write(self._count * self.entry.size, self.entry.pack(first, second))
        self._count += 1
        self._last = self._entry_of(first, second)
        self._is_synced = False  # after the write: a sync in another thread may run meanwhile

    def append_packed(self, entries: bytes) -> None:
        """Add the entries that `chain.index` has made for batches behind the last one; at most `free`.

        After an error the index is unchanged.
        """
        assert self.writable
        if entries:
            self.file.write(self._count * self.entry.size, entries)
            self._count += len(entries) // self.entry.size
            self._last = self._entry_of(*self.entry.unpack(entries[-self.entry.size :]))
            self._is_synced = False

    def truncate_to(self, offset: int) -> None:
        """Keep the entries with offsets below `offset`.

        Later ones are zeroed, so that the next opening does not count them.
        """
        assert self.writable
        count = self._rank(self.offset_column, offset - self.base_offset, self._count)
        stale = self._count - count
        if stale > 0:
            self._count = count
            # Zeros instead of a shorter file, because a reader may have the file open and expects its length.
            self.file.write(count * self.entry.size, bytes(stale * self.entry.size))
            self._is_synced = False
            self._first_keys = array("q")
        self._last = self._read_last()

    def reset(self) -> None:
        """Remove all entries and cut the file to length 0. For recovery only: there may be no other reader."""
        assert self.writable
        self._count = 0
        self.file.truncate(0)
        self._is_synced = False
        self._first_keys = array("q")
        self._last = self._before_first()

    def preallocate(self) -> None:
        """Extend the file to `bytes_max`, rounded down to whole entries, as Kafka does for the active segment."""
        assert self.writable
        # Sparse: allocated, the indexes of ten thousand partitions would take 200 GB (decision 2).
        self.file.truncate(max(self.count_max, self._count) * self.entry.size)

    def sync(self) -> None:
        """Sync the entries, unless all are known to be on disk.

        The length is synced with the entries: `preallocate` and `trim` change no entry.
        """
        # A sync of an unchanged file waits for the disk as well: three syncs for each flush took three times as long.
        if self._is_synced:
            return
        self._is_synced = True  # before the sync: an entry that is added meanwhile belongs to the next one
        try:
            self.file.sync()
        except BaseException:
            self._is_synced = False
            raise

    def trim(self) -> None:
        """Cut the file to its entries, as Kafka does for segments that are not active."""
        assert self.writable
        self.file.truncate(self._count * self.entry.size)

    def close(self) -> None:
        """Trim the file, if it is writable, and close it. A lost index costs a rebuild, but no records."""
        try:
            if self.writable:
                self.trim()
        finally:
            self.file.close()


def relative(offset: int, base_offset: int, path: str) -> int:
    """Return `offset` in the form of an entry; InvalidIndexAppend outside `[base, base + 2³¹)`."""
    if not 0 <= offset - base_offset <= I32_MAX:
        raise InvalidIndexAppend(f"not in [{base_offset}, {base_offset + I32_MAX}]", path=path, offset=offset)
    return offset - base_offset
