"""Hand-off of the request reader: a task that need not wait reads and handles one request after the other.

pyfuse3 keeps a task ready to read while another handles a request, and passes its lock on after each request, because
a handler may wait. Most handlers here never wait. So a task keeps the lock until it ends or waits for anything but the
next request. Then the next task gets the lock at once.

    read → handle → reply → read → handle …     no other task is woken
    read → handle ┄ waits ┄                     the lock passes on; this task requests it again after its reply

Promises: while a task is ready, requests are read; a handler that waits delays no other. This saves a third of the
processor time of a small request, half a pass of trio's loop.

libfuse allocates a buffer of a megabyte for each task at its first read. If memory is short (ENOMEM), the request stays
in the kernel. The task then retries after a pause. Until it has read a request, tasks with a buffer read before it, and
tasks without one wait, so that a shortage makes no more tasks.

    read ┄ ENOMEM ┄ pause ┄ read …              tasks with a buffer read meanwhile, others wait for this one

While requests are answered, `HandOffTrio` replaces the module that pyfuse3 knows as `trio`. pyfuse3's own asyncio mode
works the same way. Every name that is not defined here comes from trio.
"""

from __future__ import annotations

import errno
import logging
import resource
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager
from types import ModuleType, coroutine
from typing import Any

import pyfuse3
import trio
from trio.lowlevel import Abort, RaiseCancelT, Task

_log = logging.getLogger(__name__)

Work = Callable[..., Coroutine[Any, Any, None]]

TRANSIENT = frozenset({errno.ENOMEM, errno.EAGAIN, errno.ENOBUFS})
"""Errors of reading a request that leave the request in the kernel: it can be read later."""

PAUSE_S = 0.02
"""The pause of a task before it reads again after one of these errors."""

PAUSES_MAX = 25
"""The maximum number of these pauses for one request, half a second together: then the task reads it in any case."""

REQUEST_BYTES = 4 << 20
"""The addresses that must be free for a request to be read where they are limited: its buffer and a copy, and some."""


async def answer(tasks_max: int) -> None:
    """Do what `pyfuse3.main` does, at most `tasks_max` requests at once, until the session ends."""
    pyfuse3_globals = vars(pyfuse3)
    # pyfuse3 looks `trio` up in its globals at each request; its asyncio mode replaces the name in the same way.
    pyfuse3_globals["trio"] = HandOffTrio()
    try:
        await pyfuse3.main(max_tasks=tasks_max)
    finally:
        pyfuse3_globals["trio"] = trio


class ReaderLock:
    """The right to read requests: a lock that its holder keeps until it waits; see the module."""

    def __init__(self) -> None:
        self.holder: Task | None = None
        self.is_reading = False
        self.starving: Task | None = None
        """The task that has no buffer to read with, and tries again."""
        self._parked: deque[Task] = deque()
        self._have_read: set[Task] = set()
        self._last: Task | None = None

    async def __aenter__(self) -> None:
        task = trio.lowlevel.current_task()
        if self._last is task:  # it is back: what it waited for was read
            self._has_read(task)
        if self.holder is None and self._may_read(task):
            self.holder = task
        elif self.holder is not task:
            await self._park(task)

    def _has_read(self, task: Task) -> None:
        self._have_read.add(task)
        self._last = None
        if self.starving is task:
            self.starving = None
            _log.warning("requests are read again")

    def _may_read(self, task: Task) -> bool:
        return self.starving is None or self.starving is task or task in self._have_read

    async def __aexit__(self, *exception: object) -> None:
        """Keep the lock: the task now handles the request and then enters the next `async with`."""

    async def _park(self, task: Task) -> None:
        def abort(raise_cancel: RaiseCancelT) -> Abort:
            self._parked.remove(task)
            return Abort.SUCCEEDED

        self._parked.append(task)
        await trio.lowlevel.wait_task_rescheduled(abort)

    async def wait_readable(self, fd: int) -> None:
        """Wait for a request. Only for the holder, which keeps the lock."""
        self.is_reading, self._last = True, trio.lowlevel.current_task()
        try:
            await trio.lowlevel.wait_readable(fd)
            await _wait_for_memory()
        finally:
            self.is_reading = False

    def waits(self, task: Task) -> None:
        """Record that `task` is about to wait, for a request or for anything else."""
        if self.holder is task and not self.is_reading:
            self.pass_on(task)

    def pass_on(self, task: Task) -> None:
        """Pass the lock to the next task, if `task` holds it."""
        if self._last is task and not self.is_reading:  # it waits for something else, so it has read
            self._has_read(task)
        if self.holder is task:
            self.holder = None
            self._give_away()

    def _give_away(self) -> None:
        """Pass the lock, which no task holds, to the first task that may read."""
        task = next(filter(self._may_read, self._parked), None)
        if task is not None:
            self._parked.remove(task)
            self.holder = task
            trio.lowlevel.reschedule(task)

    def has_not_read(self, task: Task) -> None:
        """Record that `task` failed: it may have no buffer."""
        self._have_read.discard(task)
        if self._last is task:
            self._last = None

    async def starve(self, task: Task, error: OSError | MemoryError) -> None:
        """Return after a pause, when `task` may read again. It lacked memory and has released the lock."""
        if self.starving is None:
            _log.error("requests wait in the kernel, because none can be read: %s", error)
            self.starving = task
        await trio.sleep(PAUSE_S)

    def leave(self, task: Task) -> None:
        """Forget a task that has ended."""
        self._have_read.discard(task)
        if self.starving is task:
            self.starving = None
        if self.holder is None:
            self._give_away()


