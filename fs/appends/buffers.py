"""The memory of all open batches of a mount: batch builders that are lent, returned and lent again.

What is lent never adds up to more than `bytes_max` (`buffer-bytes`); that is the bound on what appends may take,
whatever the number of partitions and writers. Who finds nothing waits in line, first come, first served, and is handed
its builder directly, so that nobody who comes later gets ahead. Follows the purpose of Kafka's producer BufferPool.
"""

from __future__ import annotations

import errno
import math
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from offsetfs.storage.records.batch_builder import BatchBuilder
from offsetfs.storage.records.compression import Compression

KEPT_BYTES_MAX = 8 << 20
"""Of free builders kept for the next batches; a write at full speed turns three over, more when they are compressed."""

SHARE_BYTES_MIN = 4 << 10
COUNT_S = 1.0

_Kind = tuple[int, Compression]


@dataclass(slots=True, eq=False)
class _Waiter:
    capacity: int
    compression: Compression
    event: trio.Event = field(default_factory=trio.Event)
    builder: BatchBuilder | None = None


class UnfinishedBytes:
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


class FairShare:
    """How large a batch may be, so that all partitions that are written to have room for two of them.

    The partitions that begin a batch are counted, those of the last `COUNT_S` to twice that. A batch takes at least
    `SHARE_BYTES_MIN`: with more partitions than that gives room for, batches are written before they are full.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._counted: set[object] = set()
        self._counted_before: set[object] = set()
        self._since = -math.inf

    def of(self, partition: object) -> int:
        """Return the bytes that the next batch of a partition may take: a power of two, so that buffers fit again."""
        now = trio.current_time()
        if now - self._since > COUNT_S:
            is_recent = now - self._since <= 2 * COUNT_S
            self._counted_before = self._counted if is_recent else set()
            self._counted, self._since = set(), now
        self._counted.add(partition)
        share = self._bytes_max // (2 * max(len(self._counted), len(self._counted_before)))
        return max(1 << share.bit_length() - 1, SHARE_BYTES_MIN)


class Buffers:
    """Builders on loan. `on_shortage` is called with the bytes that are missing: whoever can give back soon, should."""

    def __init__(self, bytes_max: int, on_shortage: Callable[[int], None]) -> None:
        self.bytes_max = bytes_max
        self.lent_bytes = 0
        self._on_shortage = on_shortage
        self._free: dict[_Kind, list[BatchBuilder]] = {}
        self._free_bytes = 0
        self._line: deque[_Waiter] = deque()
        self._is_closed = False

    def has_room(self, capacity: int) -> bool:
        """Whether `take_nowait` would lend."""
        return not self._line and not self._is_closed and self._fits(capacity)

    def take_nowait(self, capacity: int, compression: Compression) -> BatchBuilder | None:
        """Lend a builder of `capacity` bytes, or None when that would be too much or others wait for theirs."""
        if not self._line and not self._is_closed and not self._fits(capacity):
            self._report_shortage(capacity)
        return self._lend(capacity, compression) if self.has_room(capacity) else None

    async def take(self, capacity: int, compression: Compression) -> BatchBuilder:
        """Lend a builder, after waiting for it if need be; OSError ESHUTDOWN when `close` comes first."""
        builder = self.take_nowait(capacity, compression)
        if builder is not None:
            return builder
        if self._is_closed:
            raise OSError(errno.ESHUTDOWN, os.strerror(errno.ESHUTDOWN))
        waiter = _Waiter(capacity, compression)
        if self._line:  # else it was reported just now
            self._report_shortage(capacity)
        self._line.append(waiter)
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
        self._keep(builder)
        self._serve()

    def _keep(self, builder: BatchBuilder) -> None:
        """Keep a builder for the next batches; those of a kind that came back longest ago give way to it."""
        kind, bytes_max = _kind_of(builder), min(KEPT_BYTES_MAX, self.bytes_max - self.lent_bytes)
        kept = self._free.pop(kind, [])
        while self._free and self._free_bytes + builder.bytes_max > bytes_max:
            self._forget_one()
        if self._free_bytes + builder.bytes_max <= bytes_max:
            kept.append(builder)
            self._free_bytes += builder.bytes_max
        if kept:
            self._free[kind] = kept  # the last one

    def close(self) -> None:
        """Lend nothing any more, and send everybody in line away."""
        self._is_closed = True
        self._free.clear()
        self._free_bytes = 0
        while self._line:
            self._line.popleft().event.set()

    def _report_shortage(self, capacity: int) -> None:
        self._on_shortage(self.lent_bytes + sum(each.capacity for each in self._line) + capacity - self.bytes_max)

    def _fits(self, capacity: int) -> bool:
        # A builder above the whole bound is lent only alone; callers refuse such records beforehand.
        return self.lent_bytes + capacity <= self.bytes_max or self.lent_bytes == 0

    def _lend(self, capacity: int, compression: Compression) -> BatchBuilder:
        self.lent_bytes += capacity
        kept = self._free.get((capacity, compression))
        if kept:
            self._free_bytes -= capacity
            return kept.pop()  # the last one used is still in the processor's cache
        while self._free_bytes and self.lent_bytes + self._free_bytes > self.bytes_max:
            self._forget_one()
        return BatchBuilder(capacity, compression)

    def _forget_one(self) -> None:
        """Let go of a builder that is kept, of the kind that came back longest ago."""
        kind, kept = next(iter(self._free.items()))
        if kept:
            self._free_bytes -= kept.pop(0).bytes_max
        if not kept:
            del self._free[kind]

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


def _kind_of(builder: BatchBuilder) -> _Kind:
    return builder.bytes_max, builder.compression
