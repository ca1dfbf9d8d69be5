"""Reads blocks of archived logs from the block cache, each verified.

A block is verified when this process reads it first, and again if its file was replaced or changed. After that readers
take the bytes that they need from its file. A damaged block is removed from the cache.
"""

from __future__ import annotations

import threading

from crc32c import crc32c

from offsetfs.archive.block_cache import SHARE, BlockCache
from offsetfs.archive.log_bytes import LogBytes
from offsetfs.common.lru import Lru
from offsetfs.storage.errors import WouldBlock
from offsetfs.storage.files import File

OPEN_BLOCKS_MAX = 32
"""Files of the cache that are kept open. The disk space of a removed file is free when the file is closed."""

_VERIFIED_MAX = 1 << 16
"""Blocks of the cache that are remembered as verified, at most."""

_PIECE_BYTES = 256 << 10
"""Bytes of a cached block that are read and verified at a time: they stay in the cache of the processor in between."""


_FileState = tuple[int, int, int]
"""The inode, the size and the modification time of a file of the cache."""


def _state_of(file: File) -> _FileState | None:
    """Return the state of an open file; None if it has no name any more."""
    status = file.stat()
    return (status.st_ino, status.st_size, status.st_mtime_ns) if status.st_nlink else None


class CachedBlocks:
    """The blocks in a cache, of which this process remembers which are verified. Thread-safe."""

    def __init__(self, cache: BlockCache) -> None:
        self._cache = cache
        self._lock = threading.Lock()
        self._verified: Lru[_FileState] = Lru(_VERIFIED_MAX)
        self._open: Lru[File] = Lru(OPEN_BLOCKS_MAX)

    def begin_child(self) -> None:
        """Forget what threads of the parent were doing when this process was forked: they do not exist here."""
        self._lock = threading.Lock()
        self._cache.begin_child()

    def read_in_place(self, log: LogBytes, block: int, start: int, buffer: memoryview, *, nowait: bool) -> bool:
        """Fill `buffer` from byte `start` of a block on, from its file in the cache; False if it is not verified there.

        With `nowait`, False also if that needs the disk.
        """
        file = self.file_of(log, block, nowait=nowait)
        if file is None:
            return False
        try:
            return file.read_into(buffer, start, nowait=nowait) == len(buffer)
        except WouldBlock:
            return False
        except OSError:
            self._forget(log.identity(block))
            return False

    def file_of(self, log: LogBytes, block: int, *, nowait: bool) -> File | None:
        """Return the open file of a block, whose content was verified in its present state.

        Without `nowait` it is verified here if this process has not done so.
        """
        key = log.identity(block)
        with self._lock:
            state, file = self._verified.get(key), self._open.get(key)
        if nowait and (file is None or state is None):
            return None
        if state is None:
            return self._verified_file(log, block)
        try:
            is_reopened = file is None
            if file is None:
                file = self._cache.opened(BlockCache.name(*key))
            if is_reopened and file is not None and _state_of(file) != state:
                return self._verified_file(log, block)  # to mark it as used changes its time, too
            if file is None or _state_of(file) != state:
                self._forget(key)
                return None
        except OSError:
            self._forget(key)
            return None
        return self._kept_open(log, key, file)

    def _kept_open(self, log: LogBytes, key: tuple[object, ...], file: File) -> File:
        # Few of a small cache: a file that another process removes takes space until it is closed.
        open_max = max(1, min(OPEN_BLOCKS_MAX, self._cache.size_max // SHARE // log.block_bytes))
        with self._lock:
            self._open.size_max = open_max
            self._open.put(key, file)  # of one that is evicted, the last reader that has it closes it
        return file

    def _verified_file(self, log: LogBytes, block: int) -> File | None:
        """Verify a block of the cache, and return its open file; None if it is not there, or damaged.

        It is read in small pieces into memory that is used again: a new buffer of the size of a block costs several
        times what the checksum does.
        """
        key, (low, high) = log.identity(block), log.range_of(block)
        name = BlockCache.name(*key)
        file = self._cache.opened(name)
        if file is None:
            return None
        try:
            state, checksum, piece = _state_of(file), 0, _piece()
            for position in range(0, high - low, len(piece)):
                wanted = piece[: min(len(piece), high - low - position)]
                checksum = crc32c(wanted[: file.read_into(wanted, position)], checksum)
            is_sound = checksum == log.checksums[block] and file.size() == high - low
        except OSError as error:
            self._cache.failed(error)
            return None
        if not is_sound:
            self._cache.discard(name)
            return None
        if state is None:  # another process has removed it
            return None
        self._note_verified(key, state)
        return self._kept_open(log, key, file)

    def is_open(self, log: LogBytes, block: int) -> bool:
        """Whether a block was verified, and its file is open."""
        key = log.identity(block)
        with self._lock:
            return key in self._verified and key in self._open

    def _forget(self, key: tuple[object, ...]) -> None:
        with self._lock:
            self._verified.drop(key)
            self._open.drop(key)

    def read(self, log: LogBytes, run: list[int]) -> dict[int, bytes]:
        """Return the blocks of `run` that the cache has and whose content is correct."""
        contents: dict[int, bytes] = {}
        for block in run:
            key = log.identity(block)
            name = BlockCache.name(*key)
            file = self._cache.opened(name)
            if file is None:
                continue
            try:
                state, (low, high) = _state_of(file), log.range_of(block)
                data = bytes(file.read(0, high - low + 1))
            except OSError as error:
                self._cache.failed(error)
                continue
            finally:
                file.close()
            if log.is_sound(block, data):
                contents[block] = data
                self._note_verified(key, state)
            else:
                self._cache.discard(name)
        return contents

    def _note_verified(self, key: tuple[object, ...], state: _FileState | None) -> None:
        if state is None:
            return
        with self._lock:
            self._verified.put(key, state)

    def is_verified(self, log: LogBytes, block: int) -> bool:
        """Whether this process has verified a block."""
        with self._lock:
            return log.identity(block) in self._verified

    def has(self, log: LogBytes, block: int) -> bool:
        """Whether the cache has a block, verified or not."""
        return self._cache.has(BlockCache.name(*log.identity(block)))

    def store(self, log: LogBytes, data: dict[int, bytes]) -> None:
        """Store verified blocks in the cache."""
        for block, content in data.items():
            self._cache.put(BlockCache.name(*log.identity(block)), content)


_pieces = threading.local()


def _piece() -> memoryview:
    """Return memory of this thread for a piece of a block."""
    piece: memoryview | None = getattr(_pieces, "memory", None)
    if piece is None:
        piece = _pieces.memory = memoryview(bytearray(_PIECE_BYTES))
    return piece
