"""The memory of a mount's appends: the batch builders of all open batches, and the unfinished records.

The builders in use never exceed `bytes_max` (`buffer-bytes`). This bounds the memory of appends for any number of
partitions and writers. A task that finds no memory waits, first come, first served. It gets its builder directly from
the task that returns one, so that no later task overtakes it. Unfinished records have a limit of their own. Corresponds
to Kafka's producer BufferPool.
"""

from __future__ import annotations

import errno
import math
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from offsetfs.storage import BatchBuilder
from offsetfs.storage.records import Compression

KEPT_BYTES_MAX = 8 << 20
"""Limit of the free builders. A write at full speed uses three in turn, more if batches are compressed."""

UNFINISHED_BYTES_MIN = 16 << 20
"""Unfinished records may take as much memory as open batches, but at least this: a line of JSON for a record of a
megabyte takes at most twelve."""

SHARE_BYTES_MIN = 4 << 10
COUNT_S = 1.0

_Kind = tuple[int, Compression]


@dataclass(slots=True, eq=False)
class _Waiter:
    capacity: int
    compression: Compression
    event: trio.Event = field(default_factory=trio.Event)
    builder: BatchBuilder | None = None


class AppendMemory:
    """The account of a mount. `on_shortage` is called with the missing bytes; it should free builders soon."""

    def __init__(self, bytes_max: int, on_shortage: Callable[[int], None]) -> None:
        self.bytes_max = bytes_max
        self.lent_bytes = 0
        """The memory of the builders in use."""
        self.unfinished_bytes = 0
        """The memory of lines without their end, and of raw records."""
        self.is_closed = False
        self._on_shortage = on_shortage
        self._free: dict[_Kind, list[BatchBuilder]] = {}
        self._free_bytes = 0
        self._line: deque[_Waiter] = deque()
        self._counted: set[object] = set()  # the partitions that started a batch since `_counted_since`
        self._counted_before: set[object] = set()  # those of the period before
        self._counted_since = -math.inf

    # --- unfinished records ------------------------------------------------------------------------------------------

    def change_unfinished(self, size: int) -> None:
        """Add `size` bytes of unfinished records, which may be negative. OSError ENOBUFS above the limit.

        A write beyond the limit fails and does not wait, because no event is certain to finish the other records.
        """
        if size > 0 and self.unfinished_bytes + size > max(self.bytes_max, UNFINISHED_BYTES_MIN):
            raise OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))
        self.unfinished_bytes += size

    # --- builders ----------------------------------------------------------------------------------------------------

    def share_of(self, partition: object) -> int:
        """Return the size of the next batch of a partition at which every active partition has memory for two batches.

        Counts the partitions that started a batch in the last `COUNT_S` to twice that time. The result is at least
        `SHARE_BYTES_MIN`: with too many partitions for that, batches are written before they are full. It is a power
        of two, so that free builders fit again.
        """
        now = trio.current_time()
        if now - self._counted_since > COUNT_S:
            is_recent = now - self._counted_since <= 2 * COUNT_S
            self._counted_before = self._counted if is_recent else set()
            self._counted, self._counted_since = set(), now
        self._counted.add(partition)
        share = self.bytes_max // (2 * max(len(self._counted), len(self._counted_before)))
        return max(1 << share.bit_length() - 1, SHARE_BYTES_MIN)

    def has_space(self, capacity: int) -> bool:
        """Whether `take_nowait` would return a builder."""
        return not self._line and not self.is_closed and self._fits(capacity)

    def take_nowait(self, capacity: int, compression: Compression) -> BatchBuilder | None:
        """Return a builder of `capacity` bytes. None if the limit is reached or other tasks wait."""
        if not self._line and not self.is_closed and not self._fits(capacity):
            self._report_shortage(capacity)
        return self._lend(capacity, compression) if self.has_space(capacity) else None

    async def take(self, capacity: int, compression: Compression) -> BatchBuilder:
        """Return a builder; wait for it if necessary. OSError ESHUTDOWN if `close` is called first."""
        builder = self.take_nowait(capacity, compression)
        if builder is not None:
            return builder
        if self.is_closed:
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
        """Return a builder to the pool; its content is discarded."""
        builder.reset()
        self.lent_bytes -= builder.bytes_max
        self._keep(builder)
        self._serve()

    def _keep(self, builder: BatchBuilder) -> None:
        """Keep a builder for the next batches; drop free builders of the least recently returned kind for it."""
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
        """Hand out no more builders, and end all waiting tasks with ESHUTDOWN."""
        self.is_closed = True
        self._free.clear()
        self._free_bytes = 0
        while self._line:
            self._line.popleft().event.set()

    def _report_shortage(self, capacity: int) -> None:
        self._on_shortage(self.lent_bytes + sum(waiter.capacity for waiter in self._line) + capacity - self.bytes_max)

    def _fits(self, capacity: int) -> bool:
        # A builder above the limit is handed out only alone; callers refuse such records earlier.
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
        """Drop a free builder of the least recently returned kind."""
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
