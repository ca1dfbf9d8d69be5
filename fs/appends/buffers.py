"""The memory of all open batches of a mount: batch builders that are lent, returned and lent again.

What is lent never adds up to more than `bytes_max` (`buffer-bytes`); that is the bound on what appends may take,
whatever the number of partitions and writers. Who finds nothing waits in line, first come, first served, and is handed
its builder directly, so that nobody who comes later gets ahead. Follows the purpose of Kafka's producer BufferPool.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from offsetfs.storage.records.batch_builder import BatchBuilder
from offsetfs.storage.records.compression import Compression

_KEPT_MAX = 8  # free builders kept for the next batch; a write at full speed turns three over, compressed more


@dataclass(slots=True, eq=False)
class _Waiter:
    capacity: int
    compression: Compression
    event: trio.Event = field(default_factory=trio.Event)
    builder: BatchBuilder | None = None


class Carried:
    """The memory of all unfinished records of a mount: what was written of a line without its end, of a raw record.

    Nobody can be made to finish them, so nobody waits here: what would be too much is refused.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0

    def change(self, size: int) -> None:
        """Count `size` bytes more, or fewer; OSError ENOBUFS when that would be too many in all."""
        if size > 0 and self.bytes + size > self.bytes_max:
            raise OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))
        self.bytes += size


class Buffers:
    """Builders on loan. `on_shortage` is called when somebody begins to wait: whoever can give back soon, should."""

    def __init__(self, bytes_max: int, on_shortage: Callable[[], None]) -> None:
        self.bytes_max = bytes_max
        self.lent_bytes = 0
        self._on_shortage = on_shortage
        self._free: list[BatchBuilder] = []
        self._line: deque[_Waiter] = deque()
        self._is_closed = False

    def has_room(self, capacity: int) -> bool:
        """Whether `take_nowait` would lend."""
        return not self._line and not self._is_closed and self._fits(capacity)

    def take_nowait(self, capacity: int, compression: Compression) -> BatchBuilder | None:
        """Lend a builder of `capacity` bytes, or None when that would be too much or others wait for theirs."""
        return self._lend(capacity, compression) if self.has_room(capacity) else None

    async def take(self, capacity: int, compression: Compression) -> BatchBuilder:
        """Lend a builder, after waiting for it if need be; OSError ESHUTDOWN when `close` comes first."""
        builder = self.take_nowait(capacity, compression)
        if builder is not None:
            return builder
        if self._is_closed:
            raise OSError(errno.ESHUTDOWN, os.strerror(errno.ESHUTDOWN))
        waiter = _Waiter(capacity, compression)
        self._line.append(waiter)
        self._on_shortage()
        try:
            await waiter.event.wait()
        except BaseException:
            self._leave(waiter)
            raise
        if waiter.builder is None:
            raise OSError(errno.ESHUTDOWN, os.strerror(errno.ESHUTDOWN))
        return waiter.builder

    def give_back(self, builder: BatchBuilder) -> None:
        """Take a builder back; its content is gone."""
        builder.reset()
        self.lent_bytes -= builder.bytes_max
        if len(self._free) < _KEPT_MAX and self._kept_bytes() + builder.bytes_max <= self.bytes_max:
            self._free.append(builder)
        self._serve()

    def close(self) -> None:
        """Lend nothing any more, and send everybody in line away."""
        self._is_closed = True
        self._free.clear()
        while self._line:
            self._line.popleft().event.set()

    def _fits(self, capacity: int) -> bool:
        # A builder above the whole bound is lent only alone; callers refuse such records beforehand.
        return self.lent_bytes + capacity <= self.bytes_max or self.lent_bytes == 0

    def _kept_bytes(self) -> int:
        return self.lent_bytes + sum(builder.bytes_max for builder in self._free)

    def _lend(self, capacity: int, compression: Compression) -> BatchBuilder:
        self.lent_bytes += capacity
        for position in reversed(range(len(self._free))):  # the last one used is still in the processor's cache
            builder = self._free[position]
            if builder.bytes_max == capacity and builder.compression == compression:
                return self._free.pop(position)
        while self._free and self._kept_bytes() > self.bytes_max:
            self._free.pop(0)  # of another kind, the longest unused
        return BatchBuilder(capacity, compression)

    def _serve(self) -> None:
        while self._line and self._fits(self._line[0].capacity):
            waiter = self._line.popleft()
            waiter.builder = self._lend(waiter.capacity, waiter.compression)
            waiter.event.set()

    def _leave(self, waiter: _Waiter) -> None:
        if waiter.builder is not None:
            self.give_back(waiter.builder)
        elif waiter in self._line:
            self._line.remove(waiter)
            self._serve()
