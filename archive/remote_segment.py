"""A segment of an archive, as its readers see it: the files of its name, in the state of the newest manifest."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import threading
from array import array
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

from offsetfs.archive.block_cache import BlockCache
from offsetfs.archive.block_fetcher import BlockFetcher, DamagedBlock
from offsetfs.archive.log_bytes import LogBytes
from offsetfs.archive.manifest import ArchivedSegment, PartitionManifest, SideObject
from offsetfs.archive.object_store import ObjectStore
from offsetfs.archive.remote_file import BytesFile, ReadOnlyFile, RemoteLogFile
from offsetfs.common.lru import Lru
from offsetfs.storage.errors import WouldBlock
from offsetfs.storage.segments import OFFSET_ENTRY

SIDES_BYTES_MAX = 64 << 20
"""The indexes of segments that stay in memory, of all logs of an archive."""

_NEXT_OFFSET_BYTES = 8  # of the batch behind, with which a look-up compares that of its own
_MODE = stat.S_IFREG | 0o440


def file_status(inode: int, size: int, modified_ns: int, *, is_directory: bool = False) -> os.stat_result:
    """Return the attributes of a name of an archive, readable by its owner."""
    mode, seconds = stat.S_IFDIR | 0o550 if is_directory else _MODE, modified_ns // 10**9
    fields = (mode, inode, 0, 1, os.geteuid(), os.getegid(), size, seconds, seconds, seconds)
    blocks = -(-size // 512)
    exact = {"st_atime_ns": modified_ns, "st_mtime_ns": modified_ns, "st_ctime_ns": modified_ns, "st_blocks": blocks}
    return os.stat_result(fields, exact)


def inode_of(*identity: object) -> int:
    """Return the inode number of what `identity` describes, from 1 on."""
    digest = hashlib.sha256("|".join(map(str, identity)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1 or 1


class SideObjects:
    """The side objects of one archive: from memory, the cache, or the archive. Verified. Thread-safe."""

    def __init__(self, store: Callable[[], ObjectStore], cache: BlockCache | None) -> None:
        self._store = store
        self._cache = cache
        self._lock = threading.Lock()
        self._memory: Lru[bytes] = Lru(SIDES_BYTES_MAX, keeps_newest=True)  # by SHA-256

    def in_memory(self, side: SideObject) -> bytes | None:
        """Return a side object if that needs neither disk nor network."""
        with self._lock:
            return self._memory.get(side.stored.sha256)

    def get(self, side: SideObject) -> bytes:
        """Return a side object. FileNotFoundError if it is missing, EIO if it is damaged, both with its URL."""
        data = self.in_memory(side)
        if data is None:
            data = self._fetched(side)
            with self._lock:
                self._memory.put(side.stored.sha256, data, len(data))
        return data

    def _fetched(self, side: SideObject) -> bytes:
        stored = side.stored
        name = BlockCache.name("side", stored.sha256)
        data = None if self._cache is None else self._cache.get(name)
        if data is not None and hashlib.sha256(data).hexdigest() == stored.sha256:
            return data
        data = self._store().read_whole(stored.key, stored.size, stored.sha256)
        if self._cache is not None:
            self._cache.put(name, data)
        return data


@dataclass(frozen=True, slots=True)
class _State:
    archived: ArchivedSegment
    block_bytes: int


class RemoteSegment:
    """One segment: its files have one inode number as long as its bytes only grow."""

    def __init__(self, manifest: PartitionManifest, archived: ArchivedSegment, generation: int = 0) -> None:
        """`generation`: rises where other bytes take the place of the segment."""
        self._state = _State(archived, manifest.block_bytes)
        self.generation = generation
        first = archived.parts[0].key if archived.parts else ""
        self.inode = inode_of(manifest.topic_id, archived.base_offset, first, archived.source.inode, generation)

    @property
    def archived(self) -> ArchivedSegment:
        """The segment in the newest manifest that has it with the same beginning."""
        return self._state.archived

    def is_continued_by(self, archived: ArchivedSegment) -> bool:
        """Whether another state of the segment begins with the bytes of this one."""
        parts = self.archived.parts
        return archived.parts[: len(parts)] == parts and bool(parts) and archived.size >= self.archived.size

    def grow(self, manifest: PartitionManifest, archived: ArchivedSegment) -> None:
        """Show a state that continues this one."""
        self._state = _State(archived, manifest.block_bytes)

    def suffixes(self) -> list[str]:
        """Return the suffixes of the files that the segment has."""
        side = self.archived.side
        # The indexes are listed also when they are empty: otherwise a reader would rebuild them from the whole log.
        optional = [(".txnindex", side.transaction_index), (".snapshot", side.snapshot)]
        return [".log", ".index", ".timeindex", *(suffix for suffix, size in optional if size)]

    def status(self, suffix: str) -> os.stat_result:
        """Return the attributes of a file."""
        archived = self.archived
        if suffix == ".log":
            size, inode = archived.size, self.inode
        else:
            start, stop = archived.side.sections()[suffix]
            size, inode = stop - start, inode_of(self.inode, suffix)
        return file_status(inode, size, archived.modified_ms * 1_000_000)

    def open_file(
        self,
        path: str,
        suffix: str,
        sides: SideObjects,
        fetcher: BlockFetcher,
        explained: Callable[[RemoteSegment, OSError], OSError],
    ) -> ReadOnlyFile:
        """Return a file of the segment. `explained` returns the error for readers where an object cannot be read."""

        made: tuple[_State, LogBytes] | None = None

        def log(nowait: bool) -> LogBytes:
            nonlocal made
            state, last = self._state, made
            if last is not None and last[0] is state:
                return last[1]
            side = state.archived.side
            data = sides.in_memory(side)
            if data is None and nowait:
                raise WouldBlock("not in memory", path=path, position=0)
            data = loaded(side) if data is None else data
            start, stop = side.sections()["crc"]
            log = LogBytes(state.archived.parts, state.archived.size, state.block_bytes, checksums(data[start:stop]))
            made = state, log
            return log

        def loaded(side: SideObject) -> bytes:
            try:
                return sides.get(side)
            except OSError as error:
                raise explained(self, error) from error

        def section() -> bytes:
            side = self.archived.side
            start, stop = side.sections()[suffix]
            return loaded(side)[start:stop]

        def looked_up(position: int) -> tuple[int, int]:
            return self.looked_up(sides, position)

        def damaged(error: DamagedBlock) -> OSError:
            return explained(self, error)

        if suffix == ".log":
            return RemoteLogFile(path, lambda: self.status(suffix), log, fetcher, damaged, looked_up)
        return BytesFile(path, lambda: self.status(suffix), section)

    def offsets_at(self, sides: SideObjects, position: int, size: int) -> tuple[int, int]:
        """Return the offsets [first, stop) whose batches may reach into a range of bytes of the log."""
        archived = self.archived
        index = self._index(sides)
        if index is None:
            return archived.base_offset, archived.end
        # An entry has the last offset of the batch at its position.
        after = index.first_at(position + size)
        before = index.first_at(position + 1) - 1
        first = archived.base_offset + (index.offset(before - 1) + 1 if before > 0 else 0)
        stop = archived.base_offset + index.offset(after) if after < index.count else archived.end
        return first, max(first, stop)

    def looked_up(self, sides: SideObjects, position: int) -> tuple[int, int]:
        """Return the bytes [start, stop) that the look-up of an offset reads which begins at `position`.

        It begins at one of the two entries of the offset index around its offset, and ends before the entry behind
        them. The batch before the first entry has none: a look-up in it begins there, too, and goes back.
        """
        index = self._index(sides)
        if index is None:
            return position, position
        number = index.first_at(position)
        behind = number + 2
        stop = index.position(behind) + _NEXT_OFFSET_BYTES if behind < index.count else self.archived.size
        return position if number else 0, stop

    def _index(self, sides: SideObjects) -> _OffsetIndex | None:
        """Return the offset index of the newest state; None if that needs the disk or the network."""
        side = self.archived.side
        data = sides.in_memory(side)
        if data is None:
            return None
        low, high = side.sections()[".index"]
        return _OffsetIndex(memoryview(data)[low:high])


@dataclass(frozen=True, slots=True)
class _OffsetIndex:
    """The entries of an offset index: relative offset and position."""

    entries: memoryview

    @property
    def count(self) -> int:
        return len(self.entries) // OFFSET_ENTRY.size

    def offset(self, number: int) -> int:
        return self._entry(number)[0]

    def position(self, number: int) -> int:
        return self._entry(number)[1]

    def first_at(self, position: int) -> int:
        """Return the number of the first entry at `position` or behind it; the number of entries if there is none."""
        return bisect_left(range(self.count), position, key=self.position)

    def _entry(self, number: int) -> tuple[int, int]:
        offset, position = OFFSET_ENTRY.unpack_from(self.entries, number * OFFSET_ENTRY.size)
        return offset, position


def checksums(data: bytes) -> array[int]:
    """Return the checksums of blocks, from their section of a side object."""
    values = array("I")
    values.frombytes(data)
    if sys.byteorder == "big":
        values.byteswap()
    return values
