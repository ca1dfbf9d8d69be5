"""Batches appended records, one open batch per partition; writes a batch if it is full, old enough, or on flush.

    write(2) → AppendHandle → Accumulator.split → open batch → AppendQueue → Log.append, in a thread → segment file
                                                                   └→ SharedSync → on disk

Compiled code encodes lines directly into the open batch, on the event loop. A batch is sealed and queued if it is
full, if `linger-ms` has passed, or by `drain`. The next batch fills while the queue is written.

Guarantees: records keep the order of the calls. After `drain` they are in the segment file, after `sync` on disk. A
loss is reported to every writer that has records in the lost batch. The partition accepts further records, unless the
engine has failed its log.

Other modules: framing (handles), ordered writing and its failures (append_queue), the limit on memory (buffers), the
scope of a sync (shared_sync). Errors are OSError. Corresponds to Kafka's RecordAccumulator and Sender.
"""

from __future__ import annotations

import dataclasses
import errno
import functools
import os
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import trio

from offsetfs.fs.appends import json_batches
from offsetfs.fs.appends.append_queue import AppendContext, AppendQueue
from offsetfs.fs.appends.batches import CORES, AppendBatch
from offsetfs.fs.appends.buffers import Buffers, FairShare, UnfinishedBytes
from offsetfs.fs.appends.closing import Closing
from offsetfs.fs.appends.deadlines import Deadlines
from offsetfs.fs.appends.framing import Taken
from offsetfs.fs.appends.free_space import FreeSpace
from offsetfs.fs.appends.shared_sync import SharedSync, Writer
from offsetfs.fs.appends.writer_queue import WriterQueue
from offsetfs.fs.nodes import Buffer
from offsetfs.fs.options import MountOptions
from offsetfs.fs.reporting.counters import Counters
from offsetfs.fs.reporting.error_log import ErrorLog
from offsetfs.fs.reporting.errors import errno_of
from offsetfs.storage import AnyLogDirectory, BatchBuilder, Log, TopicPartition, Unsynced, record_size
from offsetfs.storage.records import HEADER_SIZE, REFUSE, bytes_max_within

APPEND_THREADS = 4
SYNC_THREADS = 16
READY_S = 1.0  # between two looks at a log whose table is locked
GIVEN_WAY_SHARE = 8
"""A shortage frees this fraction of the memory of open batches: one part in so many."""
UNFINISHED_BYTES_MIN = 16 << 20
"""Unfinished records may take as much memory as open batches, but at least this: a line of JSON for a record of a
megabyte takes at most twelve."""


