"""Background tasks of the mounted log directories, in threads: retention, compaction, checkpoints, removals.

Each queue of `storage.maintenance.background_tasks` sleeps until its next task is due and then runs it in a thread. So
a long compaction delays neither the mount nor the checkpoints. An idle mount wakes a few times a minute, for
microseconds.
Results are logged. Failures are logged and listed in `.offsetfs/errors`; no failure ends the mount.
"""

from __future__ import annotations

import logging
import math

import trio

from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.reporting.error_log import Fault
from offsetfs.fs.runtime.threads import in_thread
from offsetfs.storage.errors import StorageError
from offsetfs.storage.maintenance import BackgroundTasks, TaskQueue, TaskResult

_log = logging.getLogger(__name__)

POSTPONED_S = 10
"""How long background tasks wait after they could not be run."""

_CLOCK_JUMP = Fault(
    None,
    "retention",
    "",
    "the clock jumped ahead; retention and compaction ignore it for an hour",
    "set the clock right if it is wrong",
)


class MaintenanceRunner:
    """Runs the background tasks of directories that are open for writing, from `run` to `stop`."""

    def __init__(self, mount: MountContext) -> None:
        self._mount = mount
        self._directories = mount.directory.directories
        self._error_log = mount.error_log
        self._tasks = [BackgroundTasks(directory, self._done) for directory in mount.directory.directories]
        self._queues = [queue for tasks in self._tasks for queue in tasks.queues]
        self._limiter = trio.CapacityLimiter(len(self._queues))
        self._wakes: dict[TaskQueue, trio.Event] = {}
        self._token: trio.lowlevel.TrioToken | None = None

    async def run(self) -> None:
        """Run all queues until cancelled. Running tasks are awaited then, so call `stop` first."""
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            for queue in self._queues:
                nursery.start_soon(self._run_queue, queue)

    def wake(self) -> None:
        """Check again which task is due, because a new one may be due first. On the event loop."""
        for event in self._wakes.values():
            event.set()

    def stop(self) -> None:
        """Cancel running tasks. A compaction that ends early leaves its log unchanged, or compacted in part."""
        for tasks in self._tasks:
            tasks.cancel()

    async def _run_queue(self, queue: TaskQueue) -> None:
        while True:
            self._wakes[queue] = wake = trio.Event()
            seconds = queue.next_due() - self._directories[0].clock.monotonic()
            if seconds > 0:
                with trio.move_on_after(seconds) if seconds < math.inf else trio.CancelScope():
                    await wake.wait()
                continue
            await self._run_due(queue)
            await trio.lowlevel.checkpoint()
            self._report_clock_jump()

    async def _run_due(self, queue: TaskQueue) -> None:
        """Run the due tasks in a thread; postpone them if that fails, for instance because memory is short."""
        try:
            self._mount.config.refresh()  # so that an idle mount reports errors in the settings, too
            with trio.CancelScope(shield=True):  # else the directory could be closed while the thread runs
                await in_thread(queue.run_due, limiter=self._limiter)
        except Exception as error:
            is_ours = not isinstance(error, OSError | MemoryError | StorageError)
            _log.error("background tasks are postponed by %d s: %s", POSTPONED_S, error, exc_info=is_ours)
            self._error_log.add(error, "background tasks", "")
            await trio.sleep(POSTPONED_S)

    def _report_clock_jump(self) -> None:
        if any(directory.cautious_clock.doubt_ms > 0 for directory in self._directories):
            self._error_log.report(_CLOCK_JUMP)

    def _count(self, done: TaskResult) -> None:
        counts = self._mount.counters.tasks[done.task]
        counts.runs += done.error is None
        counts.failures += done.error is not None
        counts.segments_removed += done.segments_removed
        counts.bytes_freed += done.bytes_freed

    def _done(self, done: TaskResult) -> None:
        """Log and count a result, and wake the queues, which may have files to remove. From any thread."""
        if self._token is not None:
            self._token.run_sync_soon(self.wake, idempotent=True)
            self._token.run_sync_soon(self._count, done)
            if done.partition is not None:
                self._token.run_sync_soon(self._mount.events.segments_changed.publish, done.partition)
        what = f"{done.task} of {done.partition}" if done.partition is not None else done.task
        if done.error is not None:
            is_ours = not isinstance(done.error, OSError | StorageError)
            _log.error("%s failed: %s", what, done.error, exc_info=done.error if is_ours else None)
            self._error_log.add(done.error, done.task, str(done.partition or ""))
        else:
            _log.info("%s", done)
