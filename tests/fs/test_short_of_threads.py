"""Where no thread can be started, a request fails, accepted records are written all the same, and the mount goes on."""

from __future__ import annotations

import _thread
import contextlib
import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import trio
from fixtures.machine.short_threads import Threads, no_threads
from fixtures.mounts.fake_appends import FakeWriter, appends_in
from fixtures.spies import spy
from trio.testing import MockClock, wait_all_tasks_blocked

from offsetfs.cli.mounts.service_manager import ServiceManager
from offsetfs.cli.mounts.unmount_progress import UnmountProgress
from offsetfs.common.task_runner import POSTPONED_S, TaskRunner
from offsetfs.common.threads import RETRIES_S, in_thread, in_thread_or_here, workers
from offsetfs.fs.appends import append_queue
from offsetfs.fs.mount_context import mount_context
from offsetfs.fs.mounting.mount import TaskReports
from offsetfs.fs.options import MountOptions
from offsetfs.storage import Unsynced, parallel
from offsetfs.storage.directory.directory import LogDirectory

pytestmark = pytest.mark.unit

NOW = 1_795_253_676_000


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Threads:
    return no_threads(monkeypatch)


# --- one hand-over ---------------------------------------------------------------------------------------------------


async def test_work_fails_with_enomem_and_does_not_begin(threads: Threads, autojump_clock: MockClock) -> None:
    begun: list[int] = []
    with pytest.raises(OSError, match="no thread could be started") as caught:
        await in_thread(lambda: begun.append(1))
    assert caught.value.errno == errno.ENOMEM
    assert (begun, threads.refused) == ([], len(RETRIES_S) + 1)


async def test_a_thread_that_is_free_soon_takes_the_work(threads: Threads) -> None:
    async def free() -> None:
        await trio.sleep(RETRIES_S[0])
        threads.are_short = False

    async with trio.open_nursery() as nursery:
        nursery.start_soon(free)
        assert await in_thread(threading.get_ident) != threading.get_ident()


@pytest.mark.parametrize("error", [RuntimeError("ours"), MemoryError(), OSError(errno.EIO, "disk")])
async def test_what_the_work_raises_is_raised_and_the_work_is_done_once(threads: Threads, error: Exception) -> None:
    threads.are_short = False
    begun: list[int] = []

    def work() -> None:
        begun.append(1)
        raise error

    with pytest.raises(type(error)) as caught:
        await in_thread_or_here(work, limiter=trio.CapacityLimiter(1))
    assert (caught.value, begun) == (error, [1])


async def test_work_that_must_not_be_lost_is_done_on_the_loop(threads: Threads, autojump_clock: MockClock) -> None:
    limiter = trio.CapacityLimiter(1)
    assert await in_thread_or_here(threading.get_ident, limiter=limiter) == threading.get_ident()
    assert limiter.available_tokens == 1


# --- what hands over -------------------------------------------------------------------------------------------------


async def test_a_read_fails_and_the_next_one_does_not(
    threads: Threads, nursery: trio.Nursery, tmp_path: Path, autojump_clock: MockClock
) -> None:
    with contextlib.closing(LogDirectory.open(os.fspath(tmp_path))) as directory:
        mount = mount_context(directory, MountOptions(), nursery)
        with pytest.raises(OSError, match="no thread could be started"):
            await mount.executor.in_thread(lambda: b"content")
        threads.are_short = False
        assert await mount.executor.in_thread(lambda: b"content") == b"content"


@pytest.mark.parametrize("codec", ["uncompressed", "gzip"])
async def test_accepted_records_are_written_and_synced_when_the_mount_ends(
    threads: Threads,
    nursery: trio.Nursery,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: MockClock,
    codec: str,
) -> None:
    run, writer = workers.run, FakeWriter()
    monkeypatch.setattr(append_queue, "HERE_BYTES_MAX", 0)
    async with appends_in(nursery, tmp_path, monkeypatch) as make:
        monkeypatch.setattr(workers, "run", run)
        world = make(linger_ms=60_000, flush_ms=60_000, topic={"compression.type": codec})
        accumulator, line = world.accumulator(), os.urandom(50_000).replace(b"\n", b"") + b"\n"
        for _ in range(2):
            assert accumulator.split(line, 0, len(line), NOW, writer) == len(line)
            accumulator.seal()
            await wait_all_tasks_blocked()
        assert await world.accumulators.close() == {}
        assert (world.log().values, world.log().synced, writer.code) == ([line[:-1]] * 2, 2, None)
    assert threads.refused


@pytest.mark.expect_log("background tasks are postponed by 10 s")
async def test_background_tasks_are_postponed_and_reported(
    threads: Threads,
    nursery: trio.Nursery,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: MockClock,
) -> None:
    with contextlib.closing(LogDirectory.open(os.fspath(tmp_path))) as directory:
        mount = mount_context(directory, MountOptions(), nursery)
        runner, runs = TaskRunner(directory.directories, TaskReports(mount)), list[float]()
        queue = runner._queues[0]
        monkeypatch.setattr(queue, "next_due", lambda: 0.0)
        monkeypatch.setattr(queue, "run_due", spy(runs, trio.current_time, list))
        with trio.move_on_after(POSTPONED_S / 2):
            await runner._run_queue(queue)
        assert runs == []
        assert "no thread could be started" in mount.error_log.text().decode()


@pytest.mark.expect_log("ending without reports of progress")
def test_a_mount_ends_without_reports_of_progress(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_thread, "start_new_thread", _refuse)
    reporter = UnmountProgress(ServiceManager({}), lambda text: None)
    reporter.begin("SIGTERM", Unsynced)
    reporter.end()
    assert "ending without reports of progress: no thread could be started" in caplog.text


@pytest.mark.parametrize("startable", [0, 2])
def test_many_things_are_done_by_the_threads_that_there_are(monkeypatch: pytest.MonkeyPatch, startable: int) -> None:
    start, started = _thread.start_new_thread, list[int]()

    def limited(*args: Any) -> None:
        if len(started) == startable:
            _refuse()
        started.append(start(*args))

    monkeypatch.setattr(_thread, "start_new_thread", limited)
    done: list[int] = []
    parallel.for_each(range(100), done.append)
    assert (sorted(done), len(started)) == (list(range(100)), startable)


def _refuse(*args: object) -> None:
    raise RuntimeError("can't start new thread")
