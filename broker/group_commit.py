"""Group commit: one sync of a log serves every request that waits for it (acks=all)."""

from __future__ import annotations

import trio

from offsetfs.storage import Log


class GroupCommit:
    """Syncs logs in threads, at most one sync of a log at a time. Used by the event loop only."""

    def __init__(self) -> None:
        self._running: dict[Log, trio.Event] = {}

    async def sync(self, log: Log, offset: int) -> None:
        """Return when every record below `offset` is on disk; OSError, LogFailed if the sync failed."""
        while log.recovery_point < offset:
            running = self._running.get(log)
            if running is not None:  # it may have begun before our records were in the file
                await running.wait()
                continue
            self._running[log] = done = trio.Event()
            try:
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(log.flush)
            finally:
                del self._running[log]
                done.set()
