"""A time of day that does not follow a sudden jump ahead of the system clock.

Retention and compaction remove old records, and a clock that is a year ahead makes all records old. A wrong clock
cannot be detected, but time passes at one rate. If the time of day runs ahead of the monotonic clock by more than
`JUMP_MS`, it is used only after `HOLD_S`, in which an administrator, or NTP, may correct it. Until then, time continues
from the last trusted value. A clock that is set back is used at once, because records only seem younger then. Kafka has
nothing comparable.
"""

from __future__ import annotations

import threading

from offsetfs.storage.clock import Clock

JUMP_MS = 10 * 60 * 1000
"""The largest jump ahead between two readings that is trusted at once."""

HOLD_S = 60 * 60.0
"""How long a clock that jumped ahead is not trusted."""


class CautiousClock:
    """A `Clock` that follows another clock. Retention and compaction of a directory share one for its lifetime."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._trusted = (clock.now_ms(), clock.monotonic())
        self._doubted_since: float | None = None

    @property
    def doubt_ms(self) -> int:
        """How far the clock is ahead of the trusted time; 0 if it is trusted."""
        return self._clock.now_ms() - self.now_ms() if self._doubted_since is not None else 0

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def now_ms(self) -> int:
        with self._lock:
            reported, seconds = self._clock.now_ms(), self._clock.monotonic()
            # The monotonic clock does not count a suspend and cannot be set, so a step of the time of day shows as a
            # difference.
            expected = self._trusted[0] + int((seconds - self._trusted[1]) * 1000)
            if reported - expected > JUMP_MS and not self._has_stood(seconds):
                return expected
            # Also for a clock that was set back: records only seem younger then, and nothing is removed too early.
            self._trusted, self._doubted_since = (reported, seconds), None
            return reported

    def _has_stood(self, seconds: float) -> bool:
        if self._doubted_since is None:
            self._doubted_since = seconds
        return seconds - self._doubted_since >= HOLD_S
