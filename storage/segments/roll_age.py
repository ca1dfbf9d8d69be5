"""The age at which a segment rolls, whatever its size. Follows Kafka's LogSegment.timeWaitedForRoll."""

from __future__ import annotations

import random
from collections.abc import Callable

from offsetfs.storage.clock import Clock
from offsetfs.storage.settings.config import LogConfig


class RollAge:
    """The age of a segment: between its first record and the next, by timestamps; without timestamps, since it was
    opened.
    """

    __slots__ = ("_clock", "_config", "_created_ms", "_first_timestamp", "_jitter_ms")

    def __init__(self, config: LogConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._created_ms = clock.now_ms()
        self._first_timestamp: int | None = None
        self._jitter_ms = _draw_jitter_ms(config)

    def configure(self, config: LogConfig) -> None:
        """Use other settings from now on."""
        before, self._config = self._config, config
        if (config.segment_jitter_ms, config.segment_ms) != (before.segment_jitter_ms, before.segment_ms):
            self._jitter_ms = _draw_jitter_ms(config)

    def begin(self, timestamp: int) -> None:
        """Record the first batch, whose largest timestamp is `timestamp`."""
        self._first_timestamp = timestamp

    def is_reached(self, timestamp: int, measure_first: Callable[[], int]) -> bool:
        """Whether a batch of `timestamp` needs a new segment.

        `measure_first` returns the first batch's timestamp, -1 if none.
        """
        if self._first_timestamp is None:
            self._first_timestamp = measure_first()
        if self._first_timestamp >= 0 and timestamp >= 0:
            waited_ms = timestamp - self._first_timestamp
        else:
            waited_ms = self._clock.now_ms() - self._created_ms
        return waited_ms > self._config.roll_ms - self._jitter_ms


def _draw_jitter_ms(config: LogConfig) -> int:
    """Return a random time by which this segment rolls earlier, so that the segments of many logs do not roll at
    once.
    """
    jitter_max = min(config.segment_jitter_ms, config.segment_ms)
    return random.randrange(jitter_max) if jitter_max > 0 else 0
