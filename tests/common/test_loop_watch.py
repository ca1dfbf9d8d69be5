"""Work of an event loop is measured without the time in which other processes have the processor."""

from __future__ import annotations

import time

import pytest

from offsetfs.common import loop_watch
from offsetfs.common.loop_watch import LoopWatch

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(("waits", "seconds"), [(0, 0.001), (1, 0.1)], ids=["lost the processor", "blocked"])
def test_the_time_of_a_thread_that_did_not_block_is_its_cpu_time(
    monkeypatch: pytest.MonkeyPatch, waits: int, seconds: float
) -> None:
    clocks = {"perf_counter": iter((5.0, 5.1)), "thread_time": iter((1.0, 1.001))}
    for name, times in clocks.items():
        monkeypatch.setattr(time, name, times.__next__)
    reported = iter((0, waits, waits))
    monkeypatch.setattr(loop_watch, "_waits", lambda: next(reported))
    watch = LoopWatch()
    assert watch.has_blocked == bool(waits)
    assert watch.seconds() == pytest.approx(seconds)


def test_a_sleep_blocks() -> None:
    watch = LoopWatch()
    time.sleep(0.01)
    assert watch.has_blocked
    assert watch.seconds() >= 0.01
