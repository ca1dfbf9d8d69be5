"""Batches appended records, one open batch per partition; writes a batch if it is full, old enough, or on flush.

    write(2) → AppendHandle → AppendTarget → Accumulator → open batch → AppendQueue → Log.append → segment file
                                                                            └→ SharedSync → on disk

Compiled code encodes lines directly into the open batch, on the event loop. A batch is sealed and queued if it is
full, if `linger-ms` has passed, or by `drain`. The next batch fills while the queue is written.

Guarantees: records keep the order of the calls. After `drain` they are in the segment file, after `sync` on disk. A
loss is reported to every writer that has records in the lost batch. The partition accepts further records, unless the
engine has failed its log.

Other modules: framing (handles), the partitions of a handle (target), ordered writing and its failures (append_queue),
the limit on memory (memory), the scope of a sync (shared_sync). Errors are OSError. Corresponds to Kafka's
RecordAccumulator and Sender.
"""

from __future__ import annotations

import dataclasses
import errno
import os
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

import trio

from offsetfs.fs.appends.append_queue import AppendQueue
from offsetfs.fs.appends.batches import CORES, AppendBatch
from offsetfs.fs.appends.context import AppendContext, Deadlines, FreeSpace
from offsetfs.fs.appends.memory import AppendMemory
from offsetfs.fs.appends.open_files import OpenFiles, Writer
from offsetfs.fs.appends.shared_sync import SharedSync
from offsetfs.fs.nodes import Buffer
from offsetfs.fs.options import MountOptions
from offsetfs.fs.reporting.counters import Counters
from offsetfs.fs.reporting.error_log import ErrorLog
from offsetfs.fs.reporting.errors import errno_of
from offsetfs.storage import AnyLogDirectory, BatchBuilder, Log, TopicPartition, Unsynced, record_size
from offsetfs.storage.records import HEADER_SIZE, bytes_max_within

APPEND_THREADS = 4
SYNC_THREADS = 16
READY_S = 1.0  # between two looks at a log whose table is locked
GIVEN_WAY_SHARE = 8
"""A shortage frees the memory of open batches divided by this number."""


def batch_size(key: Buffer | None, value: Buffer | None, headers: Sequence[tuple[str, Buffer | None]] = ()) -> int:
    """Return the size of a batch with this one record, in bytes. Callers compare it with `batch_bytes_max`."""
    return HEADER_SIZE + record_size(key, value, headers)


