"""The two clocks of the engine: the time of day, which may jump, and a count of seconds, which may not.

Retention, roll by time, compaction and producer expiry go by the time of day, because records carry it; due times and
rate limits go by the other. Nothing else in the engine asks for the time of day, so that tests can set it.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What time it is. Kafka's `Time`, without waiting."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970, UTC. May fall when the clock is set."""

    def monotonic(self) -> float:
        """Return seconds since some moment; never falls."""


class _SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


SYSTEM: Clock = _SystemClock()
"""The machine's own clock."""
