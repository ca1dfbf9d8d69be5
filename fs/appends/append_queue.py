"""Sealed batches of one partition on their way into the log, in order, one thread at a time.

What is queued is appended together with what was queued meanwhile, on the event loop where that is a mere write to the
page cache: handing it to a thread would cost more. A batch that cannot be written takes with it everything behind it
that was accepted (else a writer's records would have a gap), and every writer that had records in it is told. A batch
that cannot be written for want of memory stays in the queue and is tried again, for as long as it takes: nothing was
asked of the disk. Large batches that are compressed are so in threads, before their turn (batches).

Durability: `drain` returns when all is in the segment file; when it is on disk is `shared_sync`'s to say. With
`flush_ms` 0 both are one: each batch is on disk before the next is written.
"""

from __future__ import annotations

import errno
import functools
import itertools
import logging
import resource
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from offsetfs.fs.appends.batches import AHEAD_MAX, AppendBatch
from offsetfs.fs.appends.buffers import Buffers, FairShare
from offsetfs.fs.appends.deadlines import Deadlines
from offsetfs.fs.appends.free_space import FreeSpace
from offsetfs.fs.appends.shared_sync import SharedSync, Unsynced
from offsetfs.fs.counters import Counters
from offsetfs.fs.error_log import ErrorLog
from offsetfs.fs.errors import errno_of
from offsetfs.fs.options import MountOptions
from offsetfs.fs.threads import in_thread_or_here
from offsetfs.storage.errors import StorageError
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Appended, Log
from offsetfs.storage.records.batch import HEADER_SIZE

_log = logging.getLogger(__name__)

QUEUED_MAX = 2  # batches: one is written, one waits; a third one fills
COMPRESSED_QUEUED_MAX = 3 * AHEAD_MAX
"""Where they are compressed: as many as are at once, and more that wait for it, or for their turn to be written: while
every core compresses, it takes a while until the loop and the writer have made the next one."""

HERE_BYTES_MAX = 2 << 20
"""A batch up to this size is appended on the event loop: a megabyte takes 0.2 ms, and handing it to a thread as long
again (500 MB of lines: 0.31 s instead of 0.38 s)."""

AT_ONCE_BYTES_MAX = 64 << 10
"""A larger one is so in a moment, by a task: its writer has the answer first, and prepares what comes next on another
core (500 MB of lines: 0.30 s instead of 0.33 s)."""

SHORTAGE_S = 0.1
"""The pause before a batch is tried again that could not be appended for want of memory."""

SLOW_S = 0.005
THREAD_FOR_S = 1.0
"""Unless the kernel makes writers wait because the disk cannot keep up: then threads wait, for this long at least.
Many writers who take the processor away from this thread also make it late; that is no waiting, and no reason."""


@dataclass(frozen=True, slots=True)
class AppendContext:
    """What the partitions of a mount share."""

    options: MountOptions
    nursery: trio.Nursery
    buffers: Buffers
    share: FairShare
    deadlines: Deadlines
    space: FreeSpace
    append_limiter: trio.CapacityLimiter
    seal_limiter: trio.CapacityLimiter
    sync_limiter: trio.CapacityLimiter
    on_append: Callable[[TopicPartition], None]
    counters: Counters = field(default_factory=Counters)
    error_log: ErrorLog = field(default_factory=ErrorLog)


