"""Fetches blocks of archived logs: each once at a time, verified, ahead of sequential readers.

    memory (a few blocks, verified)  →  BlockCache (a directory)  →  object storage (ranged reads)

A block of the cache is verified when this process reads it first, and again if its file was replaced or changed: in
place, by threads ahead of a sequential reader. After that readers take the bytes that they need from its file.

A block that two readers need at once is fetched once. Blocks ahead of a reader are fetched by a few threads, several
blocks with one request; a block that a reader waits for is fetched in its own thread.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import threading
import time
import weakref
from array import array
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field

from crc32c import crc32c

from offsetfs.archive.block_cache import SHARE, BlockCache
from offsetfs.archive.manifest import ArchivedObject
from offsetfs.archive.object_store import ObjectStore
from offsetfs.archive.worker_threads import WorkerThreads
from offsetfs.common.lru import Lru
from offsetfs.storage.errors import WouldBlock
from offsetfs.storage.files import File

MEMORY_BYTES_MAX = 64 << 20
"""The verified blocks that stay in memory, of all logs of an archive."""

REQUEST_BYTES_MAX = 4 << 20
"""The largest range of one request."""

REQUESTS_AHEAD = 6
"""How many requests for blocks ahead of readers are in flight."""

OPEN_BLOCKS_MAX = 32
"""How many files of the cache are kept open. The disk space of one that is removed is free when it is closed."""

_VERIFIED_MAX = 1 << 16
"""How many blocks of the cache are known to be verified."""

_IDENTITIES_MAX = 256
"""How many identities of blocks of a log are remembered: a reader asks several times for each, also ahead of it."""

_PIECE_BYTES = 256 << 10
"""What is read and verified of a block of the cache at a time: it stays in the cache of the processor in between."""

_ATTEMPTS = 2
"""How often a block whose bytes do not match its checksum is fetched."""


class DamagedBlock(OSError):
    """Bytes of an object that do not match their checksum, or an object that is missing; `position` is in the log."""

    def __init__(self, reason: str, url: str, position: int, size: int) -> None:
        super().__init__(errno.EIO, reason, url)
        self.position = position
        self.size = size


@dataclass(frozen=True, slots=True)
class LogBytes:
    """The bytes of an archived log file: where they are, and the checksums of their blocks."""

    parts: tuple[ArchivedObject, ...]
    size: int
    block_bytes: int
    checksums: array[int]
    _identities: dict[int, tuple[object, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def count(self) -> int:
        """The number of blocks."""
        return -(-self.size // self.block_bytes)

    def range_of(self, block: int) -> tuple[int, int]:
        """Return the bytes [start, stop) of a block."""
        return block * self.block_bytes, min(self.size, (block + 1) * self.block_bytes)

    def pieces(self, start: int, stop: int) -> Iterator[tuple[ArchivedObject, int, int]]:
        """Yield the parts of the bytes [start, stop), with the range in each."""
        position = 0
        for part in self.parts:
            low, high = max(start, position), min(stop, position + part.size)
            if low < high:
                yield part, low - position, high - position
            position += part.size

    def identity(self, block: int) -> tuple[object, ...]:
        """Return what the content of a block depends on: hashes of the parts, and the ranges in them."""
        found = self._identities.get(block)
        if found is None:
            found = tuple((part.sha256, low, high) for part, low, high in self.pieces(*self.range_of(block)))
            if len(self._identities) >= _IDENTITIES_MAX:
                self._identities.clear()
            self._identities[block] = found
        return found


_FileState = tuple[int, int, int]
"""The inode, the size and the modification time of a file of the cache."""


def _state_of(file: File) -> _FileState | None:
    """Return the state of an open file; None if it has no name any more."""
    status = file.stat()
    return (status.st_ino, status.st_size, status.st_mtime_ns) if status.st_nlink else None


class BlockFetcher:
    """The blocks of the logs of one archive. Thread-safe; of one process (`ObjectStore.is_of_this_process`)."""

    def __init__(self, store: Callable[[], ObjectStore], cache: BlockCache | None) -> None:
        """`cache` None: blocks are kept in memory only."""
        self._store = store
        self.cache = cache
        self._lock = threading.Lock()
        self._memory: Lru[bytes] = Lru(MEMORY_BYTES_MAX, keeps_newest=True)
        self._in_flight: dict[tuple[object, ...], Future[bytes]] = {}
        self._threads = WorkerThreads(REQUESTS_AHEAD)
        self._verified: Lru[_FileState] = Lru(_VERIFIED_MAX)
        self._open: Lru[File] = Lru(OPEN_BLOCKS_MAX)
        self._verifying: set[tuple[object, ...]] = set()
        _fetchers.add(self)

    def begin_child(self) -> None:
        """Forget what threads of the parent were doing when this process was forked: they do not exist here."""
        self._lock = threading.Lock()
        self._in_flight = {}
        self._verifying = set()
        self._threads = WorkerThreads(REQUESTS_AHEAD)
        if self.cache is not None:
            self.cache.begin_child()

    # --- blocks ------------------------------------------------------------------------------------------------------

    def in_memory(self, log: LogBytes, block: int) -> bytes | None:
        """Return a block if that needs neither disk nor network."""
        return self._remembered(log.identity(block))

    def _remembered(self, key: tuple[object, ...]) -> bytes | None:
        with self._lock:
            return self._memory.get(key)

    def read_in_place(self, log: LogBytes, block: int, start: int, buffer: memoryview, *, nowait: bool) -> bool:
        """Fill `buffer` from byte `start` of a block on, from its file in the cache; False if it is not verified there.

        With `nowait`, False also if that needs the disk.
        """
        file = self._file_of(log, block, nowait=nowait)
        if file is None:
            return False
        try:
            return file.read_into(buffer, start, nowait=nowait) == len(buffer)
        except WouldBlock:
            return False
        except OSError:
            self._forget(log.identity(block))
            return False

    def _file_of(self, log: LogBytes, block: int, *, nowait: bool) -> File | None:
        """Return the open file of a block, whose content was verified in its present state.

        Without `nowait` it is verified here if this process has not done so.
        """
        key = log.identity(block)
        with self._lock:
            state, file = self._verified.get(key), self._open.get(key)
        if self.cache is None or (nowait and (file is None or state is None)):
            return None
        if state is None:
            return self._verified_file(log, block)
        try:
            is_reopened = file is None
            if file is None:
                file = self.cache.opened(BlockCache.name(*key))
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
        assert self.cache is not None
        # Few of a small cache: a file that another process removes takes space until it is closed.
        open_max = max(1, min(OPEN_BLOCKS_MAX, self.cache.size_max // SHARE // log.block_bytes))
        with self._lock:
            self._open.size_max = open_max
            self._open.put(key, file)  # of one that is evicted, the last reader that has it closes it
        return file

    def _verified_file(self, log: LogBytes, block: int) -> File | None:
        """Verify a block of the cache, and return its open file; None if it is not there, or damaged.

        It is read in small pieces into memory that is used again: a new buffer of the size of a block costs several
        times what the checksum does.
        """
        assert self.cache is not None
        key, (low, high) = log.identity(block), log.range_of(block)
        name = BlockCache.name(*key)
        file = self.cache.opened(name)
        if file is None:
            return None
        try:
            state, checksum, piece = _state_of(file), 0, _piece()
            for position in range(0, high - low, len(piece)):
                wanted = piece[: min(len(piece), high - low - position)]
                checksum = crc32c(wanted[: file.read_into(wanted, position)], checksum)
            is_sound = checksum == log.checksums[block] and file.size() == high - low
        except OSError as error:
            self.cache.failed(error)
            return None
        if not is_sound:
            self.cache.discard(name)
            return None
        if state is None:  # another process has removed it
            return None
        self._note_verified(key, state)
        return self._kept_open(log, key, file)

    def _verify_ahead(self, log: LogBytes, block: int) -> None:
        try:
            self._file_of(log, block, nowait=False)
        finally:
            with self._lock:
                self._verifying.discard(log.identity(block))

    def _is_open(self, log: LogBytes, block: int) -> bool:
        """Whether a block was verified, and its file is open."""
        key = log.identity(block)
        with self._lock:
            return key in self._verified and key in self._open

    def _forget(self, key: tuple[object, ...]) -> None:
        with self._lock:
            self._verified.drop(key)
            self._open.drop(key)

    def blocks(self, log: LogBytes, first: int, last: int) -> dict[int, bytes]:
        """Return the blocks `first` to `last`, verified. Missing ones are fetched in this thread, or awaited.

        `DamagedBlock`, and OSError as `ObjectStore.read`.
        """
        found, mine, awaited = {}, [], {}
        for block in range(first, last + 1):
            claimed = self._claimed(log, block)
            if isinstance(claimed, bytes):
                found[block] = claimed
            elif claimed is None:
                mine.append(block)
            else:
                awaited[block] = claimed
        runs = list(_runs(mine, max(1, REQUEST_BYTES_MAX // log.block_bytes)))
        while runs:
            run = runs.pop(0)
            try:
                found.update(zip(run, self._fetch(log, run), strict=True))
            except BaseException as error:
                for each in runs:
                    self._end(log, each, [], error)
                raise
        deadline = time.monotonic() + self._store().settings.timeout_s
        for block, future in awaited.items():
            found[block] = self._awaited(log, block, future, deadline)
        return found

    def _awaited(self, log: LogBytes, block: int, future: Future[bytes], deadline: float) -> bytes:
        """Return a block that another thread fetches; it may wait for other requests before it begins.

        If that fails, the block is requested once more: the other request may be from before a fault ended. The error
        is that of the second request, which began after this reader asked.
        """
        error = self._error_of(future, deadline)
        if error is None:
            return future.result()
        claimed = self._claimed(log, block)
        if claimed is None:
            # In another thread, because this one must not wait beyond the deadline.
            claimed = self._in_flight_of(log, block)
            if not self._threads.submit(functools.partial(self._fetch_ahead, log, [block])):
                self._end(log, [block], [], OSError(errno.EIO, "the process ends", self._store().url))
        if not isinstance(claimed, Future):
            return claimed
        error = self._error_of(claimed, deadline)
        if isinstance(error, OSError):
            raise error
        if error is not None:  # what ended another thread is no error of this one
            raise OSError(errno.EIO, f"the request ended with {type(error).__name__}", self._store().url) from error
        return claimed.result()

    def _error_of(self, future: Future[bytes], deadline: float) -> BaseException | None:
        """Wait for a request, and return its error. OSError EIO if it has no answer at the deadline."""
        try:
            return future.exception(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            store = self._store()
            reason = f"no successful answer within {store.settings.timeout_s:g} s"
            raise OSError(errno.EIO, reason, store.url) from None

    def _in_flight_of(self, log: LogBytes, block: int) -> Future[bytes]:
        """Return the future of a block that this thread has claimed."""
        with self._lock:
            return self._in_flight[log.identity(block)]

    def _claimed(self, log: LogBytes, block: int) -> bytes | Future[bytes] | None:
        """Return a block, the future of one that another thread fetches, or None: the caller has to fetch it."""
        key = log.identity(block)
        with self._lock:
            data = self._memory.get(key)
            if data is not None:
                return data
            if (future := self._in_flight.get(key)) is not None:
                return future
            self._in_flight[key] = Future()
            return None

    def begin(self, log: LogBytes, first: int, last: int, *, in_place: bool = False) -> None:
        """Begin to fetch the blocks `first` to `last` that are not in memory. Does not wait; reports no errors.

        With `in_place`, blocks that the cache has are verified by threads, and opened.
        """
        blocks = []
        for block in range(first, min(last, log.count - 1) + 1):
            if in_place and self._begin_in_place(log, block):
                continue
            if self._claimed(log, block) is None:
                blocks.append(block)
        for run in _runs(blocks, max(1, REQUEST_BYTES_MAX // log.block_bytes)):
            if not self._threads.submit(functools.partial(self._fetch_ahead, log, run)):
                self._end(log, run, [], OSError(errno.EIO, "the process ends", self._store().url))

    def _begin_in_place(self, log: LogBytes, block: int) -> bool:
        """Begin to verify a block ahead of a reader; False if the cache does not have it."""
        if self.cache is None:
            return False
        # One that is open was looked at when it was ahead of the last block, and will be when it is read.
        if self._is_open(log, block):
            return True
        key = log.identity(block)
        with self._lock:
            if key in self._verifying:
                return True
            if key in self._memory or key in self._in_flight:
                return False
            is_verified = key in self._verified
        if is_verified:  # to open it takes less than to hand that over
            return self._file_of(log, block, nowait=False) is not None
        if not self.cache.has(BlockCache.name(*key)):
            return False
        with self._lock:
            self._verifying.add(key)
        if not self._threads.submit(functools.partial(self._verify_ahead, log, block)):
            with self._lock:
                self._verifying.discard(key)
        return True

    def begin_in_thread(self, log: LogBytes, first: int, last: int) -> None:
        """`begin` with `in_place`, for a caller that must not wait for the disk either."""
        self._threads.submit(functools.partial(self.begin, log, first, last, in_place=True))

    def _fetch_ahead(self, log: LogBytes, run: list[int]) -> None:
        # The futures have the error; a reader that gets there afterwards fetches the block again.
        with contextlib.suppress(OSError):
            self._fetch(log, run)

    # --- fetching ----------------------------------------------------------------------------------------------------

    def _fetch(self, log: LogBytes, run: list[int]) -> list[bytes]:
        """Return contiguous blocks that this thread has claimed."""
        fetched: dict[int, bytes] = {}
        try:
            found = self._from_disk(log, run)
            missing = [block for block in run if block not in found]
            for each in _runs(missing, len(run)):
                fetched.update(self._from_store(log, each))
            found.update(fetched)
        except DamagedBlock as error:
            if len(run) == 1:
                self._end(log, run, [], error)
                raise
            return self._fetch_singly(log, run)
        except BaseException as error:
            self._end(log, run, [], error)
            raise
        data = [found[block] for block in run]
        self._end(log, run, data, None)
        self._store_on_disk(log, fetched)  # after the readers that wait for the blocks have them
        return data

    def _fetch_singly(self, log: LogBytes, run: list[int]) -> list[bytes]:
        """Fetch blocks one by one, so that readers of the sound ones among them get theirs; raise the first error."""
        data, errors = [], []
        for block in run:
            try:
                data += self._fetch(log, [block])
            except OSError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return data

    def _end(self, log: LogBytes, run: list[int], data: list[bytes], error: BaseException | None) -> None:
        with self._lock:
            futures = [self._in_flight.pop(log.identity(block)) for block in run]
            for block, each in zip(run, data, strict=False):
                self._memory.put(log.identity(block), each, len(each))
        for number, future in enumerate(futures):
            if error is None:
                future.set_result(data[number])
            else:
                future.set_exception(error)

    def _from_disk(self, log: LogBytes, run: list[int]) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        if self.cache is None:
            return found
        for block in run:
            key = log.identity(block)
            name = BlockCache.name(*key)
            file = self.cache.opened(name)
            if file is None:
                continue
            try:
                state, (low, high) = _state_of(file), log.range_of(block)
                data = bytes(file.read(0, high - low + 1))
            except OSError as error:
                self.cache.failed(error)
                continue
            finally:
                file.close()
            if _is_sound(log, block, data):
                found[block] = data
                self._note_verified(key, state)
            else:
                self.cache.discard(name)
        return found

    def _note_verified(self, key: tuple[object, ...], state: _FileState | None) -> None:
        if state is None:
            return
        with self._lock:
            self._verified.put(key, state)

    def _from_store(self, log: LogBytes, run: list[int]) -> dict[int, bytes]:
        """Fetch contiguous blocks with one request for each part that they are in; a damaged one once more."""
        start, stop = log.range_of(run[0])[0], log.range_of(run[-1])[1]
        data = self._read(log, start, stop)
        found = {}
        for block in run:
            low, high = log.range_of(block)
            each = data[low - start : high - start]
            for _ in range(_ATTEMPTS - 1):
                if not _is_sound(log, block, each):
                    each = self._read(log, low, high)
            if not _is_sound(log, block, each):
                part = next(log.pieces(low, high))[0]
                reason = "the object is damaged: its bytes do not match their checksum"
                raise DamagedBlock(reason, self._url(part), low, high - low)
            found[block] = each
        return found

    def _store_on_disk(self, log: LogBytes, data: dict[int, bytes]) -> None:
        for block, each in data.items():
            if self.cache is not None:
                self.cache.put(BlockCache.name(*log.identity(block)), each)

    def _read(self, log: LogBytes, start: int, stop: int) -> bytes:
        found = []
        for part, low, high in log.pieces(start, stop):
            try:
                found.append(self._store().read(part.key, low, high))
            except FileNotFoundError as error:
                raise DamagedBlock("the object is missing", self._url(part), start, stop - start) from error
        return found[0] if len(found) == 1 else b"".join(found)

    def _url(self, part: ArchivedObject) -> str:
        return f"{self._store().url}/{part.key}"


_pieces = threading.local()


def _piece() -> memoryview:
    """Return memory of this thread for a piece of a block."""
    found: memoryview | None = getattr(_pieces, "memory", None)
    if found is None:
        found = _pieces.memory = memoryview(bytearray(_PIECE_BYTES))
    return found


def _is_sound(log: LogBytes, block: int, data: bytes) -> bool:
    low, high = log.range_of(block)
    return len(data) == high - low and crc32c(data) == log.checksums[block]


def _runs(blocks: list[int], count_max: int) -> Iterator[list[int]]:
    """Yield the contiguous runs of rising numbers, each of at most `count_max`."""
    run: list[int] = []
    for block in blocks:
        if run and (block != run[-1] + 1 or len(run) == count_max):
            yield run
            run = []
        run.append(block)
    if run:
        yield run


_fetchers: weakref.WeakSet[BlockFetcher] = weakref.WeakSet()


def _begin_child() -> None:
    for fetcher in _fetchers:
        fetcher.begin_child()


os.register_at_fork(after_in_child=_begin_child)