class Accumulator:
    """Accepts the records of one partition. All methods run on the event loop."""

    def __init__(self, accumulators: Accumulators, log: Log) -> None:
        self.partition = log.partition
        self.log = log
        self._all = accumulators
        self._context = context = accumulators.context_at(os.path.dirname(log.path))
        self._options = context.options
        self._open: AppendBatch | None = None
        self.batches_begun = 0
        """How many batches were started so far, the open one included."""
        self._sync = SharedSync(
            log,
            context.options,
            context.nursery,
            context.deadlines,
            context.sync_limiter,
            context.counters,
            context.error_log,
        )
        self._queue = AppendQueue(log, context, self._sync, self._surrender)
        self._waiting_writers = WriterQueue()

    # --- limits of a record ------------------------------------------------------------------------------------------

    @property
    def batch_bytes_max(self) -> int:
        """The largest batch that can be appended, header included, in bytes before compression."""
        config = self.log.config
        sizes = (config.max_message_bytes, config.segment_bytes, self._options.buffer_bytes)
        return bytes_max_within(config.compression, *sizes)

    def batch_size(self, key: Buffer | None, value: Buffer | None, headers: Sequence[tuple[str, Buffer | None]]) -> int:
        """Return the size of a batch with this one record, in bytes. Callers compare it with `batch_bytes_max`."""
        return HEADER_SIZE + record_size(key, value, headers)

    @property
    def space(self) -> FreeSpace:
        """The free space of the log directory that contains the log."""
        return self._context.space

    @property
    def unfinished(self) -> UnfinishedBytes:
        """The memory of unfinished records."""
        return self._all.unfinished

    @property
    def closing(self) -> Closing:
        """The files of this mount that were closed with an unfinished record."""
        return self._all.closing

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """The partitions that records may go to."""
        return frozenset((self.partition,))

    @property
    def values_as_text(self) -> bool:
        """Whether a JSON value that is no string is stored as its text."""
        return self._options.json_values != REFUSE

    @property
    def request_timeout_s(self) -> float | None:
        """How long the kernel lets a request wait, in seconds."""
        return self._options.request_timeout_s

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
        self.check(end - start, has_key=False)
        while start < end and not self.must_wait(writer):
            batch = self._open or self._begin(self._capacity)
            if batch is None:
                break
            builder = batch.builder
            count, size = builder.count, builder.size
            rest = builder.split(data, start, end, timestamp)
            if rest == start and not count:
                line = memoryview(data)[start : data.index(b"\n", start)]
                if not self.begin_anew(self.batch_size(None, line, ())):
                    break
                continue
            self.note(writer, count, size, rest - start, timestamp)
            start = rest
            if start < end:
                self._seal()
                if is_one_batch or writer.code is not None:  # the append at once failed: no record may follow the gap
                    break
        self.seal_unless_lingering()
        return start

    def split_json(self, data: bytes | bytearray, start: int, end: int, timestamp: int, writer: Writer) -> Taken:
        """Append the lines of `data[start:end]`, each a JSON object; return how far it got, and why it stopped.

        As `split`. A line that is no record is a `fault`; in a compacted log also a line without a key.
        `timestamp`: for records without their own.
        """
        self.check(end - start, has_key=True)
        return json_batches.split([self], [writer], 0, data, start, end, timestamp).taken

    def append_value(self, value: Buffer, timestamp: int, writer: Writer) -> bool:
        """Append one record without a key, as `append`. False also if it is larger than `batch_bytes_max`."""
        if self.batch_size(None, value, ()) > self.batch_bytes_max:
            return False
        return self.append(None, value, (), timestamp, writer)

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
        size = self.batch_size(key, value, headers)
        self.check(size, has_key=key is not None)
        while not self.must_wait(writer):
            batch = self._open or self._begin(max(size, self._capacity))
            if batch is None:
                break
            count, before = batch.builder.count, batch.builder.size
            if batch.builder.append(key, value, headers, timestamp):
                self.note(writer, count, before, size, timestamp)
                self.seal_unless_lingering()
                return True
            self._seal()
        return False

    def must_wait(self, writer: Writer) -> bool:
        """Whether earlier writers than `writer` wait for a buffer."""
        return self._waiting_writers.is_ahead_of(writer)

    def wait_for_space(self, writer: Writer, size: int = 0) -> Coroutine[Any, Any, None]:
        """Join the queue of waiting writers now; return a coroutine that waits for the turn and for a free buffer.

        After it an open batch can hold a record that alone makes a batch of `size` bytes. Call `split` or `append`
        again before any other await, or another writer may use the space. OSError ESHUTDOWN if the mount ends.
        """
        return self._waiting_writers.join(writer, functools.partial(self._find_space, size))

    async def _find_space(self, size: int) -> None:
        self._seal()
        while True:
            while self._queue.is_full:
                await self._queue.wait()
            builder = await self._context.buffers.take(max(size, self._capacity), self.log.config.compression)
            if not self._queue.is_full:
                self._start(builder)
                return
            self._context.buffers.give_back(builder)

    @property
    def has_space(self) -> bool:
        """Whether `split` would accept a record now."""
        if not self._waiting_writers.is_empty:
            return False
        return self._open is not None or (not self._queue.is_full and self._context.buffers.has_space(self._capacity))

    def check(self, size: int, *, has_key: bool) -> None:
        """Raise OSError as `split` if a record of about `size` bytes cannot be accepted. Ignores free buffers."""
        self._all.check([self], size, has_key=has_key)

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
        if self.log.failure is not None or self._sync.code is not None:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(self.partition))

    def note(self, writer: Writer, count: int, size: int, given: int, timestamp: int) -> None:
        """Record what the open batch accepted of `given` bytes. Before, it had `count` records and `size` bytes."""
        batch = self._open
        if batch is not None and batch.builder.count > count:
            batch.note(writer, count, timestamp)
            self._context.space.take(batch.builder.size - size, given)

    # --- the open batch ----------------------------------------------------------------------------------------------

    @property
    def open_batch(self) -> AppendBatch | None:
        """The open batch, if there is one."""
        return self._open

    @property
    def open_bytes(self) -> int:
        """The memory of the open batch."""
        return 0 if self._open is None else self._open.builder.bytes_max

    @property
    def _capacity(self) -> int:
        return self._capacity_within(self.batch_bytes_max)

    def _capacity_within(self, bytes_max: int) -> int:
        return min(self._options.batch_bytes, bytes_max, self._context.share.of(self.partition))

    def _begin(self, capacity: int) -> AppendBatch | None:
        if self._queue.is_full:
            return None
        builder = self._context.buffers.take_nowait(capacity, self.log.config.compression)
        return None if builder is None else self._start(builder)

    def _start(self, builder: BatchBuilder) -> AppendBatch:
        self._all.filling[self] = None
        self.batches_begun += 1
        if self._options.linger_ms:
            batch = self._open = AppendBatch(builder, trio.current_time() + self._options.linger_ms / 1000)
            self._all.seal_at(batch.due)
        else:
            batch = self._open = AppendBatch(builder)
        return batch

    def begin_anew(self, size: int) -> bool:
        """Queue the open batch and start one for a record of `size`. False if that is not possible, or not now."""
        self._seal()
        return size <= self.batch_bytes_max and self._begin(max(size, self._capacity)) is not None

    def begin_if_free(self, size: int) -> AppendBatch | None:
        """Start a batch for a record of `size` if none is open. None if there is no free memory.

        This never seals other batches to free memory: compiled code may be filling them.
        """
        bytes_max = self.batch_bytes_max
        capacity = max(size, self._capacity_within(bytes_max))
        if size > bytes_max or self._queue.is_full or not self._context.buffers.has_space(capacity):
            return None
        builder = self._context.buffers.take_nowait(capacity, self.log.config.compression)
        return None if builder is None else self._start(builder)

    def seal_unless_lingering(self) -> None:
        """Queue the open batch now if `linger-ms` is 0."""
        if not self._options.linger_ms:
            self._seal()

    def _seal(self) -> None:
        """Queue the open batch if it has records."""
        batch = self._surrender()
        if batch is None:
            return
        if batch.builder.is_empty:
            self._queue.let_go(batch)
        else:
            self._queue.put(batch)

    seal = _seal

    def _surrender(self) -> AppendBatch | None:
        batch, self._open = self._open, None
        self._all.filling.pop(self, None)
        return batch

    # --- drain and sync ----------------------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Return when all accepted records are in the segment file, or were lost and reported to their writers."""
        self._seal()
        await self._queue.drain()

    async def sync(self) -> None:
        """Return when all accepted records are on disk. OSError if this or an earlier sync failed.

        This includes the unfinished records of closed files.
        """
        await self.closing.wait_released(self.partitions)
        await self.drain()
        self._check_not_failed()
        await self._sync.sync()

    def enter(self, writer: Writer) -> None:
        """Register a writer, until `leave`."""
        self._all.writers.add(writer)

    def leave(self, writer: Writer) -> None:
        """Drop all references to a closed writer."""
        self._all.writers.discard(writer)
        self._sync.forget(writer)

    @property
    def is_dirty(self) -> bool:
        """Whether an accepted record is not yet on disk."""
        return (
            self._open is not None
            or not self._waiting_writers.is_empty
            or not self._queue.is_empty
            or self._sync.is_dirty
        )

    @property
    def unsynced(self) -> Unsynced:
        """The accepted records that are not yet on disk. From other threads it is an estimate."""
        batch, written = self._open, self._queue.unsynced + self._sync.unsynced
        if batch is None or batch.builder.is_empty:
            return written
        return Unsynced(1, batch.builder.count, batch.builder.size) + written

    def plan_sync(self) -> None:
        """Plan the sync of records that came into the log by another way, such as a broker in this process."""
        self._sync.plan()


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
            Buffers(options.buffer_bytes, self._give_way),
            FairShare(options.buffer_bytes),
            Deadlines(),
            FreeSpace(directory.directories[0].path, self._release_preallocations),
            trio.CapacityLimiter(min(APPEND_THREADS, options.threads_max)),
            trio.CapacityLimiter(CORES),
            trio.CapacityLimiter(min(SYNC_THREADS, options.threads_max)),
            on_written,
            counters or Counters(),
            error_log or ErrorLog(),
        )
        self._context_at = {directory.directories[0].path: self.context}
        self._directory = directory
        self.refresh_config = directory.refresh_config
        self.unfinished = UnfinishedBytes(max(options.buffer_bytes, UNFINISHED_BYTES_MIN))
        self.closing = Closing()
        self.filling: dict[Accumulator, None] = {}  # accumulators with an open batch, the oldest first
        self._is_seal_planned = False
        self.writers: set[Writer] = set()  # open handles, for the end of the mount
        self.is_stopped = False
        self._of: dict[TopicPartition, Accumulator] = {}
        self._scope = trio.CancelScope()
        nursery.start_soon(self._keep_time)

    def of(self, partition: TopicPartition) -> Accumulator:
        """Return the accumulator of `partition`. The first call raises as `LogDirectory.log`."""
        accumulator = self._of.get(partition)
        if accumulator is None or accumulator.log.is_gone:
            accumulator = self._of[partition] = Accumulator(self, self._directory.log(partition))
        return accumulator

    def context_at(self, directory: str) -> AppendContext:
        """Return the context of the partitions in the log directory at this path, which has its own free space."""
        context = self._context_at.get(directory)
        if context is None:
            space = FreeSpace(directory, self._release_preallocations)
            context = self._context_at[directory] = dataclasses.replace(self.context, space=space)
        return context

    def appended(self, partition: TopicPartition) -> None:
        """Plan the sync of what was appended to a log, whatever has appended it. On the event loop; never waits."""
        accumulator = self._of.get(partition)
        if accumulator is None or accumulator.log.is_gone:
            log = self._directory.ready(partition)
            if log is None:  # its table is locked
                self.context.deadlines.at(trio.current_time() + READY_S, lambda: self.appended(partition))
                return
            accumulator = self._of[partition] = Accumulator(self, log)
        accumulator.plan_sync()

    def check(self, accumulators: Sequence[Accumulator], size: int, *, has_key: bool) -> None:
        """Raise OSError as `Accumulator.check` for the first one that cannot accept it. Measures each disk once."""
        self.refresh_config()
        for each in accumulators:
            each.check_state(has_key=has_key)
        if self.is_stopped:
            raise OSError(errno.ESHUTDOWN, os.strerror(errno.ESHUTDOWN))
        is_beginning = any(each.open_batch is None for each in accumulators)
        for space in {each.space for each in accumulators}:
            if is_beginning:
                space.measure()
            space.check(size)

    def known(self, partition: TopicPartition) -> Accumulator | None:
        """Return the accumulator of `partition` if it was opened for appending, else None."""
        return self._of.get(partition)

    async def forget(self, partition: TopicPartition) -> None:
        """Write the accepted records of a partition that is about to be deleted, and drop its accumulator."""
        accumulator = self._of.pop(partition, None)
        if accumulator is not None:
            await self.closing.wait_released(accumulator.partitions)
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
        buffers = self.context.buffers
        sealed = buffers.lent_bytes - sum(each.open_bytes for each in self.filling)
        if sealed >= size:
            return  # the queued batches free enough
        wanted = max(size, buffers.bytes_max // GIVEN_WAY_SHARE) - sealed
        by_size = sorted(self.filling, key=lambda each: each.open_bytes, reverse=True)
        for accumulator in by_size:
            if wanted <= 0:
                break
            wanted -= accumulator.open_bytes
            accumulator.seal()

    def _release_preallocations(self) -> None:
        for accumulator in self._of.values():
            accumulator.log.release_preallocation()

    async def _keep_time(self) -> None:
        with self._scope:
            await self.context.deadlines.run()

    async def release_all(self) -> None:
        """Release every registered writer, as if all files were closed: unfinished lines become records."""
        for writer in list(self.writers):
            await writer.release()

    async def flush_all(self) -> dict[TopicPartition, OSError]:
        """Return when all accepted records are on disk; the result has the partitions for which that failed."""
        failures: dict[TopicPartition, OSError] = {}

        async def sync(accumulator: Accumulator) -> None:
            try:
                await accumulator.sync()
            except OSError as error:
                failures[accumulator.partition] = error

        async with trio.open_nursery() as nursery:
            for accumulator in [each for each in self._of.values() if each.is_dirty]:
                nursery.start_soon(sync, accumulator)
        return failures

    def unsynced_partitions(self) -> list[TopicPartition]:
        """Return the partitions with accepted records that are not yet on disk."""
        return [partition for partition, each in self._of.items() if each.is_dirty]

    def unsynced(self) -> Unsynced:
        """Return the accepted records that are not yet on disk. From any thread."""
        return sum((accumulator.unsynced for accumulator in list(self._of.values())), Unsynced())

    def stop(self) -> None:
        """Accept no more records, and end waiting writers with ESHUTDOWN. Accepted records are still written."""
        self.is_stopped = True
        self.context.buffers.close()

    async def close(self) -> dict[TopicPartition, OSError]:
        """Stop, write and sync everything but the unfinished lines of open files; return what failed, as `flush_all`.

        The unfinished records of files that were closed are written.
        """
        await self.closing.wait_released()
        self.stop()
        await self.release_all()
        failures = await self.flush_all()
        self._scope.cancel()
        return failures