class AppendQueue:
    """The queue of one partition. `surrender` gives up the open batch when what is before it was lost."""

    def __init__(
        self, log: Log, context: AppendContext, sync: SharedSync, surrender: Callable[[], AppendBatch | None]
    ) -> None:
        self._log = log
        self._context = context
        self._sync = sync
        self._surrender = surrender
        self._queue: deque[AppendBatch] = deque()
        self._is_appending = False
        self._has_appended = False
        self._lacks_memory = False
        self._slow_until = 0.0
        self._counts = context.counters.of(log.partition)

    @property
    def is_full(self) -> bool:
        """Whether no batch should be begun now, for want of a place when it is sealed."""
        count = len(self._queue)
        return count >= QUEUED_MAX and (not self._log.config.compression.codec or count >= COMPRESSED_QUEUED_MAX)

    @property
    def is_empty(self) -> bool:
        return not self._queue

    @property
    def unsynced(self) -> Unsynced:
        """What is queued; also asked for by other threads."""
        batches = list(self._queue)
        return Unsynced(len(batches), sum(batch.builder.size for batch in batches))

    def put(self, batch: AppendBatch) -> None:
        """Queue a batch that is not empty, and see that it is appended: now, when it is small and nothing waits."""
        self._queue.append(batch)
        if batch.is_worth_a_thread:
            batch.seal_ahead(self._context.nursery, self._context.seal_limiter, self._context.buffers)
        if self._is_appending:
            return
        size = batch.size
        if size <= AT_ONCE_BYTES_MAX and batch.is_quickly_sealed and self._may_append_here(size):
            self._finish(*self._append_here([batch]))
        if self._queue:
            self._is_appending = True
            self._context.nursery.start_soon(self._append_all)

    async def wait(self) -> None:
        """Return when the first batch in the queue is done; there has to be one."""
        await self._queue[0].wait()

    async def drain(self) -> None:
        """Return when all that is queued is in the segment file, or was lost and its writers told."""
        if self._queue:
            await self._queue[-1].wait()

    def let_go(self, batch: AppendBatch) -> None:
        """A batch has come to its end, one way or another: its memory is free again."""
        self._context.space.settle(batch.builder.size - HEADER_SIZE)
        batch.finish(self._context.buffers)

    def _may_append_here(self, size: int) -> bool:
        """Whether appending so many bytes is a mere write to the page cache: nothing to wait for, to sync, to roll."""
        return (
            size <= HERE_BYTES_MAX
            and time.perf_counter() >= self._slow_until
            and self._has_appended
            and not self._log.is_held
            and self._context.options.flush_ms != 0
            and self._log.snapshot().active.size + size <= self._log.config.segment_bytes
        )

    def _append_here(self, batches: list[AppendBatch]) -> tuple[int, Exception | None]:
        begun, waits = time.perf_counter(), _waits()
        outcome = self._append(batches)
        if time.perf_counter() - begun > SLOW_S and _waits() > waits:
            self._slow_until = begun + THREAD_FOR_S
        return outcome

    async def _append_all(self) -> None:
        try:
            while self._queue:
                if self._lacks_memory:
                    await trio.sleep(SHORTAGE_S)
                with trio.CancelScope(shield=True):  # a thread goes on when its task is cancelled: hear what it did
                    batches = await self._next()
                    is_quick = all(batch.is_quickly_sealed for batch in batches)
                    if is_quick and self._may_append_here(sum(batch.size for batch in batches)):
                        outcome = self._append_here(batches)
                    else:
                        work = functools.partial(self._append, batches)
                        outcome = await in_thread_or_here(work, limiter=self._context.append_limiter)
                self._finish(*outcome)
        finally:
            self._is_appending = False

    async def _next(self) -> list[AppendBatch]:
        """Return the first batch of the queue, once no thread seals it any more, and those behind that are as far."""
        await self._queue[0].sealed_ahead()
        return list(itertools.takewhile(lambda batch: not batch.is_in_work, self._queue))

    def _append(self, batches: list[AppendBatch]) -> tuple[int, Exception | None]:
        """Append in order; return how many could be, and what stopped the next one. Any thread."""
        count = 0
        try:
            for batch in batches:
                if batch.where is None:  # else only the sync lacked memory
                    batch.where = self._log.append(batch.seal())
                if self._context.options.flush_ms == 0:
                    self._log.flush()
                count += 1
        except Exception as error:  # whatever it was, the writers must hear of it, and the mount goes on
            return count, error
        return count, None

    def _finish(self, count: int, error: Exception | None) -> None:
        for _ in range(count):
            batch = self._queue.popleft()
            assert batch.where is not None
            self._has_appended, self._lacks_memory = True, False
            if self._context.options.flush_ms != 0:
                self._sync.note(batch.builder.count, batch.builder.size, batch.writers)
            self._count(batch)
            self._acknowledge(batch, batch.where)
            self.let_go(batch)
        if error is not None:
            self._postpone_or_fail(error)
        if count:
            self._context.on_append(self._log.partition)

    def _count(self, batch: AppendBatch) -> None:
        counts = self._counts
        counts.appended_batches += 1
        counts.appended_records += batch.builder.count
        counts.appended_bytes += batch.builder.size

    def _acknowledge(self, batch: AppendBatch, where: Appended) -> None:
        if not batch.parts:
            return
        is_stamped = self._log.config.message_timestamp_type == "LogAppendTime"
        for writer, first, count, timestamp in batch.parts:
            writer.acknowledged(where.base_offset + first, count, where.timestamp if is_stamped else timestamp)

    def _postpone_or_fail(self, error: Exception) -> None:
        """Leave the queue as it is when only memory lacks; else give up what is in it."""
        if errno_of(error) != errno.ENOMEM or self._log.fenced is not None:
            self._fail(error)
        elif not self._lacks_memory:
            self._lacks_memory = True
            self._context.error_log.add(error, "append", str(self._log.partition))
            _log.error("%s: accepted records wait, because there is no memory to write them", self._log.partition)

    def _fail(self, error: Exception) -> None:
        lost, is_ours = list(self._queue), not isinstance(error, OSError | StorageError)
        self._queue.clear()
        if (open_batch := self._surrender()) is not None:
            lost.append(open_batch)
        records = sum(batch.builder.count for batch in lost)
        self._counts.lost_records += records
        self._context.error_log.add(error, "append", str(self._log.partition))
        _log.error("%s: %d records were not written: %s", self._log.partition, records, error, exc_info=is_ours)
        for batch in lost:
            for writer in batch.writers:
                writer.failed(errno_of(error))
            self.let_go(batch)


def _waits() -> int:
    """How often this thread gave the processor up by itself."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
