"""A thread starts or is refused, also where memory is short; the caller never waits for a thread that is gone."""

from __future__ import annotations

import _thread
import errno
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from offsetfs.storage import thread_start
from offsetfs.storage.thread_start import ThreadNotStarted, start

pytestmark = pytest.mark.unit

AT_THE_LIMIT = """
import mmap, os, resource, sys
from offsetfs.storage import thread_start
thread_start.THREAD_BYTES = mmap.PAGESIZE  # threads are created that cannot begin
sys.unraisablehook = lambda found: None
hard, counts = resource.getrlimit(resource.RLIMIT_AS)[1], [0, 0]
for free in range(7 << 20, 11 << 20, 32 << 10):
    with open("/proc/self/statm") as file:
        addresses = int(file.read().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (addresses + free, hard))
    begun = []
    try:
        thread_start.start(lambda: begun.append(1)).join()
    except OSError:
        assert not begun
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    counts[len(begun)] += 1
assert all(counts), counts
"""


def test_work_runs_in_another_thread_that_can_be_joined() -> None:
    seen: list[int] = []
    start(lambda: seen.append(threading.get_ident())).join()
    assert seen != [threading.get_ident()] and len(seen) == 1


def test_a_thread_whose_work_raises_can_be_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    is_reported = threading.Event()
    monkeypatch.setattr(sys, "unraisablehook", lambda found: is_reported.set())

    def work() -> None:
        raise ValueError

    start(work).join()
    assert is_reported.wait(30)


def test_a_thread_that_ends_before_it_begins_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_thread, "start_new_thread", lambda function, arguments: 1)
    with pytest.raises(ThreadNotStarted, match="no thread could be started") as caught:
        start(lambda: pytest.fail("begun"))
    assert caught.value.errno == errno.ENOMEM


def test_a_thread_that_begins_after_it_was_given_up_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[tuple[Callable[..., object], tuple[object, ...]]] = []
    monkeypatch.setattr(_thread, "start_new_thread", lambda function, arguments: late.append((function, arguments)))
    monkeypatch.setattr(thread_start, "START_S_MAX", 0.0)
    with pytest.raises(ThreadNotStarted):
        start(lambda: pytest.fail("begun"))
    ((function, arguments),) = late
    function(*arguments)


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
def test_a_refusal_of_the_system_is_enomem(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def refuse(function: object, arguments: object) -> None:
        raise error

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    with pytest.raises(ThreadNotStarted) as caught:
        start(lambda: pytest.fail("begun"))
    assert caught.value.__cause__ is error


def test_at_every_limit_of_memory_a_start_returns() -> None:
    done = subprocess.run([sys.executable, "-c", AT_THE_LIMIT], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
