"""Ends a command at SIGTERM or Ctrl-C, after what it has begun is completed."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def until_signal() -> Iterator[threading.Event]:
    """Yield an event that SIGTERM and SIGINT set; the handlers of before return after the block."""
    is_ending = threading.Event()
    before = {number: signal.signal(number, lambda *_: is_ending.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield is_ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
