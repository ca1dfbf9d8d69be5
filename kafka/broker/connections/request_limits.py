"""Bounds of the resources that clients can use up: requests at a time, their memory, and lines of the log.

At a limit a connection does not read on, so that further requests stay in the sockets of their clients
(`queued.max.requests`, `queued.max.request.bytes`). Memory is granted in the order of the requests; a request above the
limit is admitted when it is the only one. A request that waits for records or for members of its group counts for
neither limit. Kafka's RequestChannel and SimpleMemoryPool bound the same.

A quarter of the memory is for small requests. They do not wait for large ones, of which a client could announce many
and send none.

Buffers of large requests are kept for the next ones. A new buffer costs more than its bytes: the kernel clears each
page at the first access, half a second of processor time for each GB.
"""

from __future__ import annotations

import math
from collections import deque

import trio

FREE_BYTES_MAX = 64 << 10
"""Requests that take no more memory are not counted."""

SMALL_PART = 256
"""A small request takes at most this part of the memory: 2 MiB by default."""

DECODED_FACTOR = 16
"""The memory of a decoded request other than Produce, as a multiple of its bytes: of a Fetch of many partitions it is 6
to 10 times; the records of a Produce request are not decoded."""


LARGE_MAX = 2
"""Counted requests that do not wait for the disk and are handled at the same time, at most: one may take the event loop
for 0.1 s, and a small request waits for these alone, not for one of each connection."""

PAUSE_S_MAX = 0.2
"""A large request is followed by a pause as long as itself, this at most, if others wait: small ones need several
passes of the event loop, of which each would have further large ones."""


class RequestLimits:
    """The limits of one broker."""

    def __init__(self, requests_max: int, bytes_max: int) -> None:
        """`bytes_max`: -1 for no limit."""
        # Not a semaphore, because each request comes here: a third of the calls.
        self._free_slots, self._waiting_for_slots = requests_max, 0
        self._parked = trio.lowlevel.ParkingLot()
        self._large_slots = trio.Semaphore(LARGE_MAX)
        self._has_limit = bytes_max >= 0
        self._small_bytes_max = bytes_max // SMALL_PART
        has_small = self._small_bytes_max > FREE_BYTES_MAX
        small = bytes_max // 4 if has_small else 0
        self._contention = _Contention()
        self._large = _Memory(bytes_max - small, self._contention)
        self._small = _Memory(small, self._contention) if has_small else self._large

    @property
    def waiting_count(self) -> int:
        """The number of requests that wait for memory."""
        return sum(len(memory.waiting) for memory in {self._small, self._large})

    async def reserve(self, size: int) -> None:
        """Wait until there is memory for a request of `size` bytes; `release` it afterwards."""
        if self._has_limit and size > FREE_BYTES_MAX:
            await self._memory(size).reserve(size)

    async def contended(self) -> None:
        """Return when a request waits for memory."""
        if not self.waiting_count:
            self._contention.event = trio.Event()
        await self._contention.event.wait()

    def release(self, size: int) -> None:
        if self._has_limit and size > FREE_BYTES_MAX:
            self._memory(size).release(size)

    async def begin(self, *, is_large: bool = False) -> None:
        """Wait until another request can be handled; `end` it afterwards, or when it begins to wait for others."""
        if is_large:
            await self._large_slots.acquire()
        if self._free_slots:
            self._free_slots -= 1
            return
        self._waiting_for_slots += 1
        try:
            await self._parked.park()  # until `end` gives its slot on
        except trio.Cancelled:
            if is_large:
                self._large_slots.release()
            raise
        finally:
            self._waiting_for_slots -= 1

    async def pause(self, begun_s: float) -> None:
        """Leave the event loop to small requests, after a large one that began at `begun_s`."""
        if self._large_slots.statistics().tasks_waiting:
            await trio.sleep(min(trio.current_time() - begun_s, PAUSE_S_MAX))

    def end(self, *, is_large: bool = False) -> None:
        if not (self._waiting_for_slots and self._parked.unpark()):
            self._free_slots += 1
        if is_large:
            self._large_slots.release()

    def _memory(self, size: int) -> _Memory:
        return self._small if size <= self._small_bytes_max else self._large


class _Contention:
    """Set when a request waits for memory."""

    def __init__(self) -> None:
        self.event = trio.Event()


class _Memory:
    """Memory for requests, granted in their order."""

    def __init__(self, bytes_max: int, contention: _Contention) -> None:
        self._bytes_max = bytes_max
        self._contention = contention
        self.bytes = 0
        self.waiting: deque[tuple[int, trio.Event]] = deque()

    async def reserve(self, size: int) -> None:
        if not self.waiting and self._fits(size):
            self.bytes += size
            return
        entry = size, trio.Event()
        self.waiting.append(entry)
        self._contention.event.set()
        try:
            await entry[1].wait()
        except trio.Cancelled:
            if entry[1].is_set():
                self.release(size)
            else:
                self.waiting.remove(entry)
                self._admit()
            raise

    def release(self, size: int) -> None:
        self.bytes -= size
        self._admit()

    def _fits(self, size: int) -> bool:
        return not self.bytes or self.bytes + size <= self._bytes_max

    def _admit(self) -> None:
        while self.waiting and self._fits(self.waiting[0][0]):
            size, admitted = self.waiting.popleft()
            self.bytes += size
            admitted.set()


LOGGED_S = 10.0
"""The time between two lines of one kind. Without it, a client could cause so many lines that they fill the disk."""


class RareLines:
    """Limits a line of the log to one in `LOGGED_S`."""

    def __init__(self) -> None:
        self._next_s = -math.inf
        self._count = 0

    def count(self) -> int:
        """Count an event; return the number of events for the line that is due now, 0 if no line is due."""
        self._count += 1
        now_s = trio.current_time()
        if now_s < self._next_s:
            return 0
        count, self._count, self._next_s = self._count, 0, now_s + LOGGED_S
        return count


KEPT_BYTES_MAX = 16 << 20
"""The sum of all buffers that are kept."""

KEPT_SIZE_MAX = 4 << 20
"""Larger buffers are not kept: a few of them would take the place of all others."""


class ReceiveBuffers:
    """The kept buffers of one broker. Used by the event loop only.

    A buffer is kept only if no object refers to its bytes any more, which `bytearray` itself checks.
    """

    def __init__(self) -> None:
        self._kept: list[bytearray] = []  # the last used comes last: it is in the processor's cache
        self._bytes = 0

    def take(self, size: int) -> bytearray | None:
        """Return a buffer of at least `size` bytes, with any content; None if there is none."""
        for index in range(len(self._kept) - 1, -1, -1):
            if len(self._kept[index]) >= size:
                buffer = self._kept.pop(index)
                self._bytes -= len(buffer)
                return buffer
        return None

    def keep(self, buffer: bytearray) -> None:
        """Keep a buffer for another request, if there is space for it and nothing refers to its bytes."""
        size = len(buffer)
        if size > KEPT_SIZE_MAX or self._bytes + size > KEPT_BYTES_MAX or _is_referred_to(buffer):
            return
        self._kept.append(buffer)
        self._bytes += size


def _is_referred_to(buffer: bytearray) -> bool:
    """Return whether there is a memoryview, or another export, of a buffer that is not empty."""
    try:
        last = buffer.pop()
    except BufferError:  # it cannot be resized then
        return True
    buffer.append(last)
    return False
