"""Records by time, in bins whose width grows with the span: bounded memory, whatever the timestamps are."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from offsetfs.answers.report import Bar
from offsetfs.common.formatting import utc_time

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
WIDTHS_MS = (
    MINUTE_MS,
    5 * MINUTE_MS,
    15 * MINUTE_MS,
    60 * MINUTE_MS,
    3 * 60 * MINUTE_MS,
    6 * 60 * MINUTE_MS,
    12 * 60 * MINUTE_MS,
    DAY_MS,
    7 * DAY_MS,
    28 * DAY_MS,
    364 * DAY_MS,
)
"""The widths of bins. Each is a multiple of the one before, so that bins can be joined."""

BINS_MAX = 4096
"""The bins that are kept before they are joined to wider ones. The widest, to the year 9999, can be twice as many."""

TIME_MS_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999. Later times are counted together."""

_OUTSIDE_SHARE = 0.001
"""The share of the records, at either end, that may lie outside of the bars, so that one wrong clock hides nothing."""


class TimeCounts:
    """Counts of records by time in milliseconds since 1970."""

    def __init__(self) -> None:
        self.bins: dict[int, int] = {}
        """Counts by number of the bin: its time divided by `width_ms`."""
        self.untimed = 0
        """Records without a timestamp."""
        self.beyond = 0
        """Records with a timestamp after the year 9999."""
        self._level = 0

    @property
    def width_ms(self) -> int:
        return WIDTHS_MS[self._level]

    def add(self, times: Any, counts: Any) -> None:
        """Add `counts[i]` records of `times[i]`; two arrays of int64 of the same length."""
        valid = (times >= 0) & (times <= TIME_MS_MAX)
        self.untimed += int(counts[times < 0].sum())
        self.beyond += int(counts[times > TIME_MS_MAX].sum())
        bins, places = np.unique(times[valid] // self.width_ms, return_inverse=True)
        sums = np.bincount(places, weights=counts[valid], minlength=len(bins))
        for number, count in zip(bins.tolist(), sums.tolist(), strict=True):
            self.bins[number] = self.bins.get(number, 0) + int(count)
        self._widen(BINS_MAX)

    def merge(self, other: TimeCounts) -> None:
        """Add the counts of another one."""
        self.untimed += other.untimed
        self.beyond += other.beyond
        level = max(self._level, other._level)
        mine, others = self._at(level), other._at(level)
        for number, count in others.items():
            mine[number] = mine.get(number, 0) + count
        self.bins, self._level = mine, level
        self._widen(BINS_MAX)

    def bars(self, bars_max: int = 24) -> list[Bar]:
        """Return about `bars_max` bars over the time of nearly all records, and one at each end for the rest."""
        if not self.bins:
            return []
        low, high = self._middle()
        level = self._level
        while level < len(WIDTHS_MS) - 1 and (high - low) // WIDTHS_MS[level] >= bars_max:
            level += 1
        width, joined = WIDTHS_MS[level], self._at(level)
        first, last = low // width, high // width
        before = sum(count for number, count in joined.items() if number < first)
        after = sum(count for number, count in joined.items() if number > last)
        bars = [Bar(before, label=f"before {utc_time(first * width)}")] if before else []
        bars += [Bar(joined.get(number, 0), number * width, (number + 1) * width) for number in range(first, last + 1)]
        return bars + ([Bar(after, label=f"after {utc_time((last + 1) * width)}")] if after else [])

    def _middle(self) -> tuple[int, int]:
        """Return the times between which the records are, without a small share at each end."""
        numbers = sorted(self.bins)
        sums = np.cumsum([self.bins[number] for number in numbers])
        outside = int(sums[-1] * _OUTSIDE_SHARE)
        low = numbers[int(np.searchsorted(sums, outside, side="right"))]
        high = numbers[int(np.searchsorted(sums, sums[-1] - outside, side="left"))]
        return low * self.width_ms, high * self.width_ms

    def _at(self, level: int) -> dict[int, int]:
        """Return the counts with the bins of a level that is not below the own one."""
        factor = WIDTHS_MS[level] // self.width_ms
        joined: dict[int, int] = defaultdict(int)
        for number, count in self.bins.items():
            joined[number // factor] += count
        return dict(joined)

    def _widen(self, bins_max: int) -> None:
        while len(self.bins) > bins_max and self._level < len(WIDTHS_MS) - 1:
            self.bins = self._at(self._level + 1)
            self._level += 1
