"""Worker threads: they do their work once, are used again, end when they are idle, and some are kept."""

from __future__ import annotations

import _thread
import contextlib
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from offsetfs.common import threads as module
from offsetfs.common.threads import NoWorker, Workers, _Worker

pytestmark = pytest.mark.unit


def refuse(*args: object) -> None:
    raise RuntimeError("can't start new thread")


async def in_worker(workers: Workers, work: Callable[[], object], *, abandon: bool = False) -> object:
    return await workers.run(work, trio.CapacityLimiter(1), abandon)


async def test_a_worker_that_is_idle_is_used_again() -> None:
    workers = Workers()
    first = await in_worker(workers, threading.get_ident)
    assert first == await in_worker(workers, threading.get_ident) != threading.get_ident()


async def test_two_that_work_at_the_same_time_are_two_threads() -> None:
    workers, meeting = Workers(), threading.Barrier(2)
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(in_worker, workers, meeting.wait)


@pytest.mark.parametrize("error", [ValueError("ours"), MemoryError(), SystemExit(3)])
async def test_what_the_work_raises_is_raised(error: BaseException) -> None:
    def work() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        await in_worker(Workers(), work)
    assert caught.value is error


def test_a_fork_while_a_worker_decides_to_end_leaves_a_free_lock() -> None:
    """A worker of the child waited for the lock for ever, and with it the second piece of work."""
    workers = Workers()
    workers._ending.acquire()  # by a thread that the child does not have
    workers.forget()
    done: list[bool] = []
    thread = threading.Thread(target=lambda: done.append(workers.may_end(_Worker(workers))), daemon=True)
    thread.start()
    thread.join(60)
    assert done == [False]


async def test_the_limiter_bounds_what_works_at_a_time() -> None:
    workers, limiter, release = Workers(), trio.CapacityLimiter(1), threading.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(workers.run, lambda: release.wait(30), limiter, False)
        await wait_all_tasks_blocked()
        nursery.start_soon(workers.run, lambda: None, limiter, False)
        await wait_all_tasks_blocked()
        assert (limiter.borrowed_tokens, limiter.statistics().tasks_waiting) == (1, 1)
        release.set()
    assert limiter.borrowed_tokens == 0


async def test_where_no_worker_can_be_started_the_work_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    limiter = trio.CapacityLimiter(1)
    with pytest.raises(NoWorker):
        await Workers().run(lambda: pytest.fail("begun"), limiter, False)
    assert limiter.borrowed_tokens == 0


async def test_workers_that_are_kept_serve_where_none_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_S", 0.0)
    workers = Workers()
    assert workers.keep(2)
    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    meeting = threading.Barrier(2)
    for _ in range(3):
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(in_worker, workers, meeting.wait)
    assert not workers.keep(3)


async def test_an_idle_worker_ends_unless_it_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_S", 0.001)
    workers, add_idle = Workers(), Workers.add_idle
    idle: list[weakref.ref[Any]] = []  # taken when it becomes idle: a moment later it may have ended

    def noted(owner: Workers, worker: Any) -> None:
        idle.append(weakref.ref(worker))
        add_idle(owner, worker)

    monkeypatch.setattr(Workers, "add_idle", noted)
    await in_worker(workers, lambda: None)
    (worker,) = idle
    while worker() is not None:  # its thread refers to it
        await trio.sleep(0.001)
    assert workers.keep(1)
    kept = list(workers._idle)
    await trio.sleep(0.02)
    assert list(workers._idle) == kept


async def test_a_worker_that_lacks_memory_for_its_result_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    add_idle, failures = Workers.add_idle, [MemoryError(), MemoryError()]

    def fail(workers: Workers, worker: Any) -> None:
        if failures:
            raise failures.pop()
        add_idle(workers, worker)

    monkeypatch.setattr(Workers, "add_idle", fail)
    assert await in_worker(Workers(), lambda: 7) == 7
    assert not failures


async def test_work_is_abandoned_on_cancel_where_that_is_wanted_and_only_there() -> None:
    workers, release, done = Workers(), threading.Event(), list[bool]()

    def work() -> None:
        done.append(release.wait(30))

    limiter = trio.CapacityLimiter(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(workers.run, work, limiter, True)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert (done, limiter.borrowed_tokens) == ([], 1)
    release.set()
    while limiter.borrowed_tokens:
        await trio.sleep(0.001)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(workers.run, work, limiter, False)
            await wait_all_tasks_blocked()
            scope.cancel()
    assert done == [True, True]


def test_a_result_that_comes_after_the_loop_has_ended_is_dropped() -> None:
    workers, release = Workers(), threading.Event()

    async def abandon() -> None:
        with trio.move_on_after(0.01):
            await workers.run(lambda: release.wait(30), trio.CapacityLimiter(1), True)

    trio.run(abandon)
    release.set()

    async def again() -> object:
        with contextlib.suppress(NoWorker):
            return await in_worker(workers, lambda: 5)
        return None

    assert trio.run(again) == 5
