"""Pauses between the attempts of a request that is repeated: each twice the one before, up to a limit.

The caller waits: with trio, with asyncio or in a thread.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """The pauses: `first_s`, then doubled up to `max_s`; each differs by the share `jitter` of it at random.

    Without jitter, clients that failed at the same time would return at the same time.
    """

    first_s: float
    max_s: float
    jitter: float = 0.0

    def pause_s(self, failures: int) -> float:
        """Return the pause after that many failures in a row, from 1 on."""
        pause_s = min(self.first_s * 2.0 ** min(failures - 1, 32), self.max_s)
        return pause_s * random.uniform(1 - self.jitter, 1 + self.jitter)


class Attempts:
    """The attempts of one request, which have a limit of time together."""

    def __init__(self, backoff: Backoff, seconds: float) -> None:
        self._backoff, self._until_s, self._failures = backoff, time.monotonic() + seconds, 0

    def pause_s(self, error: Exception) -> float:
        """Return the pause until the next attempt; raise `error` if no time is left for it."""
        self._failures += 1
        pause_s = self._backoff.pause_s(self._failures)
        self.check(error, pause_s)
        return pause_s

    def check(self, error: Exception, pause_s: float = 0.0) -> None:
        """Raise `error` if no time is left for an attempt after a pause."""
        if time.monotonic() + pause_s > self._until_s:
            raise error
