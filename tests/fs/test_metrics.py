"""`.offsetfs/metrics` and `stats`: what they show, and that docs/use/monitoring.md describes each metric."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from offsetfs.cli.commands import top
from offsetfs.cli.mounts import metrics_samples
from offsetfs.cli.mounts.mounted_broker import companion_report
from offsetfs.common.durations import DURATION_BOUNDS_S, Durations
from offsetfs.common.formatting import columns, count, duration, size
from offsetfs.common.group_lags import GroupLags
from offsetfs.fs.control import metrics
from offsetfs.fs.control.report import CacheReport, LogReport, MountReport, PartitionReport
from offsetfs.fs.control.texts import stats_text
from offsetfs.fs.reporting.counters import (
    PARTITIONS_MAX,
    Counters,
    PartitionCounts,
    TaskCounts,
)
from offsetfs.kafka.broker.metrics import BrokerMetrics
from offsetfs.kafka.broker.report import BrokerReport, GroupSnapshot
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import Unsynced
from offsetfs.storage.names import TopicPartition

pytestmark = pytest.mark.unit

PAGE = Path(__file__).parents[2] / "docs" / "use" / "monitoring.md"
ORDERS = TopicPartition("orders", 0)

REPORT = MountReport(
    version="0.1.0",
    mount_point="/mnt/kafka",
    log_directory="/srv/logs",
    is_read_only=False,
    started_s=1_000.0,
    taken_s=1_090.0,
    partitions_count=3,
    partitions=(
        PartitionReport(
            ORDERS,
            PartitionCounts(
                appended_records=10, appended_bytes=2_500, appended_batches=2, lost_records=1, reads=4, read_bytes=999
            ),
            unsynced_batches=1,
            unsynced_bytes=1_250,
            unsynced_age_s=0.5,
            log=LogReport(3, 13, 5_000, 2, has_failed=True, damaged=1),
        ),
        PartitionReport(None, PartitionCounts(appended_records=77)),
    ),
    open_files=5,
    requests={"read": 4, "lookup": 9},
    refusals={"ENOENT": 2},
    faults=6,
    unrecovered=("zebras-0",),
    sync_counts=(2, 1, *[0] * (len(DURATION_BOUNDS_S) - 1)),
    sync_sum_s=0.0017,
    sync_failures=1,
    buffer_bytes=1_024,
    buffer_bytes_max=4_096,
    caches={"blocks": CacheReport(hits=3, misses=1, bytes=10, bytes_max=20)},
    tasks={"retention": TaskCounts(runs=2, failures=1, segments_removed=3, bytes_freed=300)},
)

Samples = dict[str, list[tuple[dict[str, str], float]]]


def scraped(report: MountReport) -> Samples:
    """What Prometheus would read."""
    found: Samples = {}
    for family in text_string_to_metric_families(metrics.text(report).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
    return found


# --- metrics ---------------------------------------------------------------------------------------------------------


def test_a_partition_has_its_numbers() -> None:
    labels = {"mount": "/mnt/kafka", "topic": "orders", "partition": "0"}
    seen = scraped(REPORT)
    expected = {
        "appended_records_total": 10,
        "appended_bytes_total": 2_500,
        "appended_batches_total": 2,
        "lost_records_total": 1,
        "reads_total": 4,
        "read_bytes_total": 999,
        "followers": 0,
        "unsynced_batches": 1,
        "unsynced_bytes": 1_250,
        "unsynced_age_seconds": 0.5,
        "log_start_offset": 3,
        "log_next_offset": 13,
        "log_size_bytes": 5_000,
        "log_segments": 2,
        "log_failed": 1,
        "log_damaged_places": 1,
    }
    assert {name: dict(seen[f"offsetfs_{name}"][0][0]) for name in expected} == dict.fromkeys(expected, labels)
    assert {name: seen[f"offsetfs_{name}"][0][1] for name in expected} == expected


def test_help_texts_contain_no_names_of_classes() -> None:
    helps = [line for line in metrics.text(REPORT).decode().splitlines() if line.startswith("# HELP ")]
    assert len(helps) > 20
    assert [line for line in helps if re.search(r"[a-z][A-Z]", line.split(" ", 3)[3])] == []


def test_what_has_no_place_of_its_own_is_one_sample_that_no_topic_can_be_called() -> None:
    others = [
        value for labels, value in scraped(REPORT)["offsetfs_appended_records_total"] if labels["topic"] == "(others)"
    ]
    assert others == [77]
    assert len(scraped(REPORT)["offsetfs_log_next_offset"]) == 1  # a sum of offsets says nothing


def test_the_mount_has_its_numbers() -> None:
    seen = scraped(REPORT)
    reported = {
        (name, *sorted(set(labels.items()) - {("mount", "/mnt/kafka")})): value
        for name, each in seen.items()
        for labels, value in each
        if "topic" not in labels
    }
    assert reported[("offsetfs_mount_info", ("log_directory", "/srv/logs"), ("mode", "rw"), ("version", "0.1.0"))] == 1
    assert reported[("offsetfs_start_time_seconds",)] == 1_000
    assert reported[("offsetfs_requests_total", ("operation", "lookup"))] == 9
    assert reported[("offsetfs_request_errors_total", ("errno", "ENOENT"))] == 2
    assert reported[("offsetfs_sync_duration_seconds_bucket", ("le", "0.0005"))] == 2
    assert reported[("offsetfs_sync_duration_seconds_bucket", ("le", "0.001"))] == 3
    assert reported[("offsetfs_sync_duration_seconds_bucket", ("le", "+Inf"))] == 3
    assert reported[("offsetfs_sync_duration_seconds_sum",)] == 0.0017
    assert reported[("offsetfs_cache_hits_total", ("cache", "blocks"))] == 3
    assert reported[("offsetfs_background_task_freed_bytes_total", ("task", "retention"))] == 300
    assert all("mount" in labels for each in seen.values() for labels, _ in each)


@pytest.mark.parametrize(
    "path", ['/mnt/with "quotes"', "/mnt/new\nline", "/mnt/back\\slash", "/mnt/\udcff", "/mnt/{a=}"], ids=ascii
)
def test_any_path_of_a_mount_makes_a_label_that_can_be_read(path: str) -> None:
    ((labels, _),) = scraped(replace(REPORT, mount_point=path, log_directory=path))["offsetfs_mount_info"]
    assert labels["mount"] == labels["log_directory"] == path.replace("\udcff", "\\xff")


def test_names_are_as_prometheus_wants_them() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        families = list(text_string_to_metric_families(metrics.text(REPORT).decode()))
    for family in families:
        assert re.fullmatch(r"offsetfs_[a-z_]+", family.name) and family.documentation, family.name
        assert not re.search(r"_(ms|kb|count|sum)$", family.name), family.name
        totals = [sample.name.endswith("_total") for sample in family.samples]
        assert all(totals) if family.type == "counter" else not any(totals), family.name
    assert len({family.name for family in families}) == len(families)


def documented() -> dict[str, tuple[str, str]]:
    """Name, type and labels as the table of the page has them."""
    rows = re.findall(
        r"^\| `(offsetfs_(?!broker_|mirror_|doctor_)\w+)` \| (\w+) \| ([\w, ]*)\|", PAGE.read_text(), re.MULTILINE
    )
    assert len(rows) == len({name for name, *_ in rows})
    return {name: (kind, labels.strip()) for name, kind, labels in rows}


def test_the_page_and_the_metrics_have_the_same_names_types_and_labels() -> None:
    reported: dict[str, tuple[str, str]] = {}
    for family in text_string_to_metric_families(metrics.text(REPORT).decode()):
        labels = set(family.samples[0].labels) - {"mount", "le"}
        order = ("topic", "partition", *sorted(labels - {"topic", "partition"}))
        name = f"{family.name}_total" if family.type == "counter" else family.name
        reported[name] = (family.type, ", ".join(label for label in order if label in labels))
    assert documented() == reported


def with_broker() -> MountReport:
    counted = BrokerMetrics(connections=2, connections_accepted=3, received_bytes=1_000, sent_bytes=500)
    counted.apis["Produce"].requests = 7
    counted.apis["Produce"].errors[ErrorCode.INVALID_RECORD] = 1
    groups = (GroupSnapshot("readers", "Stable", 1, {}),)
    broker = BrokerReport(
        "0.1.0", "/srv/logs", False, 1, 3, counted, groups, GroupLags({("readers", "t"): 4}), Unsynced(), 0.0
    )
    return replace(REPORT, companion=companion_report(broker))


def test_a_mount_with_a_broker_has_the_numbers_of_both() -> None:
    seen = scraped(with_broker())
    assert seen["offsetfs_broker_requests_total"] == [({"mount": "/mnt/kafka", "api": "Produce"}, 7)]
    assert seen["offsetfs_requests_total"] == scraped(REPORT)["offsetfs_requests_total"]
    assert seen["offsetfs_broker_info"][0][0]["mount"] == "/mnt/kafka"


def test_a_mount_without_a_broker_has_the_lags_of_groups_under_the_names_of_a_broker() -> None:
    seen = scraped(replace(REPORT, lags=GroupLags({("readers", "t"): 4}, {("readers", "t"): 1.5})))
    labels = {"mount": "/mnt/kafka", "group": "readers", "topic": "t"}
    assert seen["offsetfs_broker_group_lag"] == [(labels, 4)]
    assert seen["offsetfs_broker_group_lag_seconds"] == [(labels, 1.5)]
    assert "offsetfs_broker_group_lag" not in scraped(REPORT), "what is not known is not 0"


def test_stats_of_a_mount_with_a_broker_have_a_summary_of_it() -> None:
    lines = stats_text(with_broker()).decode().splitlines()
    start = lines.index("broker      2 connections, 3 accepted, 0 refused; 1 kB received, 500 B sent")
    assert lines[start + 1 : start + 4] == [
        "  requests  7: Produce 7",
        "  errors    1",
        "  groups    1: Stable 1; lag 4",
    ]


def test_top_of_a_mount_with_a_broker_shows_both() -> None:
    sample = sampled(with_broker(), 1.0)
    tables = top.tables(sample, sample)
    assert [table.headings[0] for table in tables] == ["PARTITION", "API", "GROUP"]
    assert tables[0].rows == top.rows(sampled(REPORT, 1.0), sampled(REPORT, 1.0))


# --- counters --------------------------------------------------------------------------------------------------------


def test_ten_thousand_partitions_have_a_thousand_rows_and_a_whole_sum() -> None:
    counters = Counters()
    for number in range(10_000):
        counters.of(TopicPartition("orders", number)).appended_records += 1
    assert len(counters.partitions) == PARTITIONS_MAX
    sum_of_places = sum(each.appended_records for each in counters.partitions.values())
    assert sum_of_places + counters.others.appended_records == 10_000
    assert counters.of(ORDERS) is counters.of(ORDERS) and counters.of(ORDERS) is not counters.others


def test_a_partition_that_is_deleted_leaves_its_place_to_another() -> None:
    counters = Counters()
    for number in range(PARTITIONS_MAX + 1):
        counters.of(TopicPartition("orders", number))
    assert counters.of(TopicPartition("late", 0)) is counters.others
    counters.forget(ORDERS)
    assert counters.of(TopicPartition("late", 0)) is not counters.others


@pytest.mark.parametrize(
    ("seconds", "place"), [(0.0, 0), (0.0005, 0), (0.0006, 1), (10.0, 13), (10.1, 14)], ids=lambda value: str(value)
)
def test_a_duration_is_counted_under_the_first_bound_that_holds_it(seconds: float, place: int) -> None:
    durations = Durations()
    durations.add(seconds)
    assert [number for number, each in enumerate(durations.counts) if each] == [place]
    assert (durations.count, durations.sum_s) == (1, seconds)


# --- for people ------------------------------------------------------------------------------------------------------


def test_stats_show_the_report() -> None:
    lines = stats_text(REPORT).decode().splitlines()
    assert lines[0] == "offsetfs 0.1.0: /srv/logs on /mnt/kafka, rw, for 90 s"
    reported = dict(line.split(None, 1) for line in lines[2:10])
    assert reported["requests"] == "13: lookup 9, read 4" and reported["errnos"] == "2: ENOENT 2"
    assert reported["syncs"] == "3, mean 0.567 ms, the longest under 1 ms, 1 FAILED"
    assert "cache       blocks: 10 B of 20 B, 75% of 4 found" in lines
    assert "task        retention: 2 times, 1 failed, 300 B freed" in lines
    assert [" ".join(line.split()) for line in lines[-3:]] == [
        "PARTITION START NEXT SIZE APPENDED BYTES READ NOT ON DISK SINCE FOLLOWERS",
        "orders-0 FAILED 3 13 5 kB 10 2.5 kB 999 B 1.25 kB 500 ms 0",
        "(others) 77 0 B 0 B - - 0",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (count(7), "7"),
        (count(999.4), "999"),
        (count(999.6), "1 k"),
        (count(1_234_567), "1.23 M"),
        (size(0), "0 B"),
        (size(1_250), "1.25 kB"),
        (size(5e12), "5e+03 GB"),
        (duration(0.0042), "4.2 ms"),
        (duration(61), "61 s"),
        (duration(3_600), "60 min"),
        (duration(7_500), "2 h 5 min"),
        (duration(300_000), "3 d 11 h"),
        (duration(3e9), "95 years"),
    ],
)
def test_numbers_for_people(text: str, expected: str) -> None:
    assert text == expected


def test_columns_stand_below_each_other() -> None:
    assert columns([("NAME", "N"), ("orders-0", "12")]) == ["NAME       N", "orders-0  12"]


# --- top -------------------------------------------------------------------------------------------------------------


def sampled(report: MountReport, taken_s: float) -> metrics_samples.Sample:
    return metrics_samples.parse_metrics(metrics.text(report).decode(), taken_s)


def grown(report: MountReport, *, records: int, read_bytes: int) -> MountReport:
    first, *others = report.partitions
    counts = replace(
        first.counts,
        appended_records=first.counts.appended_records + records,
        appended_bytes=first.counts.appended_bytes + records * 100,
        read_bytes=first.counts.read_bytes + read_bytes,
    )
    return replace(report, partitions=(replace(first, counts=counts), *others))


def test_top_shows_rates_between_two_looks() -> None:
    now = grown(REPORT, records=4_000, read_bytes=10_000)
    row, others = top.rows(sampled(REPORT, 10.0), sampled(now, 12.0))
    assert row == ("orders-0 FAILED", "13", "2 k", "200 kB", "5 kB", "1.25 kB", "500 ms", "0")
    assert others == ("(others)", "", "0", "0 B", "0 B", "-", "-", "0")


def test_top_of_a_read_only_mount_shows_what_another_process_appends() -> None:
    before = replace(REPORT, is_read_only=True)
    first, *others = before.partitions
    assert first.log is not None
    log = replace(first.log, next_offset=first.log.next_offset + 4_000, size_bytes=first.log.size_bytes + 80_000)
    now = replace(before, partitions=(replace(first, log=log), *others))
    row, _ = top.rows(sampled(before, 10.0), sampled(now, 12.0))
    assert row[2:4] == ("2 k", "40 kB")
    new, _ = top.rows(sampled(replace(before, partitions=tuple(others)), 10.0), sampled(now, 12.0))
    assert new[2:4] == ("0", "0 B"), "what was there before the first sample was not appended since"


def test_top_shows_the_busiest_partition_first() -> None:
    busy = PartitionReport(TopicPartition("zebras", 0), PartitionCounts(read_bytes=5_000))
    now = replace(REPORT, partitions=(*REPORT.partitions, busy))
    assert top.rows(sampled(REPORT, 1.0), sampled(now, 2.0))[0][0] == "zebras-0"


def test_top_shows_figures_of_the_whole_mount() -> None:
    now = replace(
        REPORT, requests={"read": 104, "lookup": 9}, sync_counts=(4, *REPORT.sync_counts[1:]), sync_sum_s=0.0057
    )
    lines = top.lines(sampled(REPORT, 0.0), sampled(now, 1.0))
    assert lines[0].startswith("/srv/logs on /mnt/kafka, rw, for ")
    assert lines[1] == "requests 100/s, open files 5, faults 6"
    assert lines[2] == "syncs    2/s, mean 2 ms, 1 FAILED"
    assert lines[3] == "caches   blocks 75% found, 10 B"


def test_a_daemon_that_began_anew_does_not_make_rates_below_zero() -> None:
    before = grown(REPORT, records=4_000, read_bytes=10_000)
    row, _ = top.rows(sampled(before, 10.0), sampled(REPORT, 11.0))
    assert row[2:5] == ("0", "0 B", "0 B")
