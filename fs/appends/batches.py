"""A batch of appended records: open, then sealed, then done; and the writers of its records.

Sealing a compressed batch takes ten times as long as writing it, so threads seal several batches in parallel, before
their turn; `append_queue` keeps the order of the appends. A builder returns to the pool when neither the queue nor a
thread uses it.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Sequence

import trio

from offsetfs.common.threads import in_thread
from offsetfs.fs.appends.context import AppendContext
from offsetfs.fs.appends.memory import AppendMemory
from offsetfs.fs.appends.open_files import Writer
from offsetfs.storage import Appended, BatchBuilder, SealedBatch

CORES = len(os.sched_getaffinity(0))
AHEAD_MAX = min(CORES, 4)
"""The number of batches of one partition that are compressed in parallel. All partitions together: one per core."""

AHEAD_BYTES_MIN = 64 << 10
"""Smaller batches are compressed during the append: several of them then take one thread, not one each."""


class AppendBatch:
    """An open or sealed batch, and the writers of its records. All methods but `seal` run on the event loop."""

    # A topic of a thousand partitions opens a thousand of these at once. What few of them need is made on demand: the
    # garbage collector visits each object that lives for some milliseconds several times (25 % of the time, measured).
    __slots__ = ("_ahead", "_end", "_parts", "_sealed", "builder", "due", "is_done", "where", "writers")

    def __init__(self, builder: BatchBuilder, due: float = math.inf) -> None:
        self.builder = builder
        self.due = due
        """The time at which `linger-ms` is over, on trio's clock."""
        self.writers: set[Writer] = set()
        self.is_done = False
        """Whether it is in the log, or lost."""
        self._parts: list[tuple[Writer, int, int, int]] | None = None
        self._end: trio.Event | None = None  # set when it is done; for tasks that wait
        self._ahead: trio.Event | None = None  # set when the thread that seals it has ended
        self._sealed: SealedBatch | None = None
        self.where: Appended | None = None
        """The position in the log, after the append."""

    def note(self, writer: Writer, first: int, timestamp: int) -> None:
        """Record that `writer` has added the records from number `first` on."""
        self.writers.add(writer)
        if writer.wants_offsets:
            if self._parts is None:
                self._parts = []
            self._parts.append((writer, first, self.builder.count - first, timestamp))

    @property
    def parts(self) -> Sequence[tuple[Writer, int, int, int]]:
        """Writer, first record, count and timestamp of the records whose writers want acknowledgments."""
        return self._parts or ()

    async def wait(self) -> None:
        """Return when it is in the log, or lost."""
        if not self.is_done:
            if self._end is None:
                self._end = trio.Event()
            await self._end.wait()

    def seal(self) -> SealedBatch:
        """Return the sealed batch; seal it now unless a thread has done so. Any thread.

        Raises the errors of compression, except MemoryError: then the batch is stored uncompressed. If that raises
        MemoryError as well, the batch stays as it was.
        """
        if self._sealed is None:
            try:
                self._sealed = self.builder.seal()
            except MemoryError:
                self._sealed = self.builder.seal(is_compressed=False)
        return self._sealed

    @property
    def size(self) -> int:
        """The size in the file; before it is sealed, the size before compression."""
        return self.builder.size if self._sealed is None else self._sealed.size

    @property
    def is_quickly_sealed(self) -> bool:
        """Whether `seal` costs at most a checksum: it is done already, or the batch is not compressed."""
        return self._sealed is not None or not self.builder.compression.codec

    # --- early sealing -----------------------------------------------------------------------------------------------

    @property
    def is_worth_a_thread(self) -> bool:
        """Whether early sealing in a thread is worth its cost."""
        return self.builder.compression.codec != 0 and self.builder.size >= AHEAD_BYTES_MIN

    @property
    def is_in_work(self) -> bool:
        """Whether a thread seals the batch or will do so: no other code may use it now."""
        return self._ahead is not None and not self._ahead.is_set()

    def seal_ahead(self, context: AppendContext) -> None:
        """Start to seal the batch in a thread. The batch may be done earlier than the thread if its log fails."""
        self._ahead = trio.Event()
        context.nursery.start_soon(self._seal_ahead, self._ahead, context)

    async def _seal_ahead(self, ahead: trio.Event, context: AppendContext) -> None:
        try:
            # An error is ignored here, because the append seals again, raises it again and reports it. Without a thread
            # the append seals the batch.
            with trio.CancelScope(shield=True), contextlib.suppress(Exception):
                await in_thread(self._seal_unless_done, limiter=context.seal_limiter)
        finally:
            ahead.set()
            if self.is_done:
                context.memory.give_back(self.builder)

    def _seal_unless_done(self) -> None:
        if not self.is_done:
            self.seal()

    async def sealed_ahead(self) -> None:
        """Return when no thread seals the batch."""
        if self._ahead is not None:
            await self._ahead.wait()

    def finish(self, memory: AppendMemory) -> None:
        """Mark the batch as written or lost; return the builder as soon as no thread uses it."""
        self.is_done = True
        if self._end is not None:
            self._end.set()
        if not self.is_in_work:
            memory.give_back(self.builder)
