"""A time of day that does not run ahead at once when somebody sets the clock ahead.

Retention and compaction remove what is old, and a clock that is a year ahead makes everything old. Nothing on a machine
tells a wrong clock from a right one, but time passes at one rate: where the time of day runs ahead of the other clock
by more than `JUMP_MS` within one run, it is believed only after it has stood for `HOLD_S`, in which somebody, or NTP,
may set it right. Until then time goes on from where it was. A clock that is set back is used at once: records only
seem younger then. Kafka has nothing like it.
"""

from __future__ import annotations

import threading

from offsetfs.storage.clock import Clock

JUMP_MS = 10 * 60 * 1000
"""What a clock may run ahead between two looks and be believed."""

HOLD_S = 60 * 60.0
"""How long a clock that jumped ahead is not believed."""


class CautiousClock:
    """A `Clock` that follows another one. Whoever removes what is old goes by one of these as long as it lives."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._believed = (clock.now_ms(), clock.monotonic())
        self._doubted_since: float | None = None

    @property
    def doubt_ms(self) -> int:
        """How far ahead the clock is that is not believed; 0 when it is."""
        return self._clock.now_ms() - self.now_ms() if self._doubted_since is not None else 0

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def now_ms(self) -> int:
        with self._lock:
            told, seconds = self._clock.now_ms(), self._clock.monotonic()
            expected = self._believed[0] + int((seconds - self._believed[1]) * 1000)
            if told - expected > JUMP_MS and not self._has_stood(seconds):
                return expected
            self._believed, self._doubted_since = (told, seconds), None
            return told

    def _has_stood(self, seconds: float) -> bool:
        if self._doubted_since is None:
            self._doubted_since = seconds
        return seconds - self._doubted_since >= HOLD_S
