"""Ends a command at SIGTERM or Ctrl-C, after what it has begun is completed."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

from offsetfs.common.ending import EndingEvent


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
