"""Reader task hand-off: one task reads requests as long as it does not wait; then the next ready task reads."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from offsetfs.fs.mounting.reader_hand_off import HandOffTrio

pytestmark = pytest.mark.unit

Handle = Callable[[bytes], Awaitable[None]]


class Session:
    """Reads requests of a byte each as pyfuse3 does: a task that waits to read takes the lock, at most two wait."""

    def __init__(self, fd: int, handle: Handle) -> None:
        self.handled: list[tuple[str, bytes]] = []
        self._fd = fd
        self._handle = handle
        self._trio: Any = HandOffTrio()
        self._lock = self._trio.Lock()
        self._ready = 0
        self._started = 0

    async def main(self) -> None:
        async with self._trio.open_nursery() as nursery:
            self._start(nursery)

    def _start(self, nursery: Any) -> None:
        self._started += 1
        nursery.start_soon(self._loop, nursery, name=f"task {self._started}")

    async def _loop(self, nursery: Any) -> None:
        while self._ready <= 1:
            self._ready += 1
            try:
                async with self._lock:
                    await self._trio.lowlevel.wait_readable(self._fd)
            finally:
                self._ready -= 1
            request = os.read(self._fd, 1)
            if not request:
                return
            if not self._ready:
                self._start(nursery)
            self.handled.append((self._trio.lowlevel.current_task().name, request))
            try:
                await self._handle(request)
            except ValueError:
                return


@asynccontextmanager
async def serving(handle: Handle) -> AsyncIterator[tuple[Session, Callable[[bytes], Awaitable[None]]]]:
    """A session, and what sends it a request and waits until nothing happens any more."""
    ours, theirs = os.pipe()
    session = Session(ours, handle)

    async def ask(request: bytes) -> None:
        os.write(theirs, request)
        await wait_all_tasks_blocked(0.01)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.main)
        await wait_all_tasks_blocked()
        yield session, ask
        nursery.cancel_scope.cancel()
    os.close(ours)
    os.close(theirs)


async def _at_once(request: bytes) -> None: ...


async def test_a_task_that_never_waits_reads_everything() -> None:
    async with serving(_at_once) as (session, ask):
        for request in (b"a", b"b", b"c"):
            await ask(request)
        assert session.handled == [("task 1", b"a"), ("task 1", b"b"), ("task 1", b"c")]


async def test_while_a_task_waits_others_read() -> None:
    events = {b"a": trio.Event(), b"b": trio.Event()}

    async def handle(request: bytes) -> None:
        if request in events:
            await events[request].wait()

    async with serving(handle) as (session, ask):
        for request in (b"a", b"b", b"c", b"d"):
            await ask(request)
        assert session.handled == [("task 1", b"a"), ("task 2", b"b"), ("task 3", b"c"), ("task 3", b"d")]
        for event in events.values():
            event.set()
        await ask(b"e")
        assert session.handled[-1] == ("task 3", b"e")


async def test_a_task_that_waits_more_than_once_delays_no_other_task() -> None:
    async def handle(request: bytes) -> None:
        for _ in range(3 if request == b"a" else 0):
            await trio.lowlevel.checkpoint()

    async with serving(handle) as (session, ask):
        for request in (b"a", b"b", b"a", b"b"):
            await ask(request)
        assert [request for _, request in session.handled] == [b"a", b"b", b"a", b"b"]


async def test_a_task_that_gives_up_waiting_is_passed_over() -> None:
    turn, order = HandOffTrio().Lock(), list[str]()

    async def take(name: str, scope: trio.CancelScope) -> None:
        with scope:
            async with turn:
                order.append(name)

    scopes = {name: trio.CancelScope() for name in ("first", "second", "third")}
    async with trio.open_nursery() as nursery, turn:
        for name, scope in scopes.items():
            nursery.start_soon(take, name, scope)
            await wait_all_tasks_blocked()
        scopes["first"].cancel()
        await wait_all_tasks_blocked()
        turn.pass_on(trio.lowlevel.current_task())
        await wait_all_tasks_blocked()
        assert order == ["second"]
        nursery.cancel_scope.cancel()


async def test_a_task_that_ends_leaves_the_turn_to_others() -> None:
    async def handle(request: bytes) -> None:
        if request == b"x":
            raise ValueError

    async with serving(handle) as (session, ask):
        for request in (b"a", b"x", b"b"):
            await ask(request)
        assert session.handled == [("task 1", b"a"), ("task 1", b"x"), ("task 2", b"b")]


async def test_other_attributes_are_those_of_trio() -> None:
    stand_in: Any = HandOffTrio()
    assert stand_in.ClosedResourceError is trio.ClosedResourceError
    assert stand_in.lowlevel.notify_closing is trio.lowlevel.notify_closing


# --- requests that cannot be read ------------------------------------------------------------------------------------


class Shortage(Session):
    """As many tasks as `buffers` have memory for a request; another one fails before it reads."""

    def __init__(self, fd: int, handle: Handle, buffers: int) -> None:
        super().__init__(fd, handle)
        self.buffers = buffers
        self.failures = 0

    async def _loop(self, nursery: Any) -> None:
        has_buffer = False
        while self._ready <= 1:
            self._ready += 1
            try:
                async with self._lock:
                    await self._trio.lowlevel.wait_readable(self._fd)
            finally:
                self._ready -= 1
            if has_buffer or self.buffers:
                self.buffers -= not has_buffer
                has_buffer, request = True, os.read(self._fd, 1)
            else:
                request = None
            if not self._ready:
                self._start(nursery)
            if request is None:
                self.failures += 1
                raise OSError(errno.ENOMEM, "fuse_session_receive_buf failed")
            self.handled.append((self._trio.lowlevel.current_task().name, request))
            await self._handle(request)

    @property
    def started(self) -> int:
        return self._started


@asynccontextmanager
async def short_of_memory(handle: Handle, buffers: int) -> AsyncIterator[tuple[Shortage, int]]:
    ours, theirs = os.pipe()
    session = Shortage(ours, handle, buffers)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.main)
        yield session, theirs
        nursery.cancel_scope.cancel()
    os.close(ours)
    os.close(theirs)


@pytest.mark.expect_log("requests wait in the kernel|requests are read again")
async def test_an_unreadable_request_is_read_when_there_is_memory() -> None:
    async with short_of_memory(_at_once, 0) as (session, theirs):
        os.write(theirs, b"ab")
        with trio.fail_after(30):
            while session.failures < 5:
                await trio.sleep(0.001)
            assert session.started <= 2
            session.buffers = 1
            while len(session.handled) < 2:
                await trio.sleep(0.001)
        assert [request for _, request in session.handled] == [b"a", b"b"]


@pytest.mark.expect_log("requests wait in the kernel|requests are read again")
async def test_tasks_that_have_memory_read_while_another_has_none() -> None:
    waiting = trio.Event()

    async def handle(request: bytes) -> None:
        if request == b"a":
            await waiting.wait()

    async with short_of_memory(handle, 1) as (session, theirs):
        os.write(theirs, b"abc")
        with trio.fail_after(30):
            while session.failures < 3:
                await trio.sleep(0.001)
            waiting.set()
            while len(session.handled) < 3:
                await trio.sleep(0.001)
        assert session.handled == [("task 1", b"a"), ("task 1", b"b"), ("task 1", b"c")]
        assert session.started <= 3


async def test_an_error_that_does_not_pass_ends_the_session() -> None:
    async def handle(request: bytes) -> None:
        raise OSError(errno.ENODEV, "gone")

    with pytest.RaisesGroup(pytest.RaisesExc(OSError, match="gone"), flatten_subgroups=True):
        async with serving(handle) as (_, ask):
            await ask(b"a")
