"""Limits how often a warning or an error with the same cause is logged."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

MESSAGES_MAX = 5
INTERVAL_S = 10.0


class RepetitionFilter(logging.Filter):
    """Passes the first `MESSAGES_MAX` messages of each kind in `INTERVAL_S`, and counts the others.

    A client that sends the same wrong request in a loop must not fill the disk with the log. Messages are of one kind
    if they come from the same line of code: names and numbers in them may differ. The next message that passes has the
    number of those that did not.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._counts: dict[tuple[str, int], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether `record` is logged; those below warnings always are."""
        if record.levelno < logging.WARNING:
            return True
        kind, now_s = (record.pathname, record.lineno), self._now()
        since_s, count = self._counts.get(kind, (now_s, 0))
        if now_s - since_s >= INTERVAL_S:
            if count > MESSAGES_MAX:
                record.msg = f"{record.getMessage()} ({count - MESSAGES_MAX} similar messages were not logged)"
                record.args = ()
            since_s, count = now_s, 0
        self._counts[kind] = since_s, count + 1
        return count < MESSAGES_MAX
