"""The counters of a mount, for `.offsetfs/stats` and `.offsetfs/metrics`.

Plain integers that only increase, except `followers`. Only the event loop changes them: a request costs two or three
additions, a batch as many. `report` copies them; other threads format the copy.

The first thousand used partitions have their own counters, all others share one set. This bounds the memory and the
size of the metrics, and sums stay correct.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from offsetfs.common.durations import Durations
from offsetfs.storage import TopicPartition

PARTITIONS_MAX = 1000


@dataclass(slots=True)
class PartitionCounts:
    """The counters of one partition. `appended_bytes` counts batches before compression."""

    appended_records: int = 0
    appended_bytes: int = 0
    appended_batches: int = 0
    lost_records: int = 0
    """Records that were accepted and could not be written."""
    reads: int = 0
    """Read requests of the kernel. Reads from its page cache cause none."""
    read_bytes: int = 0
    followers: int = 0
    """The number of open `follow` files now."""


@dataclass(slots=True)
class TaskCounts:
    """The counters of one background task: runs that changed a log, failed runs, and what they freed."""

    runs: int = 0
    failures: int = 0
    segments_removed: int = 0
    bytes_freed: int = 0


@dataclass(slots=True, eq=False)
class Counters:
    """All counters of one mount."""

    requests: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """The number of requests by handler: lookup, read, …"""
    refusals: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """Requests that were answered with an errno, by errno; ENOENT included."""
    tasks: dict[str, TaskCounts] = field(default_factory=lambda: defaultdict(TaskCounts))
    syncs: Durations = field(default_factory=Durations)
    sync_failures: int = 0
    partitions: dict[TopicPartition, PartitionCounts] = field(default_factory=dict)
    others: PartitionCounts = field(default_factory=PartitionCounts)
    """The sum of all partitions without their own counters."""
    elsewhere: PartitionCounts = field(default_factory=PartitionCounts)
    """The counters of files outside the partitions."""

    def of(self, partition: TopicPartition) -> PartitionCounts:
        """Return the counters of `partition`. Callers keep them, so that a request costs no look-up."""
        counts = self.partitions.get(partition)
        if counts is None:
            if len(self.partitions) >= PARTITIONS_MAX:
                return self.others
            counts = self.partitions[partition] = PartitionCounts()
        return counts

    def forget(self, partition: TopicPartition) -> None:
        """Drop the counters of a deleted partition; another partition may then have its own."""
        self.partitions.pop(partition, None)
