"""A limit on bytes a second."""

import pytest

from offsetfs.storage.compaction.throttle import WINDOW_SECONDS, Throttle, unlimited

pytestmark = pytest.mark.unit


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 5.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_what_goes_by_too_fast_is_slept_off() -> None:
    time = Time()
    throttle = Throttle(1000, monotonic=lambda: time.now, sleep=time.sleep)
    for _ in range(100):
        throttle.take(100)
    assert time.now - 5 == pytest.approx(10, abs=WINDOW_SECONDS)
    assert min(time.slept) >= WINDOW_SECONDS * 0.99


def test_what_goes_by_slowly_is_not_held_up_and_saves_nothing_for_later() -> None:
    time = Time()
    throttle = Throttle(1000, monotonic=lambda: time.now, sleep=time.sleep)
    for _ in range(10):
        time.now += 1
        throttle.take(500)
    assert time.slept == []
    throttle.take(5000)
    assert sum(time.slept) == pytest.approx(5)


def test_one_large_piece_is_slept_off_at_once() -> None:
    time = Time()
    Throttle(1000, monotonic=lambda: time.now, sleep=time.sleep).take(60_000)
    assert time.slept == [60]


def test_without_a_limit_no_caller_waits() -> None:
    time = Time()
    throttle = Throttle(unlimited().bytes_per_second, monotonic=lambda: time.now, sleep=time.sleep)
    for _ in range(10):
        throttle.take(1 << 40)
    assert time.slept == []


@pytest.mark.parametrize("rate", [0, -1, float("nan")])
def test_a_limit_of_nothing_is_refused(rate: float) -> None:
    with pytest.raises(ValueError):
        Throttle(rate)
