"""Who reads requests from the kernel: one task after the other, and the same one as long as it need not wait.

pyfuse3 keeps a task ready to read while another handles what it has read, and hands its lock over for each request,
because a handler may have to wait. Most here never do. So the turn to read stays with a task until it waits for
something else than the next request, or ends: then the next task has it at once.

    read → handle → reply → read → handle …     no other task is woken
    read → handle ┄ waits ┄                     the turn passes on; this task asks for it again after its reply

Promises: as long as a task is ready, requests are read; a handler that waits delays no other. Saves a third of the
processor time of a small request, half a turn of trio's loop.

libfuse gives each task a buffer of its own when it reads for the first time, a megabyte. When there is no memory for it
(ENOMEM), the request stays in the kernel. The task then tries again after a pause, and until it has read a request the
tasks that have a buffer read before it and those that have none wait, so that a shortage makes no more tasks.

    read ┄ ENOMEM ┄ pause ┄ read …              tasks with a buffer read meanwhile, others wait for this one

What pyfuse3 knows as `trio` is put in its place while requests are answered, which is how its own asyncio mode works;
whatever is not told of here is trio's.
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
"""How long a task waits before it reads again after such an error."""

PAUSES_MAX = 25
"""How often a request waits so for memory at most, half a second together: then it is read all the same."""

REQUEST_BYTES = 4 << 20
"""The addresses that must be free for a request to be read where they are limited: its buffer and a copy, and some."""


async def answer(tasks_max: int) -> None:
    """Do what `pyfuse3.main` does, at most `tasks_max` requests at once, until the session ends."""
    pyfuse3_globals = vars(pyfuse3)
    pyfuse3_globals["trio"] = TrioInTurns()
    try:
        await pyfuse3.main(max_tasks=tasks_max)
    finally:
        pyfuse3_globals["trio"] = trio


class Turn:
    """The right to read requests. A lock that its holder keeps until it waits; see the module."""

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
        """Keep it: what comes now is handling the request, and the next `async with`."""

    async def _park(self, task: Task) -> None:
        def abort(raise_cancel: RaiseCancelT) -> Abort:
            self._parked.remove(task)
            return Abort.SUCCEEDED

        self._parked.append(task)
        await trio.lowlevel.wait_task_rescheduled(abort)

    async def wait_readable(self, fd: int) -> None:
        """Wait for a request. Only for the holder, who stays it."""
        self.is_reading, self._last = True, trio.lowlevel.current_task()
        try:
            await trio.lowlevel.wait_readable(fd)
            await _wait_for_memory()
        finally:
            self.is_reading = False

    def waits(self, task: Task) -> None:
        """Take note that `task` is about to wait: for a request, or for something else."""
        if self.holder is task and not self.is_reading:
            self.pass_on(task)

    def pass_on(self, task: Task) -> None:
        """Give the turn to the next task, if `task` has it."""
        if self._last is task and not self.is_reading:  # it waits for something else, so it has read
            self._has_read(task)
        if self.holder is task:
            self.holder = None
            self._give_away()

    def _give_away(self) -> None:
        """Give the turn, which no task has, to the first one that may read."""
        found = next(filter(self._may_read, self._parked), None)
        if found is not None:
            self._parked.remove(found)
            self.holder = found
            trio.lowlevel.reschedule(found)

    def has_not_read(self, task: Task) -> None:
        """Take note that `task` failed: whatever it waited for, it cannot be said that it has a buffer."""
        self._have_read.discard(task)
        if self._last is task:
            self._last = None

    async def starve(self, task: Task, error: OSError | MemoryError) -> None:
        """Return when `task` may read again, which could not for want of memory and has let go of the turn."""
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
        bytes(REQUEST_BYTES)  # not touched: the limit counts addresses
    except MemoryError:
        return False
    return True


class TrioInTurns(ModuleType):
    """What pyfuse3 takes for trio: its lock is a turn, and whoever its nursery starts takes turns."""

    def __init__(self) -> None:
        super().__init__("trio")
        self._turn = Turn()
        self.lowlevel = _Lowlevel(self._turn)

    def __getattr__(self, name: str) -> Any:
        return getattr(trio, name)

    def Lock(self) -> Turn:  # noqa: N802
        return self._turn

    @asynccontextmanager
    async def open_nursery(self) -> AsyncIterator[_Nursery]:
        async with trio.open_nursery() as nursery:
            yield _Nursery(nursery, self._turn)


class _Lowlevel(ModuleType):
    def __init__(self, turn: Turn) -> None:
        super().__init__("trio.lowlevel")
        self.wait_readable = turn.wait_readable

    def __getattr__(self, name: str) -> Any:
        return getattr(trio.lowlevel, name)


class _Nursery:
    """A nursery whose tasks take turns."""

    def __init__(self, nursery: trio.Nursery, turn: Turn) -> None:
        self._nursery = nursery
        self._turn = turn

    def start_soon(self, work: Work, *args: object, name: object = None) -> None:
        self._nursery.start_soon(self._run, work, args, name=name)

    async def _run(self, work: Work, args: tuple[object, ...]) -> None:
        """Do `work`, again after an error that passes: pyfuse3 counts a task until its work returns."""
        task = trio.lowlevel.current_task()
        try:
            while await self._fails(work, args, task):
                pass
        finally:
            self._turn.leave(task)

    async def _fails(self, work: Work, args: tuple[object, ...], task: Task) -> bool:
        """Do `work`; return after a pause whether a request could not be read and can be later."""
        try:
            await _watched(work(*args), self._turn)
        except (OSError, MemoryError) as error:
            if isinstance(error, OSError) and error.errno not in TRANSIENT:
                raise
            await self._turn.starve(task, error)
            return True
        return False


@coroutine
def _watched(work: Coroutine[Any, Any, None], turn: Turn) -> Generator[Any, Any, None]:
    """Await `work`, and tell the turn each time before it waits, and when it has ended."""
    task = trio.lowlevel.current_task()
    step: Callable[[Any], Any] = work.send
    answer: object = None
    try:
        while True:
            trap = step(answer)
            turn.waits(task)
            try:
                step, answer = work.send, (yield trap)
            except BaseException as error:
                step, answer = work.throw, error
    except StopIteration:
        pass
    except (OSError, MemoryError):
        turn.has_not_read(task)
        raise
    finally:
        turn.pass_on(task)
