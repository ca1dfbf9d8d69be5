"""The event that a signal handler sets."""

import os
import signal
import threading
from contextlib import closing
from types import FrameType

import pytest

from offsetfs.common.ending import EndingEvent, until_signal

pytestmark = pytest.mark.unit


def test_a_signal_at_any_moment_of_a_wait_ends_it() -> None:
    """`threading.Event` hung in the moments in which the wait had its lock."""
    for number in range(300):
        with until_signal() as ending:
            timer = threading.Timer(number * 2e-6, os.kill, (os.getpid(), signal.SIGTERM))
            timer.start()
            while not ending.wait(1e-5):
                pass
            timer.join()
        assert ending.is_set()


def test_a_handler_within_a_handler_sets_it() -> None:
    with closing(EndingEvent()) as ending:

        def set_twice(number: int, _: FrameType | None) -> None:
            if not ending.is_set():
                ending.set()
                os.kill(os.getpid(), number)
            ending.set()

        before = signal.signal(signal.SIGUSR1, set_twice)
        try:
            os.kill(os.getpid(), signal.SIGUSR1)
            assert ending.wait(60)
        finally:
            signal.signal(signal.SIGUSR1, before)


def test_a_wait_without_a_signal_ends_in_time() -> None:
    with closing(EndingEvent()) as ending:
        assert not ending.wait(0.001)
        assert not ending.is_set()
        ending.set()
        assert ending.wait(60)
