"""Writes the sealed batches of one partition to the log, in order, one thread at a time.

All queued batches are appended together. An append that only writes to the page cache runs on the event loop, because
the hand-off to a thread would cost more. If a batch cannot be written, all accepted batches behind it are lost as well,
because the records of a writer must not have a gap; every writer of a lost batch gets the errno. If only memory is
short, the batch stays in the queue and is retried without a limit: the disk has not failed. Threads compress large
batches before their turn (`batches`).

Durability: `drain` returns when all batches are in the segment file; `shared_sync` puts them on disk. With `flush_ms` 0
each batch is on disk before the next is written.
"""

from __future__ import annotations

import errno
import functools
import itertools
import logging
from collections import deque
from collections.abc import Callable

import trio

from offsetfs.common.loop_watch import LoopAppends
from offsetfs.common.threads import in_thread_or_here
from offsetfs.fs.appends.batches import AHEAD_MAX, AppendBatch
from offsetfs.fs.appends.context import AppendContext
from offsetfs.fs.appends.shared_sync import SharedSync
from offsetfs.fs.reporting.errors import errno_of
from offsetfs.storage import Appended, Log, Unsynced
from offsetfs.storage.errors import StorageError, counted, sentence
from offsetfs.storage.records import HEADER_SIZE

_log = logging.getLogger(__name__)

QUEUED_MAX = 2  # batches: one is written, one waits; a third one fills
COMPRESSED_QUEUED_MAX = 3 * AHEAD_MAX
"""The limit for compressed batches: those in compression, and as many that wait for a thread or for their turn to be
written. While every core compresses, the event loop and the writer need a while to make the next batch."""

HERE_BYTES_MAX = 2 << 20
"""A batch up to this size is appended on the event loop: a megabyte takes 0.2 ms, and the hand-off to a
thread takes as long again (500 MB of lines: 0.31 s instead of 0.38 s)."""

AT_ONCE_BYTES_MAX = 64 << 10
"""A batch up to this size is appended within `write`. A task appends a larger one, so that the writer gets its reply
first and prepares the next bytes on another core (500 MB of lines: 0.30 s instead of 0.33 s)."""

SHORTAGE_S = 0.1
"""The pause before a retry of an append that failed for lack of memory."""


