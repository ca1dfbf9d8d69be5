"""Records on their way into the logs: one open batch per partition, written when it is full, old or wanted.

    write(2) → AppendHandle → Accumulator.split → open batch → AppendQueue → Log.append, in a thread → segment file
                                                                   └→ SharedSync → on disk

A writer's lines are encoded straight into the open batch, on the event loop, by compiled code. A batch that is full,
or waited `linger-ms`, or is asked for by `drain`, is sealed and queued, and the next one fills while it is written.

Promises: records keep the order in which they were given; after `drain` they are in the segment file; after `sync` on
disk. What is lost is told to every writer it touches; the partition goes on, unless the engine fenced its log.

Leaves to others: framing (handles), writing in order and its failures (append_queue), the bound on memory (buffers),
what a sync covers (shared_sync). Errors are OSError. Follows the purpose of Kafka's RecordAccumulator and Sender.
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
from offsetfs.fs.appends.shared_sync import SharedSync, Unsynced, Writer
from offsetfs.fs.appends.writer_queue import WriterQueue
from offsetfs.fs.counters import Counters
from offsetfs.fs.error_log import ErrorLog
from offsetfs.fs.errors import errno_of
from offsetfs.fs.options import MountOptions
from offsetfs.storage.directory.log_directories import AnyLogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.batch import HEADER_SIZE
from offsetfs.storage.records.batch_builder import BatchBuilder, Buffer, record_size
from offsetfs.storage.records.batch_writer import bytes_max_within
from offsetfs.storage.records.json_values import TEXT

APPEND_THREADS = 4
SYNC_THREADS = 16
GIVEN_WAY_SHARE = 8
"""Which part of the memory of open batches is freed at once, one in so many."""
CARRIED_BYTES_MIN = 16 << 20
"""Unfinished records may take as much as open batches, and this where that is little: one line of JSON for a record of
a megabyte takes twelve at most."""


class Accumulator:
    """The way into one partition. Everything here runs on the event loop."""

    def __init__(self, accumulators: Accumulators, log: Log) -> None:
        self.partition = log.partition
        self.log = log
        self._all = accumulators
        self._context = context = accumulators.context_at(os.path.dirname(log.path))
        self._options = context.options
        self._open: AppendBatch | None = None
        self.batches_begun = 0
        """How many there were so far, the open one included."""
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
        self._room = WriterQueue()

    # --- what a record may be ----------------------------------------------------------------------------------------

    @property
    def batch_bytes_max(self) -> int:
        """The largest batch that can be appended, header included, in bytes before compression."""
        config = self.log.config
        sizes = (config.max_message_bytes, config.segment_bytes, self._options.buffer_bytes)
        return bytes_max_within(config.compression, *sizes)

    def batch_size(self, key: Buffer | None, value: Buffer | None, headers: Sequence[tuple[str, Buffer | None]]) -> int:
        """Return the size of a batch of this one record, in bytes, to be compared with `batch_bytes_max`."""
        return HEADER_SIZE + record_size(key, value, headers)

    @property
    def space(self) -> FreeSpace:
        """The count of free bytes where the log lies."""
        return self._context.space

    @property
    def unfinished(self) -> UnfinishedBytes:
        """The memory of what is unfinished."""
        return self._all.unfinished

    @property
    def closing(self) -> Closing:
        """The files of this mount that were closed with an unfinished record."""
        return self._all.closing

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """Where records may go."""
        return frozenset((self.partition,))

    @property
    def values_as_text(self) -> bool:
        """Whether a JSON value that is no string is taken as its text."""
        return self._options.json_values == TEXT

    @property
    def request_timeout_s(self) -> float | None:
        """How long the kernel lets a request wait, in seconds."""
        return self._options.request_timeout_s

    # --- taking records ----------------------------------------------------------------------------------------------

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
        """Take the complete lines of `data[start:end]` as records; return where the first one begins that was not.

        Never waits. Less than `end` means: there is no room now (`make_room`), or the line there is larger than
        `batch_bytes_max`. OSError EROFS, EIO (fenced), EINVAL (a compacted log takes no record without a key), ENOSPC,
        ESHUTDOWN, ESTALE (deleted) before anything is taken. `timestamp`: milliseconds. With `is_one_batch` it stops
        when a batch is full, too.
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
                if is_one_batch or writer.code is not None:  # appended at once, and failed: nothing may follow the gap
                    break
        self.seal_unless_lingering()
        return start

    def split_json(self, data: bytes | bytearray, start: int, end: int, timestamp: int, writer: Writer) -> Taken:
        """Take the lines of `data[start:end]`, each a JSON object; return how far it came, and what is in the way.

        As `split`; a line that is no record is a `fault`, and so is one without a key where the log is compacted.
        `timestamp`: of records that name none.
        """
        self.check(end - start, has_key=True)
        return json_batches.split([self], [writer], 0, data, start, end, timestamp).taken

    def append_value(self, value: Buffer, timestamp: int, writer: Writer) -> bool:
        """Take one record without a key, as `append`; False also when it is larger than `batch_bytes_max`."""
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
        """Take one record; False when there is no room now (`make_room`). Errors as in `split`.

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
        """Whether other writers wait for room here, and came before `writer`."""
        return self._room.is_ahead_of(writer)

    def make_room(self, writer: Writer, size: int = 0) -> Coroutine[Any, Any, None]:
        """Take a place behind all writers that wait for room now; return what waits for its turn and for room.

        Then a batch is open that has room for a record that alone makes a batch of `size` bytes. Call `split` or
        `append` again, before anything else is awaited. OSError ESHUTDOWN when the mount ends.
        """
        return self._room.join(writer, functools.partial(self._find_room, size))

    async def _find_room(self, size: int) -> None:
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
    def has_room(self) -> bool:
        """Whether `split` would take something now."""
        if not self._room.is_empty:
            return False
        return self._open is not None or (not self._queue.is_full and self._context.buffers.has_room(self._capacity))

    def check(self, size: int, *, has_key: bool) -> None:
        """Raise OSError as `split` does when a record of about `size` bytes could not be taken, room or not."""
        self._all.check([self], size, has_key=has_key)

    def check_state(self, *, has_key: bool) -> None:
        """Raise OSError when the partition takes no such record, whatever its size. Costs nothing: asks no disk."""
        if self.log.is_gone:
            raise OSError(errno.ESTALE, "the partition was deleted", str(self.partition))
        if self.log.unrecovered is not None:
            refusal = self.log.refusal()
            raise OSError(errno_of(refusal), str(refusal), str(self.partition))
        if self._options.read_only or self.log.read_only:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        self._check_fenced()
        if self.log.is_compacted and not has_key:
            reason = "the topic is compacted and takes no record without a key; append.ndjson takes keys"
            raise OSError(errno.EINVAL, reason, f"append to {self.partition}")

    def _check_fenced(self) -> None:
        if self.log.fenced is not None or self._sync.code is not None:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(self.partition))

    def note(self, writer: Writer, count: int, size: int, given: int, timestamp: int) -> None:
        """Book what the open batch took out of `given` bytes, when it had `count` records and `size` bytes before."""
        batch = self._open
        if batch is not None and batch.builder.count > count:
            batch.note(writer, count, timestamp)
            self._context.space.take(batch.builder.size - size, given)

    # --- the open batch ----------------------------------------------------------------------------------------------

    @property
    def open_batch(self) -> AppendBatch | None:
        """The batch that fills, if one does."""
        return self._open

    @property
    def open_bytes(self) -> int:
        """The memory that the open batch takes."""
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
        """Queue the open batch and begin one for a record of `size`; False when there can be none, or not now."""
        self._seal()
        return size <= self.batch_bytes_max and self._begin(max(size, self._capacity)) is not None

    def begin_if_free(self, size: int) -> AppendBatch | None:
        """Begin a batch for a record of `size`, where none is open; None unless there is memory for it as it is.

        Other batches never give way for this one: they may be filling right now.
        """
        bytes_max = self.batch_bytes_max
        capacity = max(size, self._capacity_within(bytes_max))
        if size > bytes_max or self._queue.is_full or not self._context.buffers.has_room(capacity):
            return None
        builder = self._context.buffers.take_nowait(capacity, self.log.config.compression)
        return None if builder is None else self._start(builder)

    def seal_unless_lingering(self) -> None:
        """Queue the open batch now, where nothing waits for company."""
        if not self._options.linger_ms:
            self._seal()

    def _seal(self) -> None:
        """Queue the open batch, if it holds anything."""
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

    # --- into the file, onto the disk --------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Return when everything taken so far is in the segment file, or was lost and its writers told."""
        self._seal()
        await self._queue.drain()

    async def sync(self) -> None:
        """Return when everything taken so far is on disk. OSError when it is not, now or since an earlier sync.

        The unfinished records of files that were closed count as taken.
        """
        await self.closing.wait_released(self.partitions)
        await self.drain()
        self._check_fenced()
        await self._sync.sync()

    def enter(self, writer: Writer) -> None:
        """Know a writer, until it leaves."""
        self._all.writers.add(writer)

    def leave(self, writer: Writer) -> None:
        """Keep no reference to a writer that is gone."""
        self._all.writers.discard(writer)
        self._sync.forget(writer)

    @property
    def is_dirty(self) -> bool:
        """Whether something taken is not yet on disk."""
        return self._open is not None or not self._room.is_empty or not self._queue.is_empty or self._sync.is_dirty

    @property
    def unsynced(self) -> Unsynced:
        """What was taken and is not yet on disk; also asked for by other threads, to which it is an estimate."""
        batch = self._open
        opened = Unsynced(1, batch.builder.size) if batch is not None and not batch.builder.is_empty else Unsynced()
        return opened + self._queue.unsynced + self._sync.unsynced

    @property
    def oldest(self) -> float | None:
        """When the oldest of what is in the file and not yet on disk came there, on trio's clock; None: nothing is."""
        return self._sync.oldest


