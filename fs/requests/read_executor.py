"""Runs the reads of a mount: on the event loop if the page cache can serve them, else in a bounded number of threads.

A hand-over to a thread takes 0.2 ms, longer than most reads. So each read is tried on the event loop first, with
`nowait=True`. The engine raises `WouldBlock` if the read would wait for the disk, for a lock or for a large
decompression; only then is it repeated in a thread.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TypeVar

import trio

from offsetfs.common import threads
from offsetfs.storage.errors import WouldBlock
from offsetfs.storage.records import inflation_scope

T = TypeVar("T")

READ_THREADS = 16
INFLATING_THREADS_MAX = 64
"""The number of threads that wait for an inflation slot and do not count as read threads. Bounds all threads."""


class ReadExecutor:
    """The read threads of one mount. Created and called on the event loop."""

    def __init__(self) -> None:
        self._limiter = trio.CapacityLimiter(READ_THREADS)
        self._loop = trio.lowlevel.current_trio_token()
        self._inflating = 0

    async def answer(self, read: Callable[..., T], *args: object) -> T:
        """Return `read(*args, nowait=…)`, called on the event loop if it need not wait, else in a thread.

        Raises what `read` raises; OSError ENOMEM if no thread can be started.
        """
        try:
            return read(*args, nowait=True)
        except WouldBlock:
            return await self.in_thread(functools.partial(read, *args, nowait=False))

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Return what `work` returns in a thread. OSError ENOMEM if no thread can be started."""
        return await threads.in_thread(functools.partial(self._with_inflation_scope, work), limiter=self._limiter)

    def _with_inflation_scope(self, work: Callable[[], T]) -> T:
        """Run `work` in this thread.

        While it waits for an inflation slot, another read may start: otherwise 16 readers of large compressed batches
        would keep all others from the disk.
        """
        with inflation_scope(self._waits_to_inflate):
            return work()

    @contextlib.contextmanager
    def _waits_to_inflate(self) -> Iterator[None]:
        self._add_later(1)
        try:
            yield
        finally:
            self._add_later(-1)

    def _add_later(self, count: int) -> None:
        with contextlib.suppress(trio.RunFinishedError):  # the mount has ended while this thread waited
            self._loop.run_sync_soon(self._add, count)

    def _add(self, count: int) -> None:
        self._inflating += count
        self._limiter.total_tokens = READ_THREADS + min(self._inflating, INFLATING_THREADS_MAX)