class Accumulator:
    """Accepts the records of one partition. All methods run on the event loop."""

    def __init__(self, accumulators: Accumulators, log: Log) -> None:
        self.partition = log.partition
        self.log = log
        self.context = context = accumulators.context_at(os.path.dirname(log.path))
        self.open_batch: AppendBatch | None = None
        self.batches_begun = 0
        """The number of batches that were started so far, the open batch included."""
        self.shared_sync = SharedSync(log, context)
        self._all = accumulators
        self._options = context.options
        self._queue = AppendQueue(log, context, self.shared_sync, self._surrender)
        self._turns: deque[trio.Event] = deque()  # of the writers that wait for a buffer; that of the first one is set
        self._served: Writer | None = None  # the writer whose turn was the last one

    @property
    def batch_bytes_max(self) -> int:
        """The largest batch that can be appended, header included, in bytes before compression."""
        config = self.log.config
        sizes = (config.max_message_bytes, config.segment_bytes, self._options.buffer_bytes)
        return bytes_max_within(config.compression, *sizes)

    # --- accepting records -------------------------------------------------------------------------------------------

    def split(
        self,
        data: bytes | bytearray,
        start: int,
        end: int,
        timestamp: int,
        writer: Writer,
        *,
        is_one_batch: bool = False,
    ) -> int:
        """Append the complete lines of `data[start:end]`; return the position of the first line that was not accepted.

        Never waits. A result below `end` means that there is no free buffer (`wait_for_space`), or that the line there
        is larger than `batch_bytes_max`. OSError before any line is accepted: EROFS, EIO (failed log), EINVAL (a
        compacted log requires keys), ENOSPC, ESHUTDOWN, ESTALE (deleted). `timestamp`: milliseconds. With
        `is_one_batch` it also stops when a batch is full.
        """
        check([self], end - start, has_key=False)
        while start < end and not self.must_wait(writer):
            batch = self.open_batch or self._begin()
            if batch is None:
                break
            builder = batch.builder
            count, size = builder.count, builder.size
            rest = builder.split(data, start, end, timestamp)
            if rest == start and not count:
                line = memoryview(data)[start : data.index(b"\n", start)]
                if not self.begin_anew(batch_size(None, line)):
                    break
                continue
            self.note(writer, count, size, rest - start, timestamp)
            start = rest
            if start < end:
                self.seal()
                if is_one_batch or writer.code is not None:  # the append at once failed: no record may follow the gap
                    break
        self.seal_unless_lingering()
        return start

    def append(
        self,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[tuple[str, Buffer | None]],
        timestamp: int,
        writer: Writer,
    ) -> bool:
        """Append one record. False if there is no free buffer (`wait_for_space`). Errors as in `split`.

        The caller has compared `batch_size` with `batch_bytes_max`.
        """
        size = batch_size(key, value, headers)
        check([self], size, has_key=key is not None)
        while not self.must_wait(writer):
            batch = self.open_batch or self._begin(size)
            if batch is None:
                break
            count, before = batch.builder.count, batch.builder.size
            if batch.builder.append(key, value, headers, timestamp):
                self.note(writer, count, before, size, timestamp)
                self.seal_unless_lingering()
                return True
            self.seal()
        return False

    def check_state(self, *, has_key: bool) -> None:
        """Raise OSError if the partition accepts no such record of any size. Cheap: it makes no system call."""
        if self.log.is_gone:
            raise OSError(errno.ESTALE, "the partition was deleted", str(self.partition))
        if self.log.unrecovered is not None:
            refusal = self.log.refusal()
            raise OSError(errno_of(refusal), str(refusal), str(self.partition))
        if self._options.read_only or self.log.read_only or self.log.is_mirrored:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        self._check_not_failed()
        if self.log.is_compacted and not has_key:
            reason = "the topic is compacted and takes no record without a key; append.ndjson takes keys"
            raise OSError(errno.EINVAL, reason, f"append to {self.partition}")

    def _check_not_failed(self) -> None:
        if self.log.failure is not None or self.shared_sync.code is not None:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(self.partition))

    def note(self, writer: Writer, count: int, size: int, given: int, timestamp: int) -> None:
        """Record what the open batch accepted of `given` bytes. Before, it had `count` records and `size` bytes."""
        batch = self.open_batch
        if batch is not None and batch.builder.count > count:
            batch.note(writer, count, timestamp)
            self.context.space.take(batch.builder.size - size, given)

    # --- writers that wait for a buffer ------------------------------------------------------------------------------
    #
    # A writer that closed file A before it opened file B must find A's record before B's. RELEASE requests reach the
    # daemon in the order of close(2), but trio wakes the tasks that wait for one event in any order. So a writer that
    # finds no buffer gets its turn when it asks, not when it runs.

    @property
    def has_space(self) -> bool:
        """Whether `split` would accept a record now."""
        if self._turns:
            return False
        return self.open_batch is not None or (
            not self._queue.is_full and self.context.memory.has_space(self._capacity())
        )

    def must_wait(self, writer: Writer) -> bool:
        """Whether other writers came earlier and still wait. False for the writer that was served last."""
        return bool(self._turns) and self._served is not writer

    def wait_for_space(self, writer: Writer, size: int = 0) -> Coroutine[Any, Any, None]:
        """Take the last turn now; return a coroutine that waits for the turn and for a free buffer.

        After it an open batch can hold a record that alone makes a batch of `size` bytes. Call `split` or `append`
        again before any other await, or another writer may use the space. OSError ESHUTDOWN if the mount ends.
        """
        turn = trio.Event()
        self._turns.append(turn)
        if len(self._turns) == 1:
            turn.set()
        return self._serve(turn, writer, size)

    async def _serve(self, turn: trio.Event, writer: Writer, size: int) -> None:
        try:
            await turn.wait()
            self._served = None  # the previous writer has had its turn
            await self._find_space(size)
            self._served = writer
        finally:
            self._turns.remove(turn)
            if self._turns:
                self._turns[0].set()

    async def _find_space(self, size: int) -> None:
        self.seal()
        memory = self.context.memory
        while True:
            await self._queue.wait_for_place()
            builder = await memory.take(self._capacity(size), self.log.config.compression)
            if not self._queue.is_full:
                self._start(builder)
                return
            memory.give_back(builder)

    # --- the open batch ----------------------------------------------------------------------------------------------

    @property
    def open_bytes(self) -> int:
        """The memory of the open batch."""
        return 0 if self.open_batch is None else self.open_batch.builder.bytes_max

    def _capacity(self, size: int = 0) -> int:
        """Return the capacity of a new batch that a record of `size` must fit into."""
        share = self.context.memory.share_of(self.partition)
        return max(size, min(self._options.batch_bytes, self.batch_bytes_max, share))

    def _begin(self, size: int = 0, *, may_seal_others: bool = True) -> AppendBatch | None:
        memory, capacity = self.context.memory, self._capacity(size)
        if self._queue.is_full or not (may_seal_others or memory.has_space(capacity)):
            return None
        builder = memory.take_nowait(capacity, self.log.config.compression)
        return None if builder is None else self._start(builder)

    def _start(self, builder: BatchBuilder) -> AppendBatch:
        self._all.filling[self] = None
        self.batches_begun += 1
        if self._options.linger_ms:
            batch = self.open_batch = AppendBatch(builder, trio.current_time() + self._options.linger_ms / 1000)
            self._all.seal_at(batch.due)
        else:
            batch = self.open_batch = AppendBatch(builder)
        return batch

    def begin_anew(self, size: int) -> bool:
        """Queue the open batch and start one for a record of `size`. False if that is not possible, or not now."""
        self.seal()
        return size <= self.batch_bytes_max and self._begin(size) is not None

    def begin_if_free(self, size: int) -> AppendBatch | None:
        """Start a batch for a record of `size` if none is open. None if there is no free memory.

        This never seals other batches to free memory: compiled code may be filling them.
        """
        return None if size > self.batch_bytes_max else self._begin(size, may_seal_others=False)

    def seal_unless_lingering(self) -> None:
        """Queue the open batch now if `linger-ms` is 0."""
        if not self._options.linger_ms:
            self.seal()

    def seal(self) -> None:
        """Queue the open batch if it has records."""
        batch = self._surrender()
        if batch is None:
            return
        if batch.builder.is_empty:
            self._queue.let_go(batch)
        else:
            self._queue.put(batch)

    def _surrender(self) -> AppendBatch | None:
        batch, self.open_batch = self.open_batch, None
        self._all.filling.pop(self, None)
        return batch

    # --- drain and sync ----------------------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Return when all accepted records are in the segment file, or were lost and reported to their writers."""
        self.seal()
        await self._queue.drain()

    async def sync(self) -> None:
        """Return when all accepted records are on disk. OSError if this or an earlier sync failed.

        This includes the unfinished records of closed files.
        """
        await self.context.files.wait_released((self.partition,))
        await self.drain()
        self._check_not_failed()
        await self.shared_sync.sync()

    @property
    def is_dirty(self) -> bool:
        """Whether an accepted record is not yet on disk."""
        return self.open_batch is not None or bool(self._turns) or not self._queue.is_empty or self.shared_sync.is_dirty

    @property
    def unsynced(self) -> Unsynced:
        """The accepted records that are not yet on disk. From other threads it is an estimate."""
        batch, written = self.open_batch, self._queue.unsynced + self.shared_sync.unsynced
        if batch is None or batch.builder.is_empty:
            return written
        return Unsynced(1, batch.builder.count, batch.builder.size) + written


