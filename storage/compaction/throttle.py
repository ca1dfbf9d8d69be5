"""A limit on bytes a second for work in the background, so that it leaves the disk to others.

What was read and written is reported; when more went by than the rate allows, the caller is made to sleep until it
does not. A sleep is for what 300 ms allow, or more, so that small pieces cost nothing. Follows Kafka's Throttler, which
looks only every 300 ms, however much went by.
"""

from __future__ import annotations

import time
from collections.abc import Callable

WINDOW_SECONDS = 0.3


class Throttle:
    """At most `bytes_per_second`, in the long run. One for all who share the limit; not for several threads."""

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
        """Report that `count` bytes were read or written; sleeps when that was too fast."""
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
    """Return a throttle that never makes anybody wait."""
    return Throttle(float("inf"), monotonic=lambda: 0.0, sleep=lambda _seconds: None)
