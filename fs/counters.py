"""What a mount counts while it works, for `.offsetfs/stats` and `.offsetfs/metrics`.

Plain integers that only rise (but for `followers`), touched on the event loop alone: a request pays for two or three
additions, a batch for as many. Nothing here is made into text; what shows it takes a copy (see report) and leaves the
loop.

Partitions beyond the first thousand that are used share one place, so that neither memory nor what is scraped grows
with the number of partitions; sums over all places stay right.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field

from offsetfs.storage.names import TopicPartition

PARTITIONS_MAX = 1000
DURATION_BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(slots=True)
class PartitionCounts:
    """What was done with one partition. Bytes appended are those of batches before compression."""

    appended_records: int = 0
    appended_bytes: int = 0
    appended_batches: int = 0
    lost_records: int = 0
    """Records that were taken, and could not be written."""
    reads: int = 0
    """Requests of the kernel; what it has in its page cache it does not ask for."""
    read_bytes: int = 0
    followers: int = 0
    """Open `follow` files. Rises and falls."""


@dataclass(slots=True)
class DutyCounts:
    """How often a duty did something, or failed, and what it freed."""

    runs: int = 0
    failures: int = 0
    segments_removed: int = 0
    bytes_freed: int = 0


class Durations:
    """How long something took, as a histogram: `counts[i]` took at most `DURATION_BOUNDS_S[i]`, the last one longer."""

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


@dataclass(slots=True, eq=False)
class Counters:
    """Everything that one mount counts."""

    requests: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """By handler: lookup, read, …"""
    refusals: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """Requests that were answered with an errno, by errno; ENOENT included."""
    duties: dict[str, DutyCounts] = field(default_factory=lambda: defaultdict(DutyCounts))
    syncs: Durations = field(default_factory=Durations)
    sync_failures: int = 0
    partitions: dict[TopicPartition, PartitionCounts] = field(default_factory=dict)
    others: PartitionCounts = field(default_factory=PartitionCounts)
    """Of all partitions for which there was no place of their own."""
    elsewhere: PartitionCounts = field(default_factory=PartitionCounts)
    """Of files outside the partitions."""

    def of(self, partition: TopicPartition) -> PartitionCounts:
        """Return where to count what is done with `partition`. To be kept: the next call may cost a look-up only."""
        counts = self.partitions.get(partition)
        if counts is None:
            if len(self.partitions) >= PARTITIONS_MAX:
                return self.others
            counts = self.partitions[partition] = PartitionCounts()
        return counts

    def forget(self, partition: TopicPartition) -> None:
        """The partition was deleted: its place is free for another one."""
        self.partitions.pop(partition, None)