async def _wait_for_memory() -> None:
    """Return when there is memory for a request, or after some pauses.

    pyfuse3 copies what is written before a handler has it; when that fails, the request is never answered.
    """
    pauses = PAUSES_MAX
    while pauses and resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY and not _has_memory():
        await trio.sleep(PAUSE_S)
        pauses -= 1


def _has_memory() -> bool:
    try:
        # libfuse and pyfuse3 allocate a buffer and a copy. When that fails after the request was read, the request is
        # never answered, and its process hangs.
        bytes(REQUEST_BYTES)  # not touched: the limit counts addresses
    except MemoryError:
        return False
    return True


class HandOffTrio(ModuleType):
    """The module that pyfuse3 uses as `trio`: its lock is a `ReaderLock`, which the tasks of its nursery share."""

    def __init__(self) -> None:
        super().__init__("trio")
        self._lock = ReaderLock()
        self.lowlevel = _Lowlevel(self._lock)

    def __getattr__(self, name: str) -> Any:
        return getattr(trio, name)

    def Lock(self) -> ReaderLock:  # noqa: N802
        return self._lock

    @asynccontextmanager
    async def open_nursery(self) -> AsyncIterator[_Nursery]:
        async with trio.open_nursery() as nursery:
            yield _Nursery(nursery, self._lock)


class _Lowlevel(ModuleType):
    def __init__(self, lock: ReaderLock) -> None:
        super().__init__("trio.lowlevel")
        self.wait_readable = lock.wait_readable

    def __getattr__(self, name: str) -> Any:
        return getattr(trio.lowlevel, name)


class _Nursery:
    """A nursery whose tasks share the reader lock."""

    def __init__(self, nursery: trio.Nursery, lock: ReaderLock) -> None:
        self._nursery = nursery
        self._lock = lock

    def start_soon(self, work: Work, *args: object, name: object = None) -> None:
        self._nursery.start_soon(self._run, work, args, name=name)

    async def _run(self, work: Work, args: tuple[object, ...]) -> None:
        """Do `work`, again after an error that passes: pyfuse3 counts a task until its work returns."""
        task = trio.lowlevel.current_task()
        try:
            while await self._fails(work, args, task):
                pass
        finally:
            self._lock.leave(task)

    async def _fails(self, work: Work, args: tuple[object, ...], task: Task) -> bool:
        """Do `work`; return after a pause whether a request could not be read and can be later."""
        try:
            await _watched(work(*args), self._lock)
        except (OSError, MemoryError) as error:
            if isinstance(error, OSError) and error.errno not in TRANSIENT:
                raise
            await self._lock.starve(task, error)
            return True
        return False


@coroutine
def _watched(work: Coroutine[Any, Any, None], lock: ReaderLock) -> Generator[Any, Any, None]:
    """Await `work`, and notify the lock each time before it waits, and when it has ended."""
    task = trio.lowlevel.current_task()
    step: Callable[[Any], Any] = work.send
    answer: object = None
    try:
        while True:
            trap = step(answer)
            lock.waits(task)
            try:
                step, answer = work.send, (yield trap)
            except BaseException as error:
                step, answer = work.throw, error
    except StopIteration:
        pass
    except (OSError, MemoryError):
        lock.has_not_read(task)
        raise
    finally:
        lock.pass_on(task)
