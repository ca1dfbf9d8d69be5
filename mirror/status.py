"""The state of a mirror at one moment: the lag and the error of each partition."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import trio

from offsetfs.library.formatting import duration
from offsetfs.mirror.mirror import Mirror
from offsetfs.mirror.partition import UNKNOWN, MirroredPartition
from offsetfs.storage import TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition. Times in seconds."""

    lag: int | None
    """How many offsets the source is ahead; None before its first response."""
    lag_seconds: float
    """For how long the source has been ahead; 0 when it is not."""
    failure: str | None
    """Why it is not mirrored, or not now."""
    appended_bytes: int
    """The bytes that this process has appended."""


@dataclass(frozen=True, slots=True)
class MirrorStatus:
    """One mirror."""

    source: str
    """The addresses of brokers, as the user gave them."""
    failures: Mapping[str, str]
    """Topics that are not mirrored, with the reasons."""
    partitions: Mapping[TopicPartition, PartitionStatus]

    def lines(self) -> Iterator[str]:
        """Yield lines for `.offsetfs/stats` of a mount in the same process."""
        behind = [each for each in self.partitions.values() if each.lag]
        records, seconds = sum(each.lag or 0 for each in behind), max((each.lag_seconds for each in behind), default=0)
        failed = len(self.failures) + sum(each.failure is not None for each in self.partitions.values())
        yield f"mirror      of {self.source}: {records} offsets behind, for {duration(seconds)}; {failed} failed"

    def as_json(self) -> dict[str, Any]:
        """Return the state for JSON."""
        return {
            "source": self.source,
            "failures": dict(self.failures),
            "partitions": {str(name): dataclasses.asdict(each) for name, each in self.partitions.items()},
        }


def status_of(mirror: Mirror) -> MirrorStatus:
    """Return the current state; on the event loop."""
    now = trio.current_time()
    partitions = {name: _partition(each, mirror.waiting_for(each), now) for name, each in mirror.partitions.items()}
    return MirrorStatus(mirror.source, dict(mirror.failures), partitions)


def _partition(partition: MirroredPartition, waiting_for: str, now: float) -> PartitionStatus:
    lag = None if partition.lag == UNKNOWN else partition.lag
    seconds = round(partition.lag_seconds(now), 1)
    return PartitionStatus(lag, seconds, partition.failure or waiting_for or None, partition.appended_bytes)
