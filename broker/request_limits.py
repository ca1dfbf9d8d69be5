"""Limits for the requests of all connections: how many are handled at a time, and the memory that they take.

At a limit a connection does not read on, so that further requests stay in the sockets of their clients
(`queued.max.requests`, `queued.max.request.bytes`). Memory is granted in the order of the requests; a request above the
limit is admitted when it is the only one. A request that waits for records or for members of its group counts for
neither limit. Kafka's RequestChannel and SimpleMemoryPool bound the same.
"""

from __future__ import annotations

from collections import deque

import trio

FREE_BYTES_MAX = 64 << 10
"""Requests that take no more memory are not counted."""

DECODED_FACTOR = 16
"""The memory of a decoded request other than Produce, as a multiple of its bytes: of a Fetch of many partitions it is 6
to 10 times; the records of a Produce request are not decoded."""


class RequestLimits:
    """The limits of one broker."""

    def __init__(self, requests_max: int, bytes_max: int) -> None:
        """`bytes_max`: -1 for no limit."""
        self._slots = trio.Semaphore(requests_max)
        self._bytes_max = bytes_max
        self._bytes = 0
        self._waiting: deque[tuple[int, trio.Event]] = deque()
        self._is_contended = trio.Event()

    async def reserve(self, size: int) -> None:
        """Wait until there is memory for a request of `size` bytes; `release` it afterwards."""
        if self._bytes_max < 0 or size <= FREE_BYTES_MAX:
            return
        if not self._waiting and self._fits(size):
            self._bytes += size
            return
        entry = size, trio.Event()
        self._waiting.append(entry)
        self._is_contended.set()
        try:
            await entry[1].wait()
        except trio.Cancelled:
            if entry[1].is_set():
                self.release(size)
            else:
                self._waiting.remove(entry)
                self._admit()
            raise

    async def contended(self) -> None:
        """Return when a request waits for memory."""
        if not self._waiting:
            self._is_contended = trio.Event()
        await self._is_contended.wait()

    def release(self, size: int) -> None:
        if self._bytes_max < 0 or size <= FREE_BYTES_MAX:
            return
        self._bytes -= size
        self._admit()

    def _fits(self, size: int) -> bool:
        return not self._bytes or self._bytes + size <= self._bytes_max

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, admitted = self._waiting.popleft()
            self._bytes += size
            admitted.set()

    async def begin(self) -> None:
        """Wait until another request can be handled; `end` it afterwards, or when it begins to wait for others."""
        try:
            self._slots.acquire_nowait()
        except trio.WouldBlock:
            await self._slots.acquire()

    def end(self) -> None:
        self._slots.release()
