"""The limit of bytes per second over all brokers."""

from __future__ import annotations

import trio


class RateLimit:
    """A bucket that fills with `bytes_per_s`, a second's worth at most; 0: no limit."""

    def __init__(self, bytes_per_s: int) -> None:
        self._bytes_per_s = bytes_per_s
        self._free_from = 0.0

    def bytes_max(self, wanted: int) -> int:
        """Return how many bytes to ask for at once: so few that a pause is about a second at most."""
        return min(wanted, self._bytes_per_s) if self._bytes_per_s else wanted

    def take(self, count: int) -> None:
        """Count bytes that were received."""
        if self._bytes_per_s:
            self._free_from = max(self._free_from, trio.current_time() - 1.0) + count / self._bytes_per_s

    async def wait(self) -> None:
        """Wait until more may be received."""
        if self._bytes_per_s:
            await trio.sleep_until(self._free_from)
