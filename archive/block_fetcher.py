"""Fetches blocks of archived logs: each once at a time, verified, ahead of sequential readers.

    memory (a few blocks, verified)  →  CachedBlocks (a directory)  →  object storage (ranged reads)

Blocks of the cache (`cached_blocks`) are verified in place, by threads ahead of a sequential reader.

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
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from offsetfs.archive.block_cache import BlockCache
from offsetfs.archive.cached_blocks import CachedBlocks
from offsetfs.archive.log_bytes import LogBytes
from offsetfs.archive.manifest import ArchivedObject
from offsetfs.archive.object_store import ObjectStore
from offsetfs.common.lru import Lru


class WorkerThreads:
    """At most `count` threads. A task returns nothing and must not raise."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._pid = -1

    def submit(self, task: Callable[[], None]) -> bool:
        """Run a task in a thread, now or when one is free; False if the process ends and takes none."""
        with self._lock:
            if self._pool is None or self._pid != os.getpid():
                self._pool, self._pid = ThreadPoolExecutor(self._count, "archive"), os.getpid()
            try:
                self._pool.submit(task)
            except RuntimeError:
                return False
        return True


MEMORY_BYTES_MAX = 64 << 20
"""The verified blocks that stay in memory, of all logs of an archive."""

REQUEST_BYTES_MAX = 4 << 20
"""The largest range of one request."""

REQUESTS_AHEAD = 6
"""Requests for blocks ahead of readers in flight, at most."""

_ATTEMPTS = 2
"""The number of fetches of a block whose bytes do not match its checksum."""


class DamagedBlock(OSError):
    """Bytes of an object that do not match their checksum, or an object that is missing; `position` is in the log."""

    def __init__(self, reason: str, url: str, position: int, size: int) -> None:
        super().__init__(errno.EIO, reason, url)
        self.position = position
        self.size = size


class BlockFetcher:
    """The blocks of the logs of one archive. Thread-safe; of one process (`ObjectStore.is_of_this_process`)."""

    def __init__(self, store: Callable[[], ObjectStore], cache: BlockCache | None) -> None:
        """`cache` None: blocks are kept in memory only."""
        self._store = store
        self.cached = None if cache is None else CachedBlocks(cache)
        self._lock = threading.Lock()
        self._memory: Lru[bytes] = Lru(MEMORY_BYTES_MAX, keeps_newest=True)
        self._in_flight: dict[tuple[object, ...], Future[bytes]] = {}
        self._threads = WorkerThreads(REQUESTS_AHEAD)
        self._verifying: set[tuple[object, ...]] = set()
        _fetchers.add(self)

    def begin_child(self) -> None:
        """Forget what threads of the parent were doing when this process was forked: they do not exist here."""
        self._lock = threading.Lock()
        self._in_flight = {}
        self._verifying = set()
        self._threads = WorkerThreads(REQUESTS_AHEAD)
        if self.cached is not None:
            self.cached.begin_child()

    # --- blocks ------------------------------------------------------------------------------------------------------

    def in_memory(self, log: LogBytes, block: int) -> bytes | None:
        """Return a block if that needs neither disk nor network."""
        return self._remembered(log.identity(block))

    def _remembered(self, key: tuple[object, ...]) -> bytes | None:
        with self._lock:
            return self._memory.get(key)

    def _verify_ahead(self, cached: CachedBlocks, log: LogBytes, block: int) -> None:
        try:
            cached.file_of(log, block, nowait=False)
        finally:
            with self._lock:
                self._verifying.discard(log.identity(block))

    def blocks(self, log: LogBytes, first: int, last: int) -> dict[int, bytes]:
        """Return the blocks `first` to `last`, verified. Missing ones are fetched in this thread, or awaited.

        `DamagedBlock`, and OSError as `ObjectStore.read`.
        """
        contents, mine, awaited = {}, [], {}
        for block in range(first, last + 1):
            claimed = self._claimed(log, block)
            if isinstance(claimed, bytes):
                contents[block] = claimed
            elif claimed is None:
                mine.append(block)
            else:
                awaited[block] = claimed
        runs = list(_runs(mine, max(1, REQUEST_BYTES_MAX // log.block_bytes)))
        while runs:
            run = runs.pop(0)
            try:
                contents.update(zip(run, self._fetch(log, run), strict=True))
            except BaseException as error:
                for unread in runs:
                    self._end(log, unread, [], error)
                raise
        deadline = time.monotonic() + self._store().settings.timeout_s
        for block, future in awaited.items():
            contents[block] = self._awaited(log, block, future, deadline)
        return contents

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
        cached = self.cached
        if cached is None:
            return False
        # One that is open was looked at when it was ahead of the last block, and will be when it is read.
        if cached.is_open(log, block):
            return True
        key = log.identity(block)
        with self._lock:
            if key in self._verifying:
                return True
            if key in self._memory or key in self._in_flight:
                return False
        if cached.is_verified(log, block):  # to open it takes less than to hand that over
            return cached.file_of(log, block, nowait=False) is not None
        if not cached.has(log, block):
            return False
        with self._lock:
            self._verifying.add(key)
        if not self._threads.submit(functools.partial(self._verify_ahead, cached, log, block)):
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
            contents = {} if self.cached is None else self.cached.read(log, run)
            missing = [block for block in run if block not in contents]
            for missing_run in _runs(missing, len(run)):
                fetched.update(self._from_store(log, missing_run))
            contents.update(fetched)
        except DamagedBlock as error:
            if len(run) == 1:
                self._end(log, run, [], error)
                raise
            return self._fetch_singly(log, run)
        except BaseException as error:
            self._end(log, run, [], error)
            raise
        data = [contents[block] for block in run]
        self._end(log, run, data, None)
        if self.cached is not None:
            self.cached.store(log, fetched)  # after the readers that wait for the blocks have them
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
            for block, content in zip(run, data, strict=False):
                self._memory.put(log.identity(block), content, len(content))
        for number, future in enumerate(futures):
            if error is None:
                future.set_result(data[number])
            else:
                future.set_exception(error)

    def _from_store(self, log: LogBytes, run: list[int]) -> dict[int, bytes]:
        """Fetch contiguous blocks with one request for each part that they are in; a damaged one once more."""
        start, stop = log.range_of(run[0])[0], log.range_of(run[-1])[1]
        data = self._read(log, start, stop)
        contents = {}
        for block in run:
            low, high = log.range_of(block)
            content = data[low - start : high - start]
            for _ in range(_ATTEMPTS - 1):
                if not log.is_sound(block, content):
                    content = self._read(log, low, high)
            if not log.is_sound(block, content):
                part = next(log.pieces(low, high))[0]
                reason = "the object is damaged: its bytes do not match their checksum"
                raise DamagedBlock(reason, self._url(part), low, high - low)
            contents[block] = content
        return contents

    def _read(self, log: LogBytes, start: int, stop: int) -> bytes:
        pieces = []
        for part, low, high in log.pieces(start, stop):
            try:
                pieces.append(self._store().read(part.key, low, high))
            except FileNotFoundError as error:
                raise DamagedBlock("the object is missing", self._url(part), start, stop - start) from error
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _url(self, part: ArchivedObject) -> str:
        return f"{self._store().url}/{part.key}"


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
