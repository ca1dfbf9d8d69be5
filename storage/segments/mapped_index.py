"""A file of fixed-size entries: written with pwrite, read through a read-only map.

What the offset index and the time index have in common: no header, no checksum, entries one after the other, possibly
followed by zeros, because Kafka makes the index of the active segment as long as it may become (sparse) and cuts it
to its entries when the segment is rolled or closed. Follows Kafka's `AbstractIndex`, with three roads not taken:

*   Kafka stores through its map. A store into a hole of a full disk is SIGBUS, not an error, so entries are written
    with pwrite here, and ENOSPC reaches the caller.
*   Kafka takes every slot of an existing file for an entry. Here the zeros at the end are not counted, so a file that
    a crash left long, or that a running broker is filling, reads right.
*   Kafka searches a "warm section" at the end first, to touch fewer pages. The answers are the same, so it is left out.

Threads: one writer, any number of readers. `append` moves `count` after the entry is in the file. A read-only opener
may look at a file that another process fills: it asks for the length at each lookup. An entry is read through the map
only when it is known to lie inside the file, for beyond its end a map answers with SIGBUS; the search for the end of
the entries, which probes what another process may be cutting off, therefore uses pread.

Costs: one descriptor, and one more while it is mapped (Python's map keeps a duplicate of its own).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from struct import Struct

from offsetfs.storage import files
from offsetfs.storage.errors import CorruptIndex, InvalidIndexAppend
from offsetfs.storage.segments.open_files import Pool
from offsetfs.storage.units import I32_MAX

View = files.Map | bytes

_SECOND_FIELD_SIZE = 4  # a position, or a relative offset

MAPS_MAX = 48
"""How many indexes are mapped at a time, in the whole process. A mapped index of 2 MB soon counts 0.6 MB of resident
memory; mapping it again costs ten microseconds, opening its file anew ten times as much."""

_maps: Pool[View] = Pool(MAPS_MAX)


class MappedIndex:
    """The entries of one index file. What they mean is the owner's business."""

    __slots__ = ("_count", "_key", "_length", "bytes_max", "entry", "file", "followed", "writable")

    def __init__(self, file: files.File, entry: Struct, *, bytes_max: int, writable: bool, followed: bool) -> None:
        self._key = object()
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

    def __del__(self) -> None:
        # Whoever lets go of an index lets go of its file: a map left in the pool would keep the file system busy.
        _maps.drop(self._key)

    @classmethod
    def open(
        cls, path: str, entry: Struct, *, bytes_max: int, writable: bool, followed: bool, create: bool
    ) -> MappedIndex:
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

    def view(self) -> tuple[View, int]:
        """Return bytes to look in and the number of entries in them, which belong together for one lookup.

        The bytes stay mapped as long as the caller holds them, whatever is mapped anew meanwhile.
        """
        count = self._count if self.writable else self._refresh()
        if not count:
            return b"", 0
        view = _maps.get(self._key, self._map_file)
        if len(view) < count * self.entry.size:
            _maps.drop(self._key)
            view = _maps.get(self._key, self._map_file)
        return view, min(count, len(view) // self.entry.size)

    def entries(self) -> Iterator[tuple[int, ...]]:
        """Yield the fields of every entry there is now, as they stand in the file."""
        view, count = self.view()
        return self.entry.iter_unpack(memoryview(view)[: count * self.entry.size])

    def ends(self) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Return the fields of the first and of the last entry, None when there are none. Maps nothing."""
        count, size = self.count, self.entry.size
        if not count:
            return None
        first, last = self.file.read(0, size), self.file.read((count - 1) * size, size)
        if len(last) < size:  # cut since it was counted
            return None
        return self.entry.unpack(first), self.entry.unpack(last)

    def _refresh(self) -> int:
        """Look how far somebody has written: two or three preads, but not in a file that we alone write and filled."""
        length = self.file.size()
        if length != self._length or self.followed or self._count * self.entry.size != length:
            view = _maps.peek(self._key)
            if view is not None and len(view) > length:
                _maps.drop(self._key)  # the file was cut: the end of the old map would be SIGBUS
            self._count = self._find_count(length // self.entry.size, self._count)
            self._length = length
        return self._count

    def _map_file(self) -> View:
        try:
            return self.file.map(min(self.file.size(), I32_MAX))  # all of it, so that a preallocated one is mapped once
        except ValueError:  # cut to nothing since its length was asked: what an empty index answers is still right
            return b""

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

    def reset(self) -> None:
        """Drop all entries and cut the file to nothing. Nobody else may be looking: for recovery."""
        assert self.writable
        self._count = 0
        _maps.drop(self._key)
        self.file.truncate(0)

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
        """Trim, when writable, and close. Lookups that still run keep their map."""
        try:
            if self.writable:
                self.trim()
        finally:
            _maps.drop(self._key)
            self.file.close()


def relative(offset: int, base_offset: int, path: str) -> int:
    """Return `offset` as an entry stores it; InvalidIndexAppend outside `[base, base + 2³¹)`."""
    if not 0 <= offset - base_offset <= I32_MAX:
        raise InvalidIndexAppend(f"not in [{base_offset}, {base_offset + I32_MAX}]", path=path, offset=offset)
    return offset - base_offset
