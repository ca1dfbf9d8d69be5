"""Doing the same for many things at once."""

import threading

import pytest

from offsetfs.storage import parallel
from offsetfs.storage.parallel import THREADS, WORTH_THREADS, for_each

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("count", [0, 1, WORTH_THREADS - 1, WORTH_THREADS, 100])
def test_everything_is_done_once(count: int) -> None:
    done: list[int] = []
    for_each(range(count), done.append)
    assert sorted(done) == list(range(count))


def test_many_wait_at_once_and_few_do_not() -> None:
    together = threading.Barrier(THREADS, timeout=30)

    def wait(_: int) -> None:
        together.wait()

    threads: set[threading.Thread] = set()
    for_each(range(THREADS), wait)
    for_each(range(WORTH_THREADS - 1), lambda _: threads.add(threading.current_thread()))
    assert threads == {threading.current_thread()}


def test_the_first_error_is_raised_when_all_have_ended() -> None:
    done: set[int] = set()

    def act(number: int) -> None:
        done.add(number)
        if number in (30, 70):
            raise OSError(f"number {number}")

    with pytest.raises(OSError, match="number 30"):
        for_each(range(100), act)
    assert done == set(range(100))


def test_one_thread_ends_with_the_first_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "THREADS", 1)
    done: list[int] = []

    def act(number: int) -> None:
        done.append(number)
        if number == 30:
            raise OSError("number 30")

    with pytest.raises(OSError, match="number 30"):
        for_each(range(100), act)
    assert done == list(range(31))
