"""The two clocks of the engine: the time of day, which may jump, and a monotonic count of seconds.

Retention, roll by time, compaction and producer expiration use the time of day, because records carry it. Due times and
rate limits use the monotonic clock. No other module of the engine reads the time of day, so tests can set it.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """A source of time. Kafka's `Time`, without waiting."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970, UTC. May fall when the clock is set."""

    def monotonic(self) -> float:
        """Return seconds since an arbitrary moment; never falls."""


class _SystemClock:
    def now_ms(self) -> int:
        # Integers, because the float of `time.time` may be rounded to the next millisecond.
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


SYSTEM: Clock = _SystemClock()
"""The machine's own clock."""


JUMP_MS = 10 * 60 * 1000
"""The largest jump ahead between two readings that is trusted at once."""

HOLD_S = 60 * 60.0
"""The seconds for which a clock that jumped ahead is not trusted."""


class CautiousClock:
    """A time of day that does not follow a sudden jump ahead of another clock.

    Retention and compaction remove old records, and a clock that is a year ahead makes all records old. A wrong clock
    cannot be detected, but time passes at one rate. If the time of day runs ahead of the monotonic clock by more than
    `JUMP_MS`, it is used only after `HOLD_S`, in which an administrator, or NTP, may correct it. Until then, time
    continues from the last trusted value. A clock that is set back is used at once, because records only seem younger
    then. Retention and compaction of a directory share one `CautiousClock` for its lifetime. Kafka has nothing
    comparable.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._trusted = (clock.now_ms(), clock.monotonic())
        self._doubted_since: float | None = None

    @property
    def doubt_ms(self) -> int:
        """The milliseconds by which the clock is ahead of the trusted time; 0 if it is trusted."""
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
