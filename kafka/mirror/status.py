"""The state of a mirror at one moment: the lag and the error of each partition."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import trio

from offsetfs.common.formatting import count, duration, size
from offsetfs.kafka.mirror.mirror import Mirror
from offsetfs.kafka.mirror.partition import UNKNOWN, MirroredPartition
from offsetfs.storage import TopicPartition

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_PREFIX = "offsetfs_mirror_"
_LABELS = ("topic", "partition")


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition. Times in seconds."""

    lag: int | None
    """The number of offsets that the source is ahead; None before its first response."""
    lag_seconds: float
    """The seconds for which the source has been ahead; 0 if it is not."""
    failure: str | None
    """The reason for which the partition is not mirrored, or not now."""
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
    is_complete: bool = False
    """Whether nothing is left to do with `once`."""

    def lines(self) -> Iterator[str]:
        """Yield lines for `.offsetfs/stats` of a mount in the same process."""
        records, seconds = self._behind()
        yield f"mirror      of {self.source}: {records} offsets behind, for {duration(seconds)}; {self.failed} failed"

    @property
    def appended_bytes(self) -> int:
        """The bytes that this process has appended."""
        return sum(partition.appended_bytes for partition in self.partitions.values())

    @property
    def failed(self) -> int:
        """The number of topics and partitions that are not mirrored, or not now."""
        return len(self.failures) + sum(partition.failure is not None for partition in self.partitions.values())

    def _behind(self) -> tuple[int, float]:
        """Return the offsets that the source is ahead, of all partitions together, and the longest time."""
        behind = [partition for partition in self.partitions.values() if partition.lag]
        return sum(partition.lag or 0 for partition in behind), max(
            (partition.lag_seconds for partition in behind), default=0
        )

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
        elif any(partition.lag is None and partition.failure is None for partition in self.partitions.values()):
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
            "partitions": {str(name): dataclasses.asdict(partition) for name, partition in self.partitions.items()},
        }

    def metrics(self) -> Iterator[Metric]:
        """Yield the metrics for Prometheus; docs/use/monitoring.md describes each of them."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # when metrics are read

        info = GaugeMetricFamily(_PREFIX + "info", "The source; always 1.", labels=["source"])
        info.add_metric([self.source], 1)
        yield info
        records = GaugeMetricFamily(_PREFIX + "lag", "Offsets that the source is ahead.", labels=_LABELS)
        seconds = GaugeMetricFamily(_PREFIX + "lag_seconds", "For how long the source has been ahead.", labels=_LABELS)
        stopped = GaugeMetricFamily(_PREFIX + "failed", "1 for a partition with an error, else 0.", labels=_LABELS)
        appended = CounterMetricFamily(_PREFIX + "appended_bytes", "Bytes of mirrored batches.", labels=_LABELS)
        for name, partition in sorted(self.partitions.items()):
            labels = [name.topic, str(name.partition)]
            if partition.lag is not None:
                records.add_metric(labels, partition.lag)
            seconds.add_metric(labels, partition.lag_seconds)
            stopped.add_metric(labels, partition.failure is not None)
            appended.add_metric(labels, partition.appended_bytes)
        yield from (records, seconds, stopped, appended)
        failures = GaugeMetricFamily(_PREFIX + "failed_topics", "Topics that are not mirrored because of an error.")
        failures.add_metric([], len(self.failures))
        yield failures


def status_of(mirror: Mirror) -> MirrorStatus:
    """Return the current state; on the event loop."""
    now = trio.current_time()
    partitions = {
        name: _partition(partition, mirror.leaders.waiting_for(partition), now)
        for name, partition in mirror.state.partitions.items()
    }
    return MirrorStatus(mirror.state.source, dict(mirror.state.failures), partitions, mirror.is_complete)


def _partition(partition: MirroredPartition, waiting_for: str, now: float) -> PartitionStatus:
    lag = None if partition.lag == UNKNOWN else partition.lag
    seconds = round(partition.lag_seconds(now), 1)
    return PartitionStatus(lag, seconds, partition.failure or waiting_for or None, partition.appended_bytes)