def check(accumulators: Sequence[Accumulator], size: int, *, has_key: bool) -> None:
    """Raise OSError as `Accumulator.split` if a record of about `size` bytes cannot be accepted by all of them.

    Ignores free buffers. Measures each disk once.
    """
    context = accumulators[0].context
    context.refresh_config()
    for accumulator in accumulators:
        accumulator.check_state(has_key=has_key)
    if context.memory.is_closed:
        raise OSError(errno.ESHUTDOWN, os.strerror(errno.ESHUTDOWN))
    is_beginning = any(accumulator.open_batch is None for accumulator in accumulators)
    for space in {accumulator.context.space for accumulator in accumulators}:
        if is_beginning:
            space.measure()
        space.check(size)


async def sync_all(accumulators: Iterable[Accumulator]) -> dict[TopicPartition, OSError]:
    """Return when all accepted records are on disk; the result has the partitions for which that failed."""
    failures: dict[TopicPartition, OSError] = {}

    async def sync(accumulator: Accumulator) -> None:
        try:
            await accumulator.sync()
        except OSError as error:
            failures[accumulator.partition] = error

    async with trio.open_nursery() as nursery:
        for pending in accumulators:
            nursery.start_soon(sync, pending)
    return failures


class Accumulators:
    """All accumulators of a mount, with their memory, clock, threads and free space."""

    def __init__(
        self,
        directory: AnyLogDirectory,
        options: MountOptions,
        nursery: trio.Nursery,
        on_written: Callable[[], None] = lambda: None,
        counters: Counters | None = None,
        error_log: ErrorLog | None = None,
    ) -> None:
        """Work in `nursery` until `close`. `on_written` is called on the loop when batches were written."""
        self.context = AppendContext(
            options,
            nursery,
            AppendMemory(options.buffer_bytes, self._give_way),
            Deadlines(),
            OpenFiles(),
            FreeSpace(directory.directories[0].path, self._release_preallocations),
            directory.refresh_config,
            trio.CapacityLimiter(min(APPEND_THREADS, options.threads_max)),
            trio.CapacityLimiter(CORES),
            trio.CapacityLimiter(min(SYNC_THREADS, options.threads_max)),
            on_written,
            counters or Counters(),
            error_log or ErrorLog(),
        )
        self._context_at = {directory.directories[0].path: self.context}
        self._directory = directory
        self.by_partition: dict[TopicPartition, Accumulator] = {}
        """The accumulators of the partitions that were opened for appending."""
        self.filling: dict[Accumulator, None] = {}  # accumulators with an open batch, the oldest first
        self._is_seal_planned = False
        self._scope = trio.CancelScope()
        nursery.start_soon(self._keep_time)

    def of(self, partition: TopicPartition) -> Accumulator:
        """Return the accumulator of `partition`. The first call raises as `LogDirectory.log`."""
        accumulator = self.by_partition.get(partition)
        if accumulator is None or accumulator.log.is_gone:
            accumulator = self.by_partition[partition] = Accumulator(self, self._directory.log(partition))
        return accumulator

    def context_at(self, directory: str) -> AppendContext:
        """Return the context of the partitions in the log directory at this path, which has its own free space."""
        context = self._context_at.get(directory)
        if context is None:
            space = FreeSpace(directory, self._release_preallocations)
            context = self._context_at[directory] = dataclasses.replace(self.context, space=space)
        return context

    def appended(self, partition: TopicPartition) -> None:
        """Plan the sync of a log that any writer has appended to. On the event loop; never waits."""
        accumulator = self.by_partition.get(partition)
        if accumulator is None or accumulator.log.is_gone:
            log = self._directory.ready(partition)
            if log is None:  # its table is locked
                self.context.deadlines.at(trio.current_time() + READY_S, lambda: self.appended(partition))
                return
            accumulator = self.by_partition[partition] = Accumulator(self, log)
        accumulator.shared_sync.plan()

    async def forget(self, partition: TopicPartition) -> None:
        """Write the accepted records of a partition that is about to be deleted, and drop its accumulator."""
        accumulator = self.by_partition.pop(partition, None)
        if accumulator is not None:
            await self.context.files.wait_released((partition,))
            await accumulator.drain()

    def seal_at(self, due: float) -> None:
        """Plan to seal the open batches whose linger time is over. One deadline serves all of them."""
        if not self._is_seal_planned:
            self._is_seal_planned = True
            self.context.deadlines.at(due, self._seal_due)

    def _seal_due(self) -> None:
        self._is_seal_planned = False
        now = trio.current_time()
        for accumulator in list(self.filling):
            batch = accumulator.open_batch
            if batch is not None and batch.due > now:
                self.seal_at(batch.due)
                break
            accumulator.seal()

    def _give_way(self, size: int) -> None:
        """Seal open batches, the largest and oldest first, to free at least `size` bytes of memory.

        If each shortage freed one batch, each record would cause one; if it freed all, batches would be tiny.
        """
        memory = self.context.memory
        sealed = memory.lent_bytes - sum(filling.open_bytes for filling in self.filling)
        if sealed >= size:
            return  # the queued batches free enough
        wanted = max(size, memory.bytes_max // GIVEN_WAY_SHARE) - sealed
        by_size = sorted(self.filling, key=lambda filling: filling.open_bytes, reverse=True)
        for accumulator in by_size:
            if wanted <= 0:
                break
            wanted -= accumulator.open_bytes
            accumulator.seal()

    def _release_preallocations(self) -> None:
        for accumulator in self.by_partition.values():
            accumulator.log.release_preallocation()

    async def _keep_time(self) -> None:
        with self._scope:
            await self.context.deadlines.run()

    async def release_all(self) -> None:
        """Release every registered writer, as if all files were closed: unfinished lines become records."""
        for writer in list(self.context.files.writers):
            await writer.release()

    async def flush_all(self) -> dict[TopicPartition, OSError]:
        """Return when all accepted records are on disk; the result has the partitions for which that failed."""
        return await sync_all([accumulator for accumulator in self.by_partition.values() if accumulator.is_dirty])

    def unsynced_partitions(self) -> list[TopicPartition]:
        """Return the partitions with accepted records that are not yet on disk."""
        return [partition for partition, accumulator in self.by_partition.items() if accumulator.is_dirty]

    def unsynced(self) -> Unsynced:
        """Return the accepted records that are not yet on disk. From any thread."""
        return sum((accumulator.unsynced for accumulator in list(self.by_partition.values())), Unsynced())

    async def close(self) -> dict[TopicPartition, OSError]:
        """Stop, write and sync everything but the unfinished lines of open files; return what failed, as `flush_all`.

        The unfinished records of files that were closed are written.
        """
        await self.context.files.wait_released()
        self.context.memory.close()  # refuses records, and ends waiting writers; accepted records are still written
        await self.release_all()
        failures = await self.flush_all()
        self._scope.cancel()
        return failures
