"""Limits the bytes per second of background work, so that it leaves disk bandwidth to other work.

The caller reports bytes read and written. If the rate is exceeded, `take` sleeps until it is not. Sleeps are at least
as long as the budget of 300 ms, so that small amounts cost nothing. Follows Kafka's Throttler, which checks only every
300 ms, whatever the amount.
"""

from __future__ import annotations

import time
from collections.abc import Callable

WINDOW_SECONDS = 0.3


class Throttle:
    """At most `bytes_per_second` in the long run, shared by all work of one thread. Not thread-safe."""

    def __init__(
        self,
        bytes_per_second: float,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        if not bytes_per_second > 0:
            raise ValueError(f"{bytes_per_second} bytes a second")
        self.bytes_per_second = bytes_per_second
        self._monotonic = monotonic
        self._sleep = sleep
        self._window_start = monotonic()
        self._window_bytes = 0

    def take(self, count: int) -> None:
        """Report that `count` bytes were read or written; sleeps if that exceeds the rate."""
        self._window_bytes += count
        now = self._monotonic()
        elapsed = now - self._window_start
        ahead = self._window_bytes / self.bytes_per_second - elapsed
        if max(elapsed, ahead) < WINDOW_SECONDS:
            return
        if ahead > 0:
            self._sleep(ahead)
            now = self._monotonic()
        self._window_start, self._window_bytes = now, 0


def unlimited() -> Throttle:
    """Return a throttle that never sleeps."""
    return Throttle(float("inf"), monotonic=lambda: 0.0, sleep=lambda _seconds: None)
