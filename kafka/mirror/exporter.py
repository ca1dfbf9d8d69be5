"""The metrics of a mirror for Prometheus: of `offsetfs mirror --metrics`, and of a mount of `kafka://`.

docs/use/monitoring.md describes each metric.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from offsetfs.kafka.mirror.status import MirrorStatus

PREFIX = "offsetfs_mirror_"
_LABELS = ("topic", "partition")


def families(status: MirrorStatus) -> Iterator[Metric]:
    """Yield the metrics of a mirror."""
    info = GaugeMetricFamily(PREFIX + "info", "The source; always 1.", labels=["source"])
    info.add_metric([status.source], 1)
    yield info
    records = GaugeMetricFamily(PREFIX + "lag", "Offsets that the source is ahead.", labels=_LABELS)
    seconds = GaugeMetricFamily(PREFIX + "lag_seconds", "For how long the source has been ahead.", labels=_LABELS)
    stopped = GaugeMetricFamily(PREFIX + "failed", "1 for a partition with an error, else 0.", labels=_LABELS)
    appended = CounterMetricFamily(PREFIX + "appended_bytes", "Bytes of mirrored batches.", labels=_LABELS)
    for name, each in sorted(status.partitions.items()):
        labels = [name.topic, str(name.partition)]
        if each.lag is not None:
            records.add_metric(labels, each.lag)
        seconds.add_metric(labels, each.lag_seconds)
        stopped.add_metric(labels, each.failure is not None)
        appended.add_metric(labels, each.appended_bytes)
    yield from (records, seconds, stopped, appended)
    failures = GaugeMetricFamily(PREFIX + "failed_topics", "Topics that are not mirrored because of an error.")
    failures.add_metric([], len(status.failures))
    yield failures
