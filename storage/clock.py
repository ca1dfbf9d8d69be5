"""The two clocks of the engine: the time of day, which may jump, and a monotonic count of seconds.

Retention, roll by time, compaction and producer expiration use the time of day, because records carry it. Due times and
rate limits use the monotonic clock. No other module of the engine reads the time of day, so tests can set it.
"""

from __future__ import annotations

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
