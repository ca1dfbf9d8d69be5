"""`.offsetfs/metrics`: a report in the text format of Prometheus.

Two tables declare the metrics. `PARTITION_METRICS` has a sample for each used partition, with the labels `topic` and
`partition`. At most a thousand partitions have their own samples. The others are summed in one sample with the topic
`(others)`, which is no valid name of a topic. `MOUNT_METRICS` has the samples of the whole mount. Every sample has the
label `mount`, so that one Prometheus can collect the files of several mounts.

Names and types follow the conventions of Prometheus: base units, and `_total` for counters. docs/use/monitoring.md
describes each metric, and a test compares the page with the tables. Only this module imports prometheus_client, and
only the first read of `metrics` imports this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest

from offsetfs.common.durations import cumulative_buckets
from offsetfs.common.group_lags import LAG_METRICS
from offsetfs.fs.control.report import MountReport, PartitionReport

PREFIX = "offsetfs_"
OTHERS = "(others)"
TASK_LABEL = "task"
"""The label of a background task, such as retention."""

COUNTER = CounterMetricFamily
GAUGE = GaugeMetricFamily
_Family = type[CounterMetricFamily] | type[GaugeMetricFamily]


@dataclass(frozen=True, slots=True)
class PartitionMetric:
    """A metric with a sample per partition. `value` returns None for a partition without a sample."""

    name: str
    family: _Family
    help: str
    value: Callable[[PartitionReport], float | None]


@dataclass(frozen=True, slots=True)
class MountMetric:
    """A metric of the mount. `values` maps each value of `label` to a number; the key is "" without a label."""

    name: str
    family: _Family
    help: str
    label: str
    values: Callable[[MountReport], Mapping[str, float]]


def _counted(attribute: str, help_text: str) -> PartitionMetric:
    return PartitionMetric(attribute, COUNTER, help_text, lambda report: getattr(report.counts, attribute))


def _unsynced(attribute: str, name: str, help_text: str) -> PartitionMetric:
    return PartitionMetric(name, GAUGE, help_text, lambda report: getattr(report, attribute))


def _of_log(attribute: str, name: str, help_text: str) -> PartitionMetric:
    def value(report: PartitionReport) -> float | None:
        return None if report.log is None else getattr(report.log, attribute)

    return PartitionMetric(name, GAUGE, help_text, value)


PARTITION_METRICS = (
    _counted("appended_records", "Records written into the segment file."),
    _counted("appended_bytes", "Bytes of appended batches before compression."),
    _counted("appended_batches", "Batches written into the segment file."),
    _counted("lost_records", "Records that write(2) accepted and that could not be written."),
    _counted("reads", "Read requests of the kernel."),
    _counted("read_bytes", "Bytes returned to the kernel."),
    PartitionMetric("followers", GAUGE, "Open follow files.", lambda report: report.counts.followers),
    _unsynced("unsynced_batches", "unsynced_batches", "Accepted batches that are not yet on disk."),
    _unsynced("unsynced_bytes", "unsynced_bytes", "Accepted bytes that are not yet on disk."),
    _unsynced("unsynced_age_s", "unsynced_age_seconds", "Age of the oldest batch in the file that is not yet on disk."),
    _of_log("log_start_offset", "log_start_offset", "Offset of the oldest record."),
    _of_log("next_offset", "log_next_offset", "Offset that the next record gets."),
    _of_log("size_bytes", "log_size_bytes", "Bytes of the segments."),
    _of_log("segments", "log_segments", "Segments of the log."),
    _of_log("has_failed", "log_failed", "1 if a write or a sync failed and the log accepts no more writes."),
    _of_log("damaged", "log_damaged_places", "Places of the log that cannot be read."),
)


def _single(name: str, family: _Family, help_text: str, attribute: str) -> MountMetric:
    return MountMetric(name, family, help_text, "", lambda report: {"": getattr(report, attribute)})


def _of_cache(name: str, family: _Family, help_text: str, attribute: str) -> MountMetric:
    def values(report: MountReport) -> Mapping[str, float]:
        return {cache: getattr(cache_report, attribute) for cache, cache_report in report.caches.items()}

    return MountMetric(name, family, help_text, "cache", values)


def _of_task(name: str, help_text: str, attribute: str) -> MountMetric:
    def values(report: MountReport) -> Mapping[str, float]:
        return {task: getattr(counts, attribute) for task, counts in report.tasks.items()}

    return MountMetric(f"background_task_{name}", COUNTER, help_text, TASK_LABEL, values)


MOUNT_METRICS = (
    _single("start_time_seconds", GAUGE, "Time at which the mount started, since 1970.", "started_s"),
    _single("partitions", GAUGE, "Partitions in the log directory.", "partitions_count"),
    _single("open_files", GAUGE, "Open files of the mount.", "open_files"),
    MountMetric("requests", COUNTER, "Requests of the kernel.", "operation", lambda report: report.requests),
    MountMetric("request_errors", COUNTER, "Requests answered with an errno.", "errno", lambda report: report.refusals),
    _single("faults", COUNTER, "Faults recorded in .offsetfs/errors.", "faults"),
    MountMetric(
        "unrecovered_partitions",
        GAUGE,
        "Partitions that are read only because their recovery failed.",
        "",
        lambda report: {"": len(report.unrecovered)},
    ),
    _single("sync_failures", COUNTER, "Syncs that failed.", "sync_failures"),
    _single("buffer_bytes", GAUGE, "Memory of open batches.", "buffer_bytes"),
    _single(
        "buffer_limit_bytes",
        GAUGE,
        "Limit of the memory of open batches; at the limit writers wait.",
        "buffer_bytes_max",
    ),
    _of_cache("cache_hits", COUNTER, "Look-ups that found an entry in the cache.", "hits"),
    _of_cache("cache_misses", COUNTER, "Look-ups that found no entry in the cache.", "misses"),
    _of_cache("cache_bytes", GAUGE, "Bytes in a cache.", "bytes"),
    _of_cache("cache_limit_bytes", GAUGE, "Limit of the bytes in a cache.", "bytes_max"),
    _of_task("runs", "Runs of a background task that changed a log.", "runs"),
    _of_task("failures", "Failed runs of a background task.", "failures"),
    _of_task("freed_bytes", "Bytes of segments that a background task freed.", "bytes_freed"),
    _of_task("removed_segments", "Segments that a background task removed.", "segments_removed"),
)


def text(report: MountReport) -> bytes:
    """Return the report in the text format of Prometheus. Runs in a thread: it takes milliseconds or more."""
    return generate_latest(_Collected(report))


class _Collected:
    """A registry of one report."""

    def __init__(self, report: MountReport) -> None:
        self._report = report

    def collect(self) -> Iterator[Metric]:
        mount = clean(self._report.mount_point)
        for family in _families(self._report):
            family.samples = [sample._replace(labels={"mount": mount, **sample.labels}) for sample in family.samples]
            yield family


def _families(report: MountReport) -> Iterator[Metric]:
    yield _info(report)
    for of_mount in MOUNT_METRICS:
        labels = [of_mount.label] if of_mount.label else []
        family = of_mount.family(PREFIX + of_mount.name, of_mount.help, labels=labels)
        for label, number in sorted(of_mount.values(report).items()):
            family.add_metric([label] if labels else [], number)
        yield family
    yield _syncs(report)
    for of_partition in PARTITION_METRICS:
        family = of_partition.family(PREFIX + of_partition.name, of_partition.help, labels=["topic", "partition"])
        for partition in report.partitions:
            value = of_partition.value(partition)
            if value is not None:
                family.add_metric(_labels(partition), value)
        yield family
    if report.companion is not None:
        yield from report.companion.families()
    yield from _lags(report)
    yield from ProcessCollector(namespace="offsetfs", registry=None).collect()


def _info(report: MountReport) -> Metric:
    family = GaugeMetricFamily(
        PREFIX + "mount_info", "What is mounted; always 1.", labels=["log_directory", "mode", "version"]
    )
    mode = "ro" if report.is_read_only else "rw"
    family.add_metric([clean(report.log_directory), mode, report.version], 1)
    return family


def _syncs(report: MountReport) -> Metric:
    family = HistogramMetricFamily(PREFIX + "sync_duration_seconds", "How long syncs took.")
    family.add_metric([], cumulative_buckets(report.sync_counts), report.sync_sum_s)
    return family


def _lags(report: MountReport) -> Iterator[Metric]:
    """Yield the lags of consumer groups, as those of a broker; nothing without any, as beside a broker's own."""
    for name, help_text, samples in LAG_METRICS if report.lags.records else ():
        family = GaugeMetricFamily(name, help_text, labels=["group", "topic"])
        for labels, number in sorted(samples(report.lags).items()):
            family.add_metric(labels, number)
        yield family


def _labels(partition: PartitionReport) -> list[str]:
    return [OTHERS, ""] if partition.name is None else [partition.name.topic, str(partition.name.partition)]


def clean(path: str) -> str:
    """Return a path as valid UTF-8: bytes that are not UTF-8 become escapes."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
