"""A histogram of durations, as `.offsetfs/metrics` of a mount and the metrics of a broker export it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

DURATION_BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Durations:
    """A histogram of durations: `counts[i]` took at most `DURATION_BOUNDS_S[i]`, the last count longer."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(DURATION_BOUNDS_S) + 1)
        self.sum_s = 0.0

    @property
    def count(self) -> int:
        return sum(self.counts)

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(DURATION_BOUNDS_S, seconds)] += 1
        self.sum_s += seconds


def cumulative_buckets(counts: Sequence[int]) -> list[tuple[str, float]]:
    """Return the upper bound of each bucket, and the number of durations up to it, as Prometheus has them."""
    buckets, sum_so_far = [], 0
    for bound, count in zip([*map(str, DURATION_BOUNDS_S), "+Inf"], counts, strict=True):
        sum_so_far += count
        buckets.append((bound, float(sum_so_far)))
    return buckets
