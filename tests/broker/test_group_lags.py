"""Seconds that groups are behind, as a broker measures them: few reads, and what `offsetfs groups` says."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.logs.broker_directories import BrokerDirectory
from fixtures.logs.planted_logs import sealed, sealed_records

from offsetfs.answers.groups import groups_report
from offsetfs.common import group_lags
from offsetfs.common.group_lags import GroupLags, LagTimes
from offsetfs.fs.groups.known_groups import lag_table
from offsetfs.kafka.broker.metrics import BrokerMetrics
from offsetfs.kafka.broker.report import BrokerReporter, GroupSnapshot
from offsetfs.storage import BatchBuilder, LogDirectories, LogDirectory, TopicPartition
from offsetfs.storage.coordinators import CommittedOffset, ConsumerGroups, commit_key, commit_value

pytestmark = pytest.mark.unit

BEGIN_MS = 1_790_000_000_000
ORDERS = [TopicPartition("orders", number) for number in range(2)]


def append(directory: LogDirectory, partition: TopicPartition, *seconds: int) -> None:
    """Append a batch with records of these times, in seconds after the first one."""
    builder = BatchBuilder(1 << 16)
    for each in seconds:
        builder.append(None, b"v", (), BEGIN_MS + 1000 * each)
    directory.log(partition).append(builder.seal())


@pytest.fixture
def directory(tmp_path: Path) -> LogDirectory:
    """Return a directory of two partitions, each with batches of two records, 0 and 1, 10 and 11, … 40 and 41 s."""
    directory = LogDirectory.open(str(tmp_path))
    directory.create_partitions(ORDERS)
    for partition in ORDERS:
        for number in range(5):
            append(directory, partition, 10 * number, 10 * number + 1)
    return directory


def measure(times: LagTimes, end: int, **committed: int) -> tuple[dict[str, float], int]:
    """Return the seconds by group in the first partition, and how many batches were read."""
    found = times.seconds({ORDERS[0]: end}, {ORDERS[0]: committed})
    return {group: seconds for (group, _), seconds in found.items()}, times._reads


def test_what_has_not_changed_is_not_read_again(directory: LogDirectory) -> None:
    times = LagTimes(directory)
    assert measure(times, 10, first=0, middle=3, last=10) == ({"first": 41.0, "middle": 30.0, "last": 0.0}, 3)
    assert measure(times, 10, first=0, middle=3, last=10)[1] == 0
    assert measure(times, 10, first=2, middle=3, last=10) == ({"first": 31.0, "middle": 30.0, "last": 0.0}, 1)
    append(directory, ORDERS[0], 60)
    assert measure(times, 11, first=2, middle=3, last=10) == ({"first": 50.0, "middle": 49.0, "last": 0.0}, 2)
    directory.log(ORDERS[0]).truncate_to(4)  # other records have the offsets from 4 on
    append(directory, ORDERS[0], 100, 200)
    assert measure(times, 6, first=2, middle=4)[0] == {"first": 190.0, "middle": 100.0}
    directory.close()


def test_a_report_reads_a_bounded_number_of_batches(directory: LogDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_lags, "READS_MAX", 2)
    times, ends = LagTimes(directory), dict.fromkeys(ORDERS, 10)
    committed = {partition: {"a": 2, "b": 4} for partition in ORDERS}
    counts, known = [], []
    for _ in range(4):
        known.append(times.seconds(ends, committed))
        counts.append(times._reads)
    assert max(counts) == 2 and len(known[0]) == 1, "the others are not known yet, and not 0"
    assert known[-1] == {(group, each): seconds for each in ORDERS for group, seconds in (("a", 31.0), ("b", 21.0))}
    directory.close()


async def test_the_report_of_a_broker_has_the_slowest_partition(directory: LogDirectory) -> None:
    directory.create_partition(TopicPartition("timeless", 0))
    groups = [GroupSnapshot("g", "Empty", 0, {ORDERS[0]: 4, ORDERS[1]: 2, TopicPartition("gone", 0): 3})]
    found = await BrokerReporter(directory, BrokerMetrics(), lambda: groups).report()
    assert found.lags == GroupLags({("g", "orders"): 14}, {("g", "orders"): 31.0})
    directory.close()


async def test_command_mount_and_metrics_have_the_same_seconds(tmp_path: Path) -> None:
    """In the middle of a batch, at the end, below the start, beyond the end, and with records without a time."""
    broker = BrokerDirectory(tmp_path)
    place = TopicPartition("orders", 0)
    times = [BEGIN_MS + 1000 * number for number in (0, 1, 5, 90)]
    broker.topic("orders", [sealed_records([(None, b"v", (), time) for time in times])])
    broker.topic("old", [sealed(b"v", -1), sealed(b"v", -1)])
    offsets = {"start": 0, "middle": 2, "end": 4, "beyond": 9}
    commits = [(commit_key(group, place), commit_value(CommittedOffset(at, 0, "", 1))) for group, at in offsets.items()]
    commits.append((commit_key("old", TopicPartition("old", 0)), commit_value(CommittedOffset(1, 0, "", 1))))
    broker.topic("__consumer_offsets", [sealed_records([(key, value, (), BEGIN_MS) for key, value in commits])])
    opened = LogDirectories.open([str(broker.path)], lambda path: LogDirectory.open(path, read_only=True))
    (directory,) = opened.directories
    groups = ConsumerGroups(opened, pytest.fail)
    assert groups.refresh()
    lags = {name.decode(): groups.timed_lag(name) for name in groups.names()}
    snapshots = [
        GroupSnapshot(name, "", 0, {each.partition: each.committed for each in lag}) for name, lag in lags.items()
    ]
    rows = groups_report(opened).as_json()["tables"]["groups"]
    report = await BrokerReporter(directory, BrokerMetrics(), lambda: snapshots).report()
    expected = {"start": 90.0, "middle": 85.0, "end": 0.0, "beyond": 0.0, "old": None}
    assert {row["group"]: row["lag_seconds"] for row in rows} == expected
    assert {name: lag[0].seconds for name, lag in lags.items()} == expected
    in_file = {name: lag_table(lag).splitlines()[1].split()[4].decode() for name, lag in lags.items()}
    assert in_file == {name: "-" if each is None else f"{each:.3f}" for name, each in expected.items()}
    in_metrics = {group: seconds for (group, _), seconds in report.lags.seconds.items()}
    assert in_metrics == {name: each for name, each in expected.items() if each is not None}
    opened.close()
