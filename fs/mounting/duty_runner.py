"""The duties of a mounted directory, in threads of their own: retention, compaction, checkpoints, removals.

Each lane of `storage.duties.duties` sleeps until its next duty is due and then runs it in a thread, so that a long
compaction holds up neither the mount nor the checkpoints; an idle mount wakes a few times a minute, for microseconds.
What a duty did goes to the log, what failed to the log and to `.offsetfs/errors`; no failure ends the mount.
"""

from __future__ import annotations

import logging
import math

import trio

from offsetfs.fs.notes import Fault
from offsetfs.fs.shared import Shared
from offsetfs.storage.duties.duties import Done, Duties, Lane
from offsetfs.storage.errors import StorageError

_log = logging.getLogger(__name__)

_CLOCK_FAULT = Fault(
    None,
    "retention",
    "",
    "the clock jumped ahead, and retention and compaction do not believe it for an hour",
    "set the clock right if it is wrong",
)


class DutyRunner:
    """Runs the duties of one directory that is open for writing, from `run` to `stop`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._directory = shared.directory
        self._notes = shared.notes
        self._duties = Duties(shared.directory, self._done)
        self._limiter = trio.CapacityLimiter(len(self._duties.lanes))
        self._wakes: dict[Lane, trio.Event] = {}
        self._token: trio.lowlevel.TrioToken | None = None

    async def run(self) -> None:
        """Run all lanes until cancelled; what is running then is waited for, so `stop` should have been called."""
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            for lane in self._duties.lanes:
                nursery.start_soon(self._keep, lane)

    def wake(self) -> None:
        """Look again what is due: somebody left a duty behind that may come before all others."""
        for event in self._wakes.values():
            event.set()

    def stop(self) -> None:
        """Have what is running end soon: a compaction leaves its log as it was, or as far as it got."""
        self._duties.cancel()

    async def _keep(self, lane: Lane) -> None:
        while True:
            self._wakes[lane] = wake = trio.Event()
            seconds = lane.next_due() - self._directory.clock.monotonic()
            if seconds > 0:
                with trio.move_on_after(seconds) if seconds < math.inf else trio.CancelScope():
                    await wake.wait()
                continue
            self._shared.refresh_config()  # here, so that somebody hears what is wrong with the settings
            with trio.CancelScope(shield=True):  # a thread goes on when its task is cancelled
                await trio.to_thread.run_sync(lane.run_due, limiter=self._limiter)
            await trio.lowlevel.checkpoint()
            self._tell_of_doubt()

    def _tell_of_doubt(self) -> None:
        if self._directory.cautious_clock.doubt_ms > 0:
            self._notes.tell(_CLOCK_FAULT)

    def _count(self, done: Done) -> None:
        counts = self._shared.counters.duties[done.duty]
        counts.runs += done.error is None
        counts.failures += done.error is not None
        counts.segments_removed += done.segments_removed
        counts.bytes_freed += done.bytes_freed

    def _done(self, done: Done) -> None:
        """Tell of what a duty did, which may leave files to be removed by another lane. From any thread."""
        if self._token is not None:
            self._token.run_sync_soon(self.wake, idempotent=True)
            self._token.run_sync_soon(self._count, done)
            if done.partition is not None:
                self._token.run_sync_soon(self._shared.look_for_maps, done.partition)
        what = f"{done.duty} of {done.partition}" if done.partition is not None else done.duty
        if done.error is not None:
            is_ours = not isinstance(done.error, OSError | StorageError)
            _log.error("%s failed: %s", what, done.error, exc_info=done.error if is_ours else None)
            self._notes.add(done.error, done.duty, str(done.partition or ""))
        else:
            _log.info("%s", done)
