"""One sync for all who wait: the way of one partition's records to the disk.

A caller needs a sync that began after its records were in the file. When one is running that began earlier, it waits
for the next, together with everybody else who came meanwhile: any number of callers cost at most two syncs (group
commit). Syncs run in a thread; appends go on beside them.

Nobody has to ask: after `flush-messages` records, or `flush-ms` milliseconds after the first one, it syncs by itself;
the shorter of the mount's and the topic's setting counts.

A sync that cannot open a file at the limit of open files, or that lacks memory, asks nothing of the disk: its callers
get EMFILE or ENOMEM, and a later one covers all of it. Where no thread can be started, it runs on the event
loop. Any other failed sync stands: the errno is reported to everybody whose records it should have
covered, and to every later caller. The log is fenced by then, and nobody may claim that a second sync had saved what
the first one lost.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import trio

from offsetfs.fs.appends.deadlines import Deadlines
from offsetfs.fs.counters import Counters
from offsetfs.fs.error_log import ErrorLog
from offsetfs.fs.errors import errno_of
from offsetfs.fs.options import MountOptions
from offsetfs.fs.threads import in_thread_or_here
from offsetfs.storage import files
from offsetfs.storage.partition.log import Log

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Unsynced:
    """What was taken and is not yet on disk. `size`: bytes, before compression where it is not yet in a file."""

    batches: int = 0
    size: int = 0

    def __add__(self, other: Unsynced) -> Unsynced:
        return Unsynced(self.batches + other.batches, self.size + other.size)


class Writer(Protocol):
    """Whoever gives records: an open handle."""

    wants_offsets: bool
    """Whether `acknowledged` is to be called."""
    code: int | None
    """The errno with which records were lost after they had been taken, if any were."""

    def failed(self, code: int) -> None:
        """Records were lost, with this errno; the first one stays in `code`."""

    def acknowledged(self, offset: int, count: int, timestamp: int, partition: int | None = None) -> None:
        """The next `count` records are in the file, from `offset` on, all with this timestamp.

        `partition` is told to those who write to all partitions of a topic.
        """

    async def release(self) -> None:
        """The file is closed."""


_NEVER = 2**63 - 1  # Kafka's way to switch a topic's setting off


class SharedSync:
    """Counts what was appended and what of it is on disk, in batches and bytes."""

    def __init__(
        self,
        log: Log,
        options: MountOptions,
        nursery: trio.Nursery,
        deadlines: Deadlines,
        limiter: trio.CapacityLimiter,
        counters: Counters,
        error_log: ErrorLog,
    ) -> None:
        self._log = log
        self._options = options
        self._nursery = nursery
        self._deadlines = deadlines
        self._limiter = limiter
        self._counters = counters
        self._error_log = error_log
        self._is_planned = False
        self._appended = 0
        self._synced = 0
        self._unsynced_bytes = 0
        self._oldest: float | None = None  # when the first batch after the last sync began was noted, trio's clock
        self._oldest_in_sync: float | None = None  # the same of what the running sync covers
        self._writers: set[Writer] = set()  # of what is appended and not yet synced
        self._running: trio.Event | None = None
        self.code: int | None = None
        """The errno of the sync that failed, if one did."""
        self._records_since = 0  # the last sync began

    @property
    def is_dirty(self) -> bool:
        """Whether something is appended and not on disk, and still can be brought there."""
        return self._synced < self._appended and self.code is None

    @property
    def unsynced(self) -> Unsynced:
        """What is appended and not yet on disk; also asked for by other threads."""
        return Unsynced(self._appended - self._synced, self._unsynced_bytes) if self.is_dirty else Unsynced()

    @property
    def oldest(self) -> float | None:
        """When the oldest of what is not yet on disk came into the file, on trio's clock; None when all of it is."""
        if not self.is_dirty:
            return None
        return self._oldest if self._oldest_in_sync is None else self._oldest_in_sync

    def note(self, records: int, size: int, writers: Iterable[Writer]) -> None:
        """One more batch of `size` bytes is in the file, with records of `writers`."""
        self._appended += 1
        self._unsynced_bytes += size
        self._records_since += records
        if self._oldest is None:
            self._oldest = trio.current_time()
        self._writers.update(writers)
        self._plan()

    def forget(self, writer: Writer) -> None:
        """The writer is gone; nobody is left to tell."""
        self._writers.discard(writer)

    async def sync(self) -> None:
        """Return when everything noted before this call is on disk; OSError when a sync failed, now or ever."""
        target = self._appended
        while self._synced < target or self.code is not None:
            if self.code is not None:
                raise OSError(self.code, os.strerror(self.code), str(self._log.partition))
            if self._running is not None:
                await self._running.wait()
            else:
                await self._run()

    async def _run(self) -> None:
        done = self._running = trio.Event()
        target, size, writers = self._appended, self._unsynced_bytes, self._writers
        self._writers, self._records_since = set(), 0
        self._oldest_in_sync, self._oldest = self._oldest, None
        begun = trio.current_time()
        try:
            # Others wait for the outcome: it is not one caller's to cancel. A thread cannot be cancelled anyway.
            with trio.CancelScope(shield=True):
                await in_thread_or_here(self._log.flush, limiter=self._limiter)
            self._synced = target
            self._unsynced_bytes -= size
            self._counters.syncs.add(trio.current_time() - begun)
        except OSError as error:
            if error.errno in files.NO_DESCRIPTORS:
                self._postpone(writers)
                raise
            self._failed(error, writers)
        except MemoryError as error:
            self._postpone(writers)
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM), str(self._log.partition)) from error
        except Exception as error:
            if self._log.is_gone:
                self._ended(writers)
            else:
                self._failed(error, writers)
        finally:
            self._running = self._oldest_in_sync = None
            done.set()

    def _postpone(self, writers: set[Writer]) -> None:
        """Leave what the sync should have covered to a later one: nothing was asked of the disk."""
        self._writers |= writers
        self._oldest = self._oldest_in_sync
        self._plan()

    def _ended(self, writers: set[Writer]) -> None:
        """End because the partition was deleted: that is no failure, but an `fsync` of its records is ESTALE."""
        self.code = errno.ESTALE
        for writer in writers | self._writers:
            writer.failed(self.code)

    def _failed(self, error: Exception, writers: set[Writer]) -> None:
        self.code = errno_of(error)
        self._counters.sync_failures += 1
        self._error_log.add(error, "sync", str(self._log.partition))
        _log.error("%s: sync failed, nothing later is taken: %s", self._log.partition, error)
        for writer in writers | self._writers:
            writer.failed(self.code)

    # --- unasked -----------------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        config, options = self._log.config, self._options
        if self._records_since >= min(options.flush_messages or _NEVER, config.flush_messages):
            self._nursery.start_soon(self._sync_unasked)
        flush_ms = min(_NEVER if options.flush_ms is None else options.flush_ms, config.flush_ms)
        if flush_ms < _NEVER and not self._is_planned:
            self._is_planned = True
            self._deadlines.at(trio.current_time() + flush_ms / 1000, self._is_due)

    def _is_due(self) -> None:
        self._is_planned = False
        if self.is_dirty:
            self._nursery.start_soon(self._sync_unasked)

    async def _sync_unasked(self) -> None:
        try:
            await self.sync()
        except OSError:
            return  # told to the writers, and logged
        if self.is_dirty:
            self._plan()  # for what was appended while it ran