class Accumulators:
    """All accumulators of a mount, and what they share: memory, clock, threads, the count of free bytes."""

    def __init__(
        self,
        directory: AnyLogDirectory,
        options: MountOptions,
        nursery: trio.Nursery,
        on_append: Callable[[TopicPartition], None] = lambda partition: None,
        counters: Counters | None = None,
        error_log: ErrorLog | None = None,
    ) -> None:
        """Work in `nursery` until `close`. `on_append` is called on the loop whenever a partition has grown."""
        self.context = AppendContext(
            options,
            nursery,
            Buffers(options.buffer_bytes, self._give_way),
            FairShare(options.buffer_bytes),
            Deadlines(),
            FreeSpace(directory.directories[0].path, self._give_back_room),
            trio.CapacityLimiter(min(APPEND_THREADS, options.threads_max)),
            trio.CapacityLimiter(CORES),
            trio.CapacityLimiter(min(SYNC_THREADS, options.threads_max)),
            on_append,
            counters or Counters(),
            error_log or ErrorLog(),
        )
        self._context_at = {directory.directories[0].path: self.context}
        self._directory = directory
        self.refresh_config = directory.refresh_config
        self.unfinished = UnfinishedBytes(max(options.buffer_bytes, CARRIED_BYTES_MIN))
        self.closing = Closing()
        self.filling: dict[Accumulator, None] = {}  # those with an open batch, the oldest first
        self._is_seal_planned = False
        self.writers: set[Writer] = set()  # open handles, for the end of the mount
        self.is_stopped = False
        self._of: dict[TopicPartition, Accumulator] = {}
        self._scope = trio.CancelScope()
        nursery.start_soon(self._keep_time)

    def of(self, partition: TopicPartition) -> Accumulator:
        """Return the accumulator of `partition`; errors of `LogDirectory.log` when it is asked for the first time."""
        accumulator = self._of.get(partition)
        if accumulator is None or accumulator.log.is_gone:
            accumulator = self._of[partition] = Accumulator(self, self._directory.log(partition))
        return accumulator

    def context_at(self, directory: str) -> AppendContext:
        """Return what the partitions in the log directory at this path share: the count of free bytes is its own."""
        context = self._context_at.get(directory)
        if context is None:
            space = FreeSpace(directory, self._give_back_room)
            context = self._context_at[directory] = dataclasses.replace(self.context, space=space)
        return context

    def check(self, accumulators: Sequence[Accumulator], size: int, *, has_key: bool) -> None:
        """Raise OSError as `Accumulator.check` for the first one that could not take it. Each disk is asked once."""
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
        """Return the accumulator of `partition` when something was to be appended there, else None."""
        return self._of.get(partition)

    async def forget(self, partition: TopicPartition) -> None:
        """Write what was taken for a partition that is about to be deleted, and let go of it."""
        accumulator = self._of.pop(partition, None)
        if accumulator is not None:
            await self.closing.wait_released(accumulator.partitions)
            await accumulator.drain()

    def seal_at(self, due: float) -> None:
        """Seal the open batches that have lingered for long enough, at this time: one deadline for all of them."""
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
        """Seal open batches, the largest and oldest first, that take `size` bytes and some more: memory is short.

        If each shortage freed one batch, there would be one for each record; if it freed all, batches would be tiny.
        """
        buffers = self.context.buffers
        sealed = buffers.lent_bytes - sum(each.open_bytes for each in self.filling)
        if sealed >= size:
            return  # enough comes back as it is
        wanted = max(size, buffers.bytes_max // GIVEN_WAY_SHARE) - sealed
        by_size = sorted(self.filling, key=lambda each: each.open_bytes, reverse=True)
        for accumulator in by_size:
            if wanted <= 0:
                break
            wanted -= accumulator.open_bytes
            accumulator.seal()

    def _give_back_room(self) -> None:
        for accumulator in self._of.values():
            accumulator.log.release_preallocation()

    async def _keep_time(self) -> None:
        with self._scope:
            await self.context.deadlines.run()

    async def release_all(self) -> None:
        """Release every writer that is still known, as if all files were closed: unfinished lines become records."""
        for writer in list(self.writers):
            await writer.release()

    async def flush_all(self) -> dict[TopicPartition, OSError]:
        """Return when everything taken so far is on disk, with the partitions of which that cannot be said."""
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

    def unsynced(self) -> Unsynced:
        """Return what was taken and is not yet on disk; from any thread."""
        return sum((accumulator.unsynced for accumulator in list(self._of.values())), Unsynced())

    def stop(self) -> None:
        """Take no more records, and send waiting writers away with ESHUTDOWN. What was taken is still written."""
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
