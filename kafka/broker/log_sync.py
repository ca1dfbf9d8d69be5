"""Group commit: one sync of a log serves every request that waits for it (acks=all)."""

from __future__ import annotations

import trio

from offsetfs.common.threads import in_thread_or_here
from offsetfs.storage import Log

THREADS_MAX = 16
"""Logs that are synced at the same time, at most. Reads, which have another limit, never delay a sync."""


class LogSync:
    """Syncs logs in threads, at most one sync of a log at a time. Used by the event loop only.

    If no thread can be started, the sync runs on the event loop: the records are in the log, and must be answered.
    """

    def __init__(self, *, waits: bool = True) -> None:
        """`waits` is False where the page cache is enough for an answer (`acks.all=page-cache`)."""
        self._waits = waits
        self._running: dict[Log, trio.Event] = {}
        self._limiter = trio.CapacityLimiter(THREADS_MAX)

    async def sync(self, log: Log, offset: int, *, is_forced: bool = False) -> None:
        """Return when every record below `offset` is on disk; OSError, LogFailed if the sync failed.

        `is_forced`: also where the page cache is enough.
        """
        while (self._waits or is_forced) and log.recovery_point < offset:
            running = self._running.get(log)
            if running is not None:  # it may have begun before our records were in the file
                await running.wait()
                continue
            self._running[log] = done = trio.Event()
            try:
                with trio.CancelScope(shield=True):
                    await in_thread_or_here(log.flush, limiter=self._limiter)
            finally:
                del self._running[log]
                done.set()
