"""Hand-over of blocking work to threads, for a process that may be unable to start one.

    loop    run(work) ──► idle worker, or a new one ──► work ──► the result, on the loop
    worker  started ──► idle ⇄ busy;  ends after IDLE_S idle seconds, unless it is one of those to `keep`

pthread_create(3) fails at a limit of memory (`ulimit -v`), of processes (`ulimit -u`), or of a control group. A worker
thread that ends its work is free again, so the hand-over is repeated for a short time before it fails. It fails as
`OSError` with ENOMEM: EAGAIN, which pthread_create reports, would mean to a reader that its file has nothing yet.

Workers follow trio.to_thread.run_sync, with these differences, for a process at its limit of memory: the start of a
worker returns also where the thread ends before it has begun (`storage.thread_start`); some workers never end, so that
there are threads when no more can be started; and a worker that lacks the memory to return its result tries again.
Contextvars are not copied, and `trio.from_thread` is not available to the work.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import time
from collections.abc import Callable
from typing import Generic, TypeVar

import trio

from offsetfs.storage import thread_start
from offsetfs.storage.thread_start import ThreadNotStarted

T = TypeVar("T")

RETRIES_S = (0.001, 0.005, 0.02, 0.1)
"""The pauses between attempts. Their sum bounds how much later a request fails, or its work begins on the loop."""

IDLE_S = 10.0
RETRY_S = 0.01


class NoWorker(ThreadNotStarted):
    """No worker is idle, and none can be started. Remedy: as of `ThreadNotStarted`."""


class Workers:
    """The workers of one process. Any event loop may use them."""

    def __init__(self) -> None:
        self._idle: dict[_Worker, None] = {}  # the one that was busy last comes last: its caches are warm
        self._ending = _thread.allocate_lock()  # one worker at a time decides whether it ends
        self._kept = 0

    def keep(self, count: int) -> bool:
        """Start workers until `count` are idle, and keep that many from now on; False when some do not start."""
        self._kept = count
        try:
            while len(self._idle) < count:
                self.add_idle(self._start())
        except NoWorker:
            return False
        return True

    async def run(self, work: Callable[[], T], limiter: trio.CapacityLimiter | None, abandon_on_cancel: bool) -> T:
        """Return what `work` returns in a worker. Arguments and errors as of `trio.to_thread.run_sync`.

        Raises `NoWorker` when no worker is idle and none can be started: then `work` did not begin.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        job = _Job(work, limiter or trio.to_thread.current_default_thread_limiter(), abandon_on_cancel)
        await job.limiter.acquire_on_behalf_of(job)
        try:
            self._take().give(job)
        except BaseException:
            job.limiter.release_on_behalf_of(job)
            raise
        return await job.wait()

    def _take(self) -> _Worker:
        """Return a worker without work, which is not idle any more."""
        try:
            return self._idle.popitem()[0]
        except KeyError:
            return self._start()

    def _start(self) -> _Worker:
        worker = _Worker(self)
        try:
            thread_start.start(worker.run)
        except ThreadNotStarted as error:
            raise NoWorker from error
        return worker

    def add_idle(self, worker: _Worker) -> None:
        """Give work to this worker from now on; from any thread."""
        self._idle[worker] = None

    def may_end(self, worker: _Worker) -> bool:
        """Whether an idle worker gets no work any more, and may end; from its own thread."""
        with self._ending:
            if len(self._idle) <= self._kept:
                return False
            try:
                del self._idle[worker]
            except KeyError:  # it has just been taken, and has work in a moment
                return False
            return True

    def forget(self) -> None:
        """Forget all workers: a forked process has no other threads, not even the holder of the lock."""
        self._idle.clear()
        self._ending = _thread.allocate_lock()


class _Worker:
    """A thread that waits for work."""

    __slots__ = ("__weakref__", "_has_job", "_job", "_workers")

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._job: _Job[object] | None = None
        self._has_job = _thread.allocate_lock()  # released when there is a job
        self._has_job.acquire()

    def give(self, job: _Job[T]) -> None:
        """Do `job`, soon."""
        self._job = job  # type: ignore[assignment]  # the caller that awaits the job knows the type of its result
        self._has_job.release()

    def run(self) -> None:
        """Do the given jobs, until no job came for `IDLE_S`."""
        while self._next():
            job, self._job = self._job, None
            assert job is not None
            job.do()
            _insist(self._add_idle)  # before the result: what follows from it finds this worker idle
            _insist(job.deliver)

    def _next(self) -> bool:
        """Return True when there is a job, False when this worker ends."""
        while True:
            with contextlib.suppress(MemoryError):
                if self._has_job.acquire(timeout=IDLE_S):
                    return True
                if self._workers.may_end(self):
                    return False

    def _add_idle(self) -> None:
        self._workers.add_idle(self)


class _Job(Generic[T]):
    """Work on its way to a worker, and its outcome on the way back."""

    def __init__(self, work: Callable[[], T], limiter: trio.CapacityLimiter, is_abandoned_on_cancel: bool) -> None:
        self.limiter = limiter
        self._work: Callable[[], T] | None = work
        self._is_abandoned_on_cancel = is_abandoned_on_cancel
        self._loop = trio.lowlevel.current_trio_token()
        self._task: trio.lowlevel.Task | None = trio.lowlevel.current_task()
        self._result: list[T] = []
        self._error: BaseException | None = None

    def do(self) -> None:
        """Do the work, in a worker."""
        assert self._work is not None
        try:
            self._result.append(self._work())
        except BaseException as error:
            self._error = error
        self._work = None

    def deliver(self) -> None:
        """Give the outcome to the loop; if the loop has ended, discard it."""
        with contextlib.suppress(trio.RunFinishedError):
            self._loop.run_sync_soon(self._end)

    def _end(self) -> None:
        self.limiter.release_on_behalf_of(self)
        if self._task is not None:
            trio.lowlevel.reschedule(self._task)

    async def wait(self) -> T:
        """Return or raise the outcome. The task must not have waited since a worker got the job."""
        await trio.lowlevel.wait_task_rescheduled(self._abort)
        try:
            if self._error is not None:
                raise self._error
            return self._result[0]
        finally:
            self._error = None  # its traceback refers to this frame

    def _abort(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        if not self._is_abandoned_on_cancel:
            return trio.lowlevel.Abort.FAILED
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED


def _insist(action: Callable[[], None]) -> None:
    """Do `action`, again while memory lacks for it: a task waits for it."""
    while True:
        try:
            return action()
        except MemoryError:
            time.sleep(RETRY_S)


workers = Workers()
"""The workers of this process."""

os.register_at_fork(after_in_child=workers.forget)


async def in_thread(
    work: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None, abandon_on_cancel: bool = False
) -> T:
    """Return what `work` returns in a thread; OSError ENOMEM when no thread can be started. Then `work` did not begin.

    Raises what `work` raises. `limiter`, `abandon_on_cancel`: as in `trio.to_thread.run_sync`.
    """
    for pause_s in RETRIES_S:
        try:
            return await workers.run(work, limiter, abandon_on_cancel)
        except NoWorker:
            await trio.sleep(pause_s)
    return await workers.run(work, limiter, abandon_on_cancel)


async def in_thread_or_here(work: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None) -> T:
    """Return what `work` returns in a thread, or on the event loop when no thread can be started.

    For work that must not be lost, such as writing accepted records: other requests wait while it is done on the loop.
    """
    try:
        return await in_thread(work, limiter=limiter)
    except NoWorker:
        return work()