class AppendQueue:
    """The queue of one partition. `surrender` returns the open batch, which is lost with a batch before it."""

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
        self._loop_appends = LoopAppends()
        self._counts = context.counters.of(log.partition)

    @property
    def is_full(self) -> bool:
        """Whether no batch may be started now, because the queue would have no place for it."""
        count = len(self._queue)
        return count >= QUEUED_MAX and (not self._log.config.compression.codec or count >= COMPRESSED_QUEUED_MAX)

    @property
    def is_empty(self) -> bool:
        return not self._queue

    @property
    def unsynced(self) -> Unsynced:
        """The queued batches. From any thread."""
        batches = list(self._queue)
        return Unsynced(
            len(batches), sum(batch.builder.count for batch in batches), sum(batch.builder.size for batch in batches)
        )

    def put(self, batch: AppendBatch) -> None:
        """Queue a batch that is not empty. A small batch is appended at once if the queue is empty, else by a task."""
        self._queue.append(batch)
        if batch.is_worth_a_thread:
            batch.seal_ahead(self._context)
        if self._is_appending:
            return
        size = batch.size
        if size <= AT_ONCE_BYTES_MAX and batch.is_quickly_sealed and self._may_append_here(size):
            self._finish(*self._append_here([batch]))
        if self._queue:
            self._is_appending = True
            self._context.nursery.start_soon(self._append_all)

    async def wait_for_place(self) -> None:
        """Return when the queue has a place for one more batch."""
        while self.is_full:
            await self._queue[0].wait()

    async def drain(self) -> None:
        """Return when all queued batches are in the segment file, or were lost and reported to their writers."""
        if self._queue:
            await self._queue[-1].wait()

    def let_go(self, batch: AppendBatch) -> None:
        """Free the memory of a batch that was written or lost."""
        self._context.space.settle(batch.builder.size - HEADER_SIZE)
        batch.finish(self._context.memory)

    def _may_append_here(self, size: int) -> bool:
        """Whether appending `size` bytes only writes to the page cache: without a wait for a lock, a sync or a roll."""
        return (
            size <= HERE_BYTES_MAX
            and self._loop_appends.are_quick
            and self._has_appended
            and not self._log.is_held
            and self._context.options.flush_ms != 0
            and self._log.snapshot().active.size + size <= self._log.config.segment_bytes
        )

    def _append_here(self, batches: list[AppendBatch]) -> tuple[int, Exception | None]:
        return self._loop_appends.run(functools.partial(self._append, batches))

    async def _append_all(self) -> None:
        try:
            while self._queue:
                if self._lacks_memory:
                    await trio.sleep(SHORTAGE_S)
                with trio.CancelScope(shield=True):  # a thread cannot be cancelled: wait for its outcome
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
        """Wait until no thread seals the first batch; return it and the ready batches behind it."""
        await self._queue[0].sealed_ahead()
        return list(itertools.takewhile(lambda batch: not batch.is_in_work, self._queue))

    def _append(self, batches: list[AppendBatch]) -> tuple[int, Exception | None]:
        """Append in order; return how many were appended, and the error of the next one. Any thread."""
        count = 0
        try:
            for batch in batches:
                if batch.where is None:  # otherwise the append succeeded and only the sync lacked memory
                    batch.where = self._log.append(batch.seal())
                if self._context.options.flush_ms == 0:
                    self._log.flush()
                count += 1
        except Exception as error:  # any error must reach the writers, and the mount must continue
            return count, error
        return count, None

    def _finish(self, count: int, error: Exception | None) -> None:
        for _ in range(count):
            batch = self._queue.popleft()
            assert batch.where is not None
            self._has_appended, self._lacks_memory = True, False
            if self._context.options.flush_ms != 0:
                self._sync.note(batch.writers)
            self._count(batch)
            self._acknowledge(batch, batch.where)
            self.let_go(batch)
        if error is not None:
            self._postpone_or_fail(error)
        if count:
            self._context.on_written()

    def _count(self, batch: AppendBatch) -> None:
        counts = self._counts
        counts.appended_batches += 1
        counts.appended_records += batch.builder.count
        counts.appended_bytes += batch.builder.size

    def _acknowledge(self, batch: AppendBatch, where: Appended) -> None:
        if not batch.parts:
            return
        is_stamped, number = self._log.config.message_timestamp_type == "LogAppendTime", self._log.partition.partition
        for writer, first, count, timestamp in batch.parts:
            writer.acknowledged(where.base_offset + first, count, where.timestamp if is_stamped else timestamp, number)

    def _postpone_or_fail(self, error: Exception) -> None:
        """Keep the queue if only memory is short; else drop its batches as lost."""
        if errno_of(error) != errno.ENOMEM or self._log.failure is not None:
            self._fail(error)
        elif not self._lacks_memory:
            self._lacks_memory = True
            self._context.error_log.add(error, "append", str(self._log.partition))
            _log.error("%s: accepted records wait, because there is no memory to write them", self._log.partition)

    def _fail(self, error: Exception) -> None:
        lost, is_ours = list(self._queue), not isinstance(error, OSError | StorageError)
        # Batches behind a lost one are lost as well: a writer's records on disk must be a prefix of those that it
        # wrote.
        self._queue.clear()
        if (open_batch := self._surrender()) is not None:
            lost.append(open_batch)
        records = sum(batch.builder.count for batch in lost)
        self._counts.lost_records += records
        self._context.error_log.add(error, "append", str(self._log.partition))
        loss = f"{counted(records, 'record')} {'was' if records == 1 else 'were'} not written"
        _log.error("%s: %s: %s", self._log.partition, loss, sentence(error), exc_info=is_ours)
        for batch in lost:
            for writer in batch.writers:
                writer.failed(errno_of(error))
            self.let_go(batch)
