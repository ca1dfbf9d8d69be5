"""Who reads requests from the kernel: one task after the other, and the same one as long as it need not wait.

pyfuse3 keeps a task ready to read while another handles what it has read, and hands its lock over for each request,
because a handler may have to wait. Most here never do. So the turn to read stays with a task until it waits for
something else than the next request, or ends: then the next task has it at once.

    read → handle → reply → read → handle …     no other task is woken
    read → handle ┄ waits ┄                     the turn passes on; this task asks for it again after its reply

Promises: as long as a task is ready, requests are read; a handler that waits holds up nobody. Saves a third of the
processor time of a small request, half a turn of trio's loop.

What pyfuse3 knows as `trio` is put in its place while requests are answered, which is how its own asyncio mode works;
whatever is not told of here is trio's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager
from types import ModuleType, coroutine
from typing import Any

import pyfuse3
import trio
from trio.lowlevel import Abort, RaiseCancelT, Task

Work = Callable[..., Coroutine[Any, Any, None]]


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
        self._parked: deque[Task] = deque()

    async def __aenter__(self) -> None:
        task = trio.lowlevel.current_task()
        if self.holder is None:
            self.holder = task
        elif self.holder is not task:
            await self._park(task)

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
        self.is_reading = True
        try:
            await trio.lowlevel.wait_readable(fd)
        finally:
            self.is_reading = False

    def waits(self, task: Task) -> None:
        """Take note that `task` is about to wait: for a request, or for something else."""
        if self.holder is task and not self.is_reading:
            self.pass_on(task)

    def pass_on(self, task: Task) -> None:
        """Give the turn to the next task, if `task` has it."""
        if self.holder is task:
            self.holder = self._parked.popleft() if self._parked else None
            if self.holder is not None:
                trio.lowlevel.reschedule(self.holder)


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
        await _watched(work(*args), self._turn)


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
    finally:
        turn.pass_on(task)
