"""The state of a mirror at one moment: the lag and the error of each partition."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import trio

from offsetfs.common.formatting import count, duration, size
from offsetfs.kafka.mirror.mirror import Mirror
from offsetfs.kafka.mirror.partition import UNKNOWN, MirroredPartition
from offsetfs.storage import TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition. Times in seconds."""

    lag: int | None
    """How many offsets the source is ahead; None before its first response."""
    lag_seconds: float
    """The seconds for which the source has been ahead; 0 if it is not."""
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
        records, seconds = self._behind()
        yield f"mirror      of {self.source}: {records} offsets behind, for {duration(seconds)}; {self.failed} failed"

    @property
    def appended_bytes(self) -> int:
        """The bytes that this process has appended."""
        return sum(each.appended_bytes for each in self.partitions.values())

    @property
    def failed(self) -> int:
        """How many topics and partitions are not mirrored, or not now."""
        return len(self.failures) + sum(each.failure is not None for each in self.partitions.values())

    def _behind(self) -> tuple[int, float]:
        """Return how many offsets the source is ahead, of all partitions together, and the longest time."""
        behind = [each for each in self.partitions.values() if each.lag]
        return sum(each.lag or 0 for each in behind), max((each.lag_seconds for each in behind), default=0)

    def progress(self, bytes_per_s: float) -> str:
        """Describe the state in less than a line of a terminal; `bytes_per_s`: the rate of the last second."""
        records, seconds = self._behind()
        parts = [f"{size(self.appended_bytes)} received"]
        if bytes_per_s >= 1:
            parts.append(f"{size(bytes_per_s)}/s")
        if records:
            parts.append(f"{count(records)} offsets behind for {duration(max(round(seconds), 1))}")
        elif not self.partitions:
            parts.append("no partitions yet")
        elif any(each.lag is None and each.failure is None for each in self.partitions.values()):
            parts.append("connecting")
        else:
            parts.append("up to date")
        if self.failed:
            parts.append(f"{self.failed} failed")
        return ", ".join(parts)

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
