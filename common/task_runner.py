"""Runs the background tasks of open log directories in threads: retention, compaction, checkpoints, removals.

Each queue of `storage.maintenance.background_tasks` sleeps until its next task is due and then runs it in a thread. So
a long compaction delays neither the event loop nor the checkpoints. An idle process wakes a few times a minute, for
microseconds.
Results and failures are logged; no failure ends the process.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Sequence

import trio

from offsetfs.common.threads import in_thread
from offsetfs.storage import LogDirectory, TopicPartition
from offsetfs.storage.directory import LogChange
from offsetfs.storage.errors import StorageError
from offsetfs.storage.maintenance import BackgroundTasks, TaskQueue, TaskResult

_log = logging.getLogger(__name__)

POSTPONED_S = 10
"""The time that background tasks wait after they could not be run."""


class TaskObserver:
    """Observes the background tasks of a process, besides the log. This class does nothing. On the event loop."""

    def begin(self) -> None:
        """Called before due tasks are run. An error postpones them."""

    def postponed(self, error: Exception) -> None:
        """Called when due tasks could not be run."""

    def done(self, result: TaskResult) -> None:
        """Called with the result or the failure of a task."""

    def end(self) -> None:
        """Called after due tasks were run."""


class TaskRunner:
    """Runs the background tasks of directories that are open for writing, from `run` to `stop`."""

    def __init__(self, directories: Sequence[LogDirectory], observer: TaskObserver | None = None) -> None:
        """Create it on the event loop."""
        self._clock = directories[0].clock
        self._observer = observer or TaskObserver()
        self._tasks = [BackgroundTasks(directory, self._done) for directory in directories]
        self._queues = [queue for tasks in self._tasks for queue in tasks.queues]
        self._limiter = trio.CapacityLimiter(len(self._queues))
        self._wakes: dict[TaskQueue, trio.Event] = {}
        self._token = trio.lowlevel.current_trio_token()
        for directory in directories:
            directory.subscribe_changes(self._changed)

    async def run(self) -> None:
        """Run all queues until cancelled. Running tasks are awaited then, so call `stop` first."""
        async with trio.open_nursery() as nursery:
            for queue in self._queues:
                nursery.start_soon(self._run_queue, queue)

    def stop(self) -> None:
        """Cancel running tasks. A compaction that ends early leaves its log unchanged, or compacted in part."""
        for tasks in self._tasks:
            tasks.cancel()

    def _wake(self) -> None:
        """Check again which task is due, because a new one may be due first."""
        for event in self._wakes.values():
            event.set()

    def _changed(self, partition: TopicPartition, change: LogChange) -> None:
        """Wake the queues for files to remove or to sync. From any thread."""
        if change in (LogChange.DELETED, LogChange.ROLLED):
            with contextlib.suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._wake, idempotent=True)

    async def _run_queue(self, queue: TaskQueue) -> None:
        while True:
            self._wakes[queue] = wake = trio.Event()
            seconds = queue.next_due() - self._clock.monotonic()
            if seconds > 0:
                with trio.move_on_after(seconds) if seconds < math.inf else trio.CancelScope():
                    await wake.wait()
                continue
            await self._run_due(queue)
            await trio.lowlevel.checkpoint()
            self._observer.end()

    async def _run_due(self, queue: TaskQueue) -> None:
        """Run the due tasks in a thread; postpone them if that fails, for instance because memory is short."""
        try:
            self._observer.begin()
            with trio.CancelScope(shield=True):  # else the directory could be closed while the thread runs
                await in_thread(queue.run_due, limiter=self._limiter)
        except Exception as error:
            is_ours = not isinstance(error, OSError | MemoryError | StorageError)
            _log.error("background tasks are postponed by %d s: %s", POSTPONED_S, error, exc_info=is_ours)
            self._observer.postponed(error)
            await trio.sleep(POSTPONED_S)

    def _done(self, result: TaskResult) -> None:
        """Log a result, and wake the queues, which may have files to remove. From any thread."""
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._wake, idempotent=True)
            self._token.run_sync_soon(self._observer.done, result)
        if result.error is None:
            _log.info("%s", result)
            return
        what = f"{result.task} of {result.partition}" if result.partition is not None else result.task
        is_ours = not isinstance(result.error, OSError | StorageError)
        _log.error("%s failed: %s", what, result.error, exc_info=result.error if is_ours else None)
