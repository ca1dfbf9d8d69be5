"""The metrics of a broker in the text format of Prometheus.

The tables declare the metrics. docs/use/monitoring.md describes each one, and a test compares the page with what is
exported. `.offsetfs/metrics` of a mount that is a broker as well has the same families.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from offsetfs.common.durations import Durations, cumulative_buckets
from offsetfs.common.group_lags import LAG_METRICS, OTHERS, GroupLags
from offsetfs.common.metrics_server import MetricsServer
from offsetfs.kafka.broker.connections.listeners import listen_error
from offsetfs.kafka.broker.metrics import ApiCounts, TopicCounts
from offsetfs.kafka.broker.report import BrokerReport, BrokerReporter
from offsetfs.kafka.protocol.error_codes import ErrorCode

PREFIX = "offsetfs_broker_"

COUNTER = CounterMetricFamily
GAUGE = GaugeMetricFamily


@dataclass(frozen=True, slots=True)
class BrokerMetric:
    """A metric. `samples` maps the values of `labels` to a number."""

    name: str
    family: type[CounterMetricFamily] | type[GaugeMetricFamily]
    help: str
    labels: tuple[str, ...]
    samples: Callable[[BrokerReport], Mapping[tuple[str, ...], float]]


@dataclass(frozen=True, slots=True)
class BrokerHistogram:
    """A histogram; `durations` maps the values of `labels` to durations."""

    name: str
    help: str
    labels: tuple[str, ...]
    durations: Callable[[BrokerReport], Mapping[tuple[str, ...], Durations]]


def _of_topics(value: Callable[[TopicCounts], int]) -> Callable[[BrokerReport], Mapping[tuple[str, ...], float]]:
    def samples(report: BrokerReport) -> Mapping[tuple[str, ...], float]:
        by_topic: dict[tuple[str, ...], float] = {
            (name,): value(counts) for name, counts in report.metrics.topics.items()
        }
        if report.metrics.others != TopicCounts():
            by_topic[OTHERS,] = value(report.metrics.others)
        return by_topic

    return samples


def _used(report: BrokerReport) -> list[tuple[str, ApiCounts]]:
    return [(name, counts) for name, counts in report.metrics.apis.items() if counts.requests]


def _errors(report: BrokerReport) -> Mapping[tuple[str, ...], float]:
    return {
        (api, ErrorCode(code).name): number for api, counts in _used(report) for code, number in counts.errors.items()
    }


def _info(report: BrokerReport) -> Mapping[tuple[str, ...], float]:
    return {(report.log_directory, "ro" if report.is_read_only else "rw", report.version): 1}


def _of_lags(
    samples: Callable[[GroupLags], Mapping[tuple[str, str], float]],
) -> Callable[[BrokerReport], Mapping[tuple[str, ...], float]]:
    return lambda report: {(group, topic): number for (group, topic), number in samples(report.lags).items()}


METRICS: tuple[BrokerMetric, ...] = (
    BrokerMetric("info", GAUGE, "What is served; always 1.", ("log_directory", "mode", "version"), _info),
    BrokerMetric(
        "start_time_seconds",
        GAUGE,
        "Time at which the broker started, since 1970.",
        (),
        lambda report: {(): report.metrics.started_s},
    ),
    BrokerMetric("topics", GAUGE, "Topics in the log directory.", (), lambda report: {(): report.topics}),
    BrokerMetric("partitions", GAUGE, "Partitions in the log directory.", (), lambda report: {(): report.partitions}),
    BrokerMetric("connections", GAUGE, "Open connections.", (), lambda report: {(): report.metrics.connections}),
    BrokerMetric(
        "accepted_connections",
        COUNTER,
        "Connections that were accepted.",
        (),
        lambda report: {(): report.metrics.connections_accepted},
    ),
    BrokerMetric(
        "refused_connections",
        COUNTER,
        "Connections that were closed at once because of a limit.",
        (),
        lambda report: {(): report.metrics.connections_refused},
    ),
    BrokerMetric(
        "logins",
        COUNTER,
        "Logins by SASL, and sessions that have expired.",
        ("mechanism", "result"),
        lambda report: report.metrics.logins,
    ),
    BrokerMetric(
        "received_bytes",
        COUNTER,
        "Bytes of requests.",
        (),
        lambda report: {(): report.metrics.received_bytes},
    ),
    BrokerMetric("sent_bytes", COUNTER, "Bytes of responses.", (), lambda report: {(): report.metrics.sent_bytes}),
    BrokerMetric(
        "requests",
        COUNTER,
        "Requests.",
        ("api",),
        lambda report: {(api,): counts.requests for api, counts in _used(report)},
    ),
    BrokerMetric("errors", COUNTER, "Error codes in responses.", ("api", "error"), _errors),
    BrokerMetric(
        "produced_records",
        COUNTER,
        "Records in appended batches of clients.",
        ("topic",),
        _of_topics(lambda counts: counts.produced_records),
    ),
    BrokerMetric(
        "produced_bytes",
        COUNTER,
        "Bytes of appended batches of clients.",
        ("topic",),
        _of_topics(lambda counts: counts.produced_bytes),
    ),
    BrokerMetric(
        "fetched_bytes",
        COUNTER,
        "Bytes of batches in responses to Fetch.",
        ("topic",),
        _of_topics(lambda counts: counts.fetched_bytes),
    ),
    BrokerMetric(
        "unsynced_batches",
        GAUGE,
        "Appended batches that are not yet on disk.",
        (),
        lambda report: {(): report.unsynced.batches},
    ),
    BrokerMetric(
        "unsynced_bytes",
        GAUGE,
        "Appended bytes that are not yet on disk.",
        (),
        lambda report: {(): report.unsynced.size},
    ),
    BrokerMetric(
        "unsynced_age_seconds",
        GAUGE,
        "Age of the oldest batch that is not yet on disk.",
        (),
        lambda report: {(): report.unsynced_age_s},
    ),
    BrokerMetric(
        "groups",
        GAUGE,
        "Consumer groups.",
        ("state",),
        lambda report: {(state,): number for state, number in report.groups_by_state.items()},
    ),
    BrokerMetric(
        "group_members",
        GAUGE,
        "Members of a consumer group.",
        ("group",),
        lambda report: {(group,): number for group, number in report.members.items()},
    ),
    *(
        BrokerMetric(name.removeprefix(PREFIX), GAUGE, text, ("group", "topic"), _of_lags(samples))
        for name, text, samples in LAG_METRICS
    ),
)

HISTOGRAMS = (
    BrokerHistogram(
        "request_handling_seconds",
        "Time from a decoded request to its response, without waiting.",
        ("api",),
        lambda report: {(api,): counts.handling for api, counts in _used(report)},
    ),
    BrokerHistogram(
        "request_wait_seconds",
        "Time in which requests waited for records or for other members of a group.",
        ("api",),
        lambda report: {(api,): counts.waits for api, counts in _used(report) if counts.waits.count},
    ),
    BrokerHistogram(
        "event_loop_delay_seconds",
        "Time that a task which was ready waited for the event loop.",
        (),
        lambda report: {(): report.metrics.delays},
    ),
)


def families(report: BrokerReport) -> Iterator[Metric]:
    """Yield the metrics of a report."""
    for metric in METRICS:
        family = metric.family(PREFIX + metric.name, metric.help, labels=metric.labels)
        for labels, number in sorted(metric.samples(report).items()):
            family.add_metric([_valid(label) for label in labels], number)
        yield family
    for histogram in HISTOGRAMS:
        durations_family = HistogramMetricFamily(PREFIX + histogram.name, histogram.help, labels=histogram.labels)
        for labels, durations in sorted(histogram.durations(report).items()):
            durations_family.add_metric(labels, cumulative_buckets(durations.counts), durations.sum_s)
        yield durations_family


def _valid(label: str) -> str:
    """Return a label as valid UTF-8: bytes of a path that are not UTF-8 become escapes."""
    return label.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def metrics_server(reporter: BrokerReporter, host: str, port: int) -> MetricsServer:
    """Serve the metrics over HTTP; ListenError if the address cannot be used."""
    try:
        return MetricsServer(reporter.report, families, host, port)
    except OSError as error:
        raise listen_error("--metrics HOST:PORT", host, port, error) from error
