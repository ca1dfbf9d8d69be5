"""The age at which a segment is rolled, however little is in it. Follows Kafka's LogSegment.timeWaitedForRoll."""

from __future__ import annotations

import random
from collections.abc import Callable

from offsetfs.storage.clock import Clock
from offsetfs.storage.settings.config import LogConfig


class RollAge:
    """How old a segment is: from its first record to the next, by their timestamps; without those, since it is open."""

    __slots__ = ("_clock", "_config", "_created_ms", "_first_timestamp", "_jitter_ms")

    def __init__(self, config: LogConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._created_ms = clock.now_ms()
        self._first_timestamp: int | None = None
        self._jitter_ms = _draw_jitter_ms(config)

    def configure(self, config: LogConfig) -> None:
        """Go by other settings from now on."""
        before, self._config = self._config, config
        if (config.segment_jitter_ms, config.segment_ms) != (before.segment_jitter_ms, before.segment_ms):
            self._jitter_ms = _draw_jitter_ms(config)

    def begin(self, timestamp: int) -> None:
        """The first batch is there; `timestamp` is its largest."""
        self._first_timestamp = timestamp

    def is_reached(self, timestamp: int, measure_first: Callable[[], int]) -> bool:
        """Whether a batch of `timestamp` comes too late; `measure_first` tells that of the first batch, -1: none."""
        if self._first_timestamp is None:
            self._first_timestamp = measure_first()
        if self._first_timestamp >= 0 and timestamp >= 0:
            waited_ms = timestamp - self._first_timestamp
        else:
            waited_ms = self._clock.now_ms() - self._created_ms
        return waited_ms > self._config.roll_ms - self._jitter_ms


def _draw_jitter_ms(config: LogConfig) -> int:
    """Return by how much this segment is rolled early, so that the segments of many logs do not roll at once."""
    jitter_max = min(config.segment_jitter_ms, config.segment_ms)
    return random.randrange(jitter_max) if jitter_max > 0 else 0
