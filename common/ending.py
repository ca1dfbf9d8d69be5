"""Ends a command at SIGTERM or Ctrl-C, after what it has begun is completed: an event that a signal handler sets."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Iterator


class EndingEvent:
    """Whether a command is to end. A handler of signals may set it at any moment.

    `threading.Event` is none: a handler that sets it while the interrupted thread holds its lock waits for ever.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._number = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._number, select.POLLIN)

    def set(self) -> None:
        """End the waits of now and later."""
        self._is_set = True
        os.eventfd_write(self._number, 1)

    def is_set(self) -> bool:
        """Return whether it was set."""
        return self._is_set

    def wait(self, seconds: float) -> bool:
        """Wait until it is set, at most some seconds. Return whether it was set."""
        if not self._is_set:
            self._poll.poll(seconds * 1000)
        return self._is_set

    def close(self) -> None:
        """Free its file descriptor. It is not used afterwards."""
        os.close(self._number)


@contextlib.contextmanager
def until_signal() -> Iterator[EndingEvent]:
    """Yield an event that SIGTERM and SIGINT set; the handlers of before return after the block."""
    with contextlib.closing(EndingEvent()) as ending:
        before = {number: signal.signal(number, lambda *_: ending.set()) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield ending
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
