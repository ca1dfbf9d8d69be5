"""A batch on its way: open, then sealed, then done, and whose records are in it.

Sealing a compressed batch takes ten times as long as writing it, so a thread does it ahead of its turn, several at
once; what order they are appended in is append_queue's to keep. A builder is given back when neither the queue nor such
a thread needs it any more.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Sequence

import trio

from offsetfs.fs.appends.buffers import Buffers
from offsetfs.fs.appends.shared_sync import Writer
from offsetfs.fs.threads import in_thread
from offsetfs.storage.partition.log import Appended
from offsetfs.storage.records.batch_builder import BatchBuilder, SealedBatch

CORES = len(os.sched_getaffinity(0))
AHEAD_MAX = min(CORES, 4)
"""How many batches of one partition are compressed at once; all partitions together: one on each core."""

AHEAD_BYTES_MIN = 64 << 10
"""Smaller batches are compressed by who appends them: several at a time cost one thread, not one each."""


class AppendBatch:
    """An open or sealed batch, and whose records are in it. All but `seal` is called on the event loop."""

    # A topic of a thousand partitions opens a thousand of these at once. What few of them need is made on demand: the
    # garbage collector visits each object that lives for some milliseconds several times (25 % of the time, measured).
    __slots__ = ("_ahead", "_end", "_parts", "_sealed", "builder", "due", "is_done", "where", "writers")

    def __init__(self, builder: BatchBuilder, due: float = math.inf) -> None:
        self.builder = builder
        self.due = due
        """When it has lingered for `linger-ms`, on trio's clock."""
        self.writers: set[Writer] = set()
        self.is_done = False
        """Whether it is in the log, or lost."""
        self._parts: list[tuple[Writer, int, int, int]] | None = None
        self._end: trio.Event | None = None  # set when it is done; for tasks that wait
        self._ahead: trio.Event | None = None  # set when the thread that seals it has ended
        self._sealed: SealedBatch | None = None
        self.where: Appended | None = None
        """Where it is in the log, once it is there."""

    def note(self, writer: Writer, first: int, timestamp: int) -> None:
        """The records from number `first` on are the writer's."""
        self.writers.add(writer)
        if writer.wants_offsets:
            if self._parts is None:
                self._parts = []
            self._parts.append((writer, first, self.builder.count - first, timestamp))

    @property
    def parts(self) -> Sequence[tuple[Writer, int, int, int]]:
        """Writer, first record, count and timestamp of the records whose writers want to know their offsets."""
        return self._parts or ()

    async def wait(self) -> None:
        """Return when it is in the log, or lost."""
        if not self.is_done:
            if self._end is None:
                self._end = trio.Event()
            await self._end.wait()

    def seal(self) -> SealedBatch:
        """Return the finished batch, made now unless that was done ahead. Any thread.

        Raises what compressing raises, but for a MemoryError: then the batch is stored without compression. A
        MemoryError leaves the batch as it was.
        """
        if self._sealed is None:
            try:
                self._sealed = self.builder.seal()
            except MemoryError:
                self._sealed = self.builder.seal(is_compressed=False)
        return self._sealed

    @property
    def size(self) -> int:
        """The bytes that it takes in the file, as far as that is known: before compression where it is not sealed."""
        return self.builder.size if self._sealed is None else self._sealed.size

    @property
    def is_quickly_sealed(self) -> bool:
        """Whether `seal` costs no more than a checksum: it was done, or nothing is to be compressed."""
        return self._sealed is not None or not self.builder.compression.codec

    # --- ahead of its turn -------------------------------------------------------------------------------------------

    @property
    def is_worth_a_thread(self) -> bool:
        """Whether sealing it ahead pays."""
        return self.builder.compression.codec != 0 and self.builder.size >= AHEAD_BYTES_MIN

    @property
    def is_in_work(self) -> bool:
        """Whether a thread seals it, or is about to: nobody else may touch it now."""
        return self._ahead is not None and not self._ahead.is_set()

    def seal_ahead(self, nursery: trio.Nursery, limiter: trio.CapacityLimiter, buffers: Buffers) -> None:
        """Begin to seal it in a thread. It may be done, for the writers, before that has ended: its log failed."""
        self._ahead = trio.Event()
        nursery.start_soon(self._seal_ahead, self._ahead, limiter, buffers)

    async def _seal_ahead(self, ahead: trio.Event, limiter: trio.CapacityLimiter, buffers: Buffers) -> None:
        try:
            # What is raised here is raised again where it is appended, and told there; without a thread it is sealed
            # there.
            with trio.CancelScope(shield=True), contextlib.suppress(Exception):
                await in_thread(self._seal_unless_done, limiter=limiter)
        finally:
            ahead.set()
            if self.is_done:
                buffers.give_back(self.builder)

    def _seal_unless_done(self) -> None:
        if not self.is_done:
            self.seal()

    async def sealed_ahead(self) -> None:
        """Return when no thread seals it any more."""
        if self._ahead is not None:
            await self._ahead.wait()

    def finish(self, buffers: Buffers) -> None:
        """It is in the log, or lost: give the builder back as soon as no thread works in it."""
        self.is_done = True
        if self._end is not None:
            self._end.set()
        if not self.is_in_work:
            buffers.give_back(self.builder)
