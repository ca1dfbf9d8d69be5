"""The active segment: blocks preallocated beyond the end of its log file, and an age at which it rolls.

Allocating block by block takes a third of the time of a write to the page cache; allocating many megabytes at once
costs almost nothing. The file size does not change: readers, recovery and other programs see only appended bytes.

Never allocates more than was appended since the last release, and never more than `STEP_BYTES_MAX`. The log releases
unused blocks with each sync, roll and close, and when the disk is full. After a crash the next opening for appends
releases them. If allocation fails, appends continue without it: no function here raises. The log decides which file is
active.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable

from offsetfs.storage.clock import Clock
from offsetfs.storage.files import File
from offsetfs.storage.settings.config import LogConfig

STEP_BYTES_MIN = 1 << 20
"""Logs that append less than this between syncs get no preallocation."""

STEP_BYTES_MAX = 64 << 20


class Preallocation:
    """The blocks that are allocated beyond the end of one file."""

    __slots__ = ("_appended", "_end", "_is_refused")

    def __init__(self) -> None:
        self._end = 0  # the end of the allocated blocks
        self._appended = 0  # bytes appended since the last release
        self._is_refused = False

    @property
    def is_allocated(self) -> bool:
        """Whether blocks may be allocated beyond the end."""
        return self._end > 0

    def reserve(self, file: File, position: int, size: int) -> None:
        """Allocate blocks for `size` bytes at `position`, the end of the file, and more, if enough was appended."""
        # Never more than was appended since the last sync: `du` overstates a log by at most what it received in a
        # second.
        step = min(self._appended, STEP_BYTES_MAX)
        self._appended += size
        end = position + size
        if end <= self._end or step < STEP_BYTES_MIN or self._is_refused:
            return
        start = max(self._end, position)
        try:
            file.preallocate(start, end + step - start)
        except OSError:  # a full disk, or a file system without fallocate
            self._is_refused = True
        else:
            self._end = end + step

    def release(self, file: File, size: int) -> None:
        """Release the blocks beyond the end of the file, at `size`."""
        if self._end > size:
            with contextlib.suppress(OSError):  # the next opening releases them
                file.truncate(size)
        self._end = self._appended = 0


def release_leftover(file: File) -> None:
    """Release blocks that a crashed process had allocated."""
    # st_blocks shows blocks beyond the end; `ls -l` does not.
    if file.has_blocks_beyond_end(STEP_BYTES_MIN):
        with contextlib.suppress(OSError):
            file.truncate(file.size())


class RollAge:
    """The age of a segment, at which it rolls whatever its size: between its first record and the next, by timestamps;
    without timestamps, since it was opened. Follows Kafka's LogSegment.timeWaitedForRoll.
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
