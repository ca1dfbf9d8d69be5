"""One sync for all who wait: the way of one partition's records to the disk.

A caller needs a sync that began after its records were in the file. When one is running that began earlier, it waits
for the next, together with everybody else who came meanwhile: any number of callers cost at most two syncs (group
commit). Syncs run in a thread; appends go on beside them.

A failed sync stands: the errno is reported to everybody whose records it should have covered, and to every later
caller. The log is fenced by then, and nobody may claim that a second sync had saved what the first one lost.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable
from typing import Protocol

import trio

from offsetfs.fs.errors import errno_of

_log = logging.getLogger(__name__)


class Writer(Protocol):
    """Whoever gives records: an open handle."""

    wants_offsets: bool
    """Whether `acknowledged` is to be called."""
    code: int | None
    """The errno with which records were lost after they had been taken, if any were."""

    def failed(self, code: int) -> None:
        """Records were lost, with this errno; the first one stays in `code`."""

    def acknowledged(self, offset: int, count: int, timestamp: int) -> None:
        """The next `count` records are in the file, from `offset` on, all with this timestamp."""

    async def release(self) -> None:
        """The file is closed."""


class SharedSync:
    """Counts what was appended and what of it is on disk, in batches."""

    def __init__(self, flush: Callable[[], None], limiter: trio.CapacityLimiter) -> None:
        self._flush = flush
        self._limiter = limiter
        self._appended = 0
        self._synced = 0
        self._writers: set[Writer] = set()  # of what is appended and not yet synced
        self._running: trio.Event | None = None
        self.code: int | None = None
        """The errno of the sync that failed, if one did."""
        self.records_since = 0
        """Records appended since the last sync began."""
        self.syncs = 0
        self.seconds = 0.0

    @property
    def is_dirty(self) -> bool:
        return self._synced < self._appended and self.code is None

    def note(self, records: int, writers: Iterable[Writer]) -> None:
        """One more batch is in the file, with records of `writers`."""
        self._appended += 1
        self.records_since += records
        self._writers.update(writers)

    def forget(self, writer: Writer) -> None:
        """The writer is gone; nobody is left to tell."""
        self._writers.discard(writer)

    async def sync(self) -> None:
        """Return when everything noted before this call is on disk; OSError when a sync failed, now or ever."""
        target = self._appended
        while self._synced < target or self.code is not None:
            if self.code is not None:
                raise OSError(self.code, os.strerror(self.code))
            if self._running is not None:
                await self._running.wait()
            else:
                await self._run()

    async def _run(self) -> None:
        done = self._running = trio.Event()
        target, writers = self._appended, self._writers
        self._writers, self.records_since = set(), 0
        started = time.perf_counter()
        try:
            # Others wait for the outcome: it is not one caller's to cancel. A thread cannot be cancelled anyway.
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._flush, limiter=self._limiter)
            self._synced = target
        except Exception as error:
            self.code = errno_of(error)
            _log.error("sync failed, nothing later is taken: %s", error)
            for writer in writers | self._writers:
                writer.failed(self.code)
        finally:
            self.syncs += 1
            self.seconds += time.perf_counter() - started
            self._running = None
            done.set()
