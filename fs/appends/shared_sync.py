"""Group commit: one fsync of a partition serves every writer that waits for it.

A caller needs a sync that began after its records were in the file. If an earlier sync is running, it waits for the
next one together with all other callers. So any number of callers cost at most two syncs. Syncs run in a thread, and
appends continue meanwhile.

Syncs also run automatically, after `flush-messages` records, or `flush-ms` milliseconds after the first one. The lower
value of the mount's and the topic's setting applies. What is not on disk is in the account of the log, so that the
records of a broker in the same process count, too.

A sync that reaches the limit of open files, or that lacks memory, has not reached the disk: its callers get EMFILE or
ENOMEM, and a later sync covers its records. If no thread can be started, the sync runs on the event loop. Any other
failure is final: every writer with unsynced records gets the errno, and so does every later caller. The engine has
failed the log by then, because a second fsync may succeed although the first one lost data.
"""

from __future__ import annotations

import errno
import logging
import math
import os
from collections.abc import Iterable

import trio

from offsetfs.common.threads import in_thread_or_here
from offsetfs.fs.appends.context import AppendContext
from offsetfs.fs.appends.open_files import Writer
from offsetfs.fs.reporting.errors import errno_of
from offsetfs.storage import Log, Unsynced, files, flush_due

_log = logging.getLogger(__name__)


class SharedSync:
    """The syncs of one partition."""

    def __init__(self, log: Log, context: AppendContext) -> None:
        self._log = log
        self._context = context
        self._account = log.unsynced
        self._is_planned = False
        self._is_started = False  # an automatic sync
        self.writers: set[Writer] = set()
        """The writers of unsynced records. A closed one may be removed: it needs no reports."""
        self._running: trio.Event | None = None
        self.code: int | None = None
        """The errno of the sync that failed, if one did."""

    @property
    def is_dirty(self) -> bool:
        """Whether appended records are not on disk, and a sync is still possible."""
        return self._is_behind and self._log.failure is None and not self._log.is_gone

    @property
    def _is_behind(self) -> bool:
        return self._account.synced < self._account.appended and self.code is None

    @property
    def unsynced(self) -> Unsynced:
        """The appended records that are not yet on disk. From any thread."""
        return self._account.total if self.is_dirty else Unsynced()

    def note(self, writers: Iterable[Writer]) -> None:
        """Note that a batch with records of `writers` is in the file."""
        self.writers.update(writers)
        self.plan()

    async def sync(self) -> None:
        """Return when all batches of the log are on disk. OSError if this or an earlier sync failed."""
        target = self._account.appended
        while self._account.synced < target or self.code is not None:
            if self.code is not None:
                raise OSError(self.code, os.strerror(self.code), str(self._log.partition))
            if self._running is not None:
                await self._running.wait()
            else:
                await self._run()

    async def _run(self) -> None:
        done = self._running = trio.Event()
        # Taken before the thread begins: what is appended meanwhile may be missing in this fsync.
        writers, self.writers = self.writers, set()
        begun = trio.current_time()
        try:
            # Shielded, because other callers wait for the outcome. A thread cannot be cancelled anyway.
            with trio.CancelScope(shield=True):
                await in_thread_or_here(self._log.flush, limiter=self._context.sync_limiter)
            self._context.counters.syncs.add(trio.current_time() - begun)
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
            self._running = None
            done.set()

    def _postpone(self, writers: set[Writer]) -> None:
        """Leave the batches to a later sync: this one has not reached the disk."""
        self.writers |= writers
        self.plan()

    def _ended(self, writers: set[Writer]) -> None:
        """End because the partition was deleted. This is no failure, but an `fsync` of its records returns ESTALE."""
        self.code = errno.ESTALE
        for writer in writers | self.writers:
            writer.failed(self.code)

    def _failed(self, error: Exception, writers: set[Writer]) -> None:
        # Never tried again: the kernel reports a failed write once and marks the pages clean, so a second fsync would
        # claim success.
        self.code = errno_of(error)
        self._context.counters.sync_failures += 1
        self._context.error_log.add(error, "sync", str(self._log.partition))
        _log.error("%s: sync failed, no more records are accepted: %s", self._log.partition, error)
        for writer in writers | self.writers:
            writer.failed(self.code)

    # --- automatic syncs ---------------------------------------------------------------------------------------------

    def plan(self) -> None:
        """Plan the next automatic sync, if the log is due by its settings and those of the mount."""
        options = self._context.options
        due = flush_due(self._log, messages_max=options.flush_messages, interval_ms=options.flush_ms)
        if due == -math.inf:
            self._start()
        elif due is not None and not self._is_planned:
            self._is_planned = True
            wait_s = max(due - self._log.clock.monotonic(), 0.0)
            self._context.deadlines.at(trio.current_time() + wait_s, self._is_due)

    def _is_due(self) -> None:
        self._is_planned = False
        if self._is_behind:  # also where another sync of the log has failed: the writers here get its errno
            self._start()

    def _start(self) -> None:
        if not self._is_started:
            self._is_started = True
            self._context.nursery.start_soon(self._sync_automatically)

    async def _sync_automatically(self) -> None:
        try:
            await self.sync()
        except OSError:
            return  # reported to the writers and logged
        finally:
            self._is_started = False
        if self.is_dirty:
            self.plan()  # for batches that were appended while it ran
