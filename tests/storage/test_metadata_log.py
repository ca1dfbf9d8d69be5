"""The metadata log of a cluster: what its records and snapshots say of replicas and settings."""

import os
from pathlib import Path

import pytest
from fixtures.logs import metadata_records as records
from fixtures.logs.metadata_records import BROKER, TOPIC, MetadataDirectory
from fixtures.simulation.fake_clock import FakeClock

from offsetfs.storage.clock import SYSTEM
from offsetfs.storage.cluster import metadata_log
from offsetfs.storage.cluster.metadata_log import MetadataLog
from offsetfs.storage.errors import InvalidConfig
from offsetfs.storage.names import TopicPartition

pytestmark = pytest.mark.unit

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def directory(tmp_path: Path) -> MetadataDirectory:
    return MetadataDirectory(tmp_path)


@pytest.fixture
def log(directory: MetadataDirectory, clock: FakeClock) -> MetadataLog:
    return MetadataLog(os.fspath(directory.path), clock)


def later(clock: FakeClock) -> None:
    clock.advance(1000 * metadata_log.CHECK_INTERVAL_S)


def test_replicas_and_settings_are_those_of_the_records(directory: MetadataDirectory, log: MetadataLog) -> None:
    directory.append(records.topics(orders=[1, 2, 3], clicks=[1]))
    directory.append([records.setting(TOPIC, "orders", "retention.ms", "1000")])
    directory.append([records.setting(BROKER, "", "log.retention.ms", "7")])
    directory.append([records.setting(BROKER, "1", "log.segment.bytes", "99")])
    image = log.refresh()
    assert log.problem is None
    assert image.replica_count(ORDERS) == 3
    assert image.replica_count(TopicPartition("clicks", 0)) == 1
    assert image.replica_count(TopicPartition("clicks", 1)) is None
    assert image.replica_count(TopicPartition("nowhere", 0)) is None
    assert image.topic_settings("orders") == {"retention.ms": "1000"} and image.topic_settings("clicks") == {}
    assert image.broker_settings("1") == {"log.retention.ms": "7", "log.segment.bytes": "99"}
    assert image.broker_settings("2") == image.broker_settings(None) == {"log.retention.ms": "7"}


def test_changes_count_and_a_removed_topic_leaves_nothing(
    directory: MetadataDirectory, log: MetadataLog, clock: FakeClock
) -> None:
    directory.append([*records.topics(orders=[1]), records.setting(TOPIC, "orders", "retention.ms", "1000")])
    assert log.refresh().replica_count(ORDERS) == 1
    directory.append([records.partition_change("orders", 0, [1, 2])])
    directory.append([records.setting(TOPIC, "orders", "retention.ms", None), records.leader_change("orders", 0, 2)])
    assert log.refresh().replica_count(ORDERS) == 1, "it looks once a second"
    later(clock)
    assert log.refresh().replica_count(ORDERS) == 2 and log.refresh().topic_settings("orders") == {}
    directory.append([records.setting(TOPIC, "orders", "retention.ms", "5"), records.remove_topic("orders")])
    later(clock)
    assert log.refresh().replica_count(ORDERS) is None and log.refresh().topic_settings("orders") == {}


def test_a_transaction_counts_when_it_ends(directory: MetadataDirectory, log: MetadataLog, clock: FakeClock) -> None:
    directory.append([records.begin_transaction(), *records.topics(orders=[1, 2])])
    assert log.refresh().replica_count(ORDERS) is None
    directory.append([records.end_transaction(), records.begin_transaction(), *records.topics(clicks=[1])])
    directory.append([records.abort_transaction()])
    later(clock)
    assert log.refresh().replica_count(ORDERS) == 2
    assert log.refresh().replica_count(TopicPartition("clicks", 0)) is None


def test_reading_begins_at_the_newest_snapshot(directory: MetadataDirectory, log: MetadataLog) -> None:
    directory.append(records.topics(orders=[1, 2]))
    directory.snapshot(records.topics(orders=[1, 2]))
    directory.append(records.topics(clicks=[1]))
    directory.snapshot(records.topics(orders=[1, 2], clicks=[1]))
    directory.roll()
    directory.remove_before_active()
    directory.append([records.setting(TOPIC, "clicks", "retention.ms", "3")])
    image = log.refresh()
    assert log.problem is None and image.replica_count(ORDERS) == 2
    assert image.replica_count(TopicPartition("clicks", 0)) == 1
    assert image.topic_settings("clicks") == {"retention.ms": "3"}


def test_a_snapshot_without_its_footer_is_passed_over(directory: MetadataDirectory, log: MetadataLog) -> None:
    directory.append(records.topics(orders=[1, 2]))
    directory.snapshot(records.topics(orders=[1, 2, 3]), footer=False)
    assert log.refresh().replica_count(ORDERS) == 2 and log.problem is None


def test_records_that_are_missing_are_reported(
    directory: MetadataDirectory, log: MetadataLog, clock: FakeClock
) -> None:
    directory.append(records.topics(orders=[1, 2]))
    directory.roll()
    directory.remove_before_active()
    assert log.refresh().replica_count(ORDERS) is None
    assert log.problem is not None and "there is no snapshot" in str(log.problem)
    directory.snapshot(records.topics(orders=[1, 2]))
    later(clock)
    assert log.refresh().replica_count(ORDERS) == 2 and log.problem is None


def test_a_batch_that_is_being_written_counts_once_it_is_whole(
    directory: MetadataDirectory, log: MetadataLog, clock: FakeClock
) -> None:
    directory.append(records.topics(orders=[1, 2]))
    path = directory.path / f"{0:020d}.log"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert log.refresh().replica_count(ORDERS) is None and log.problem is None
    path.write_bytes(whole)
    later(clock)
    assert log.refresh().replica_count(ORDERS) == 2


def test_a_truncated_log_is_read_anew(directory: MetadataDirectory, log: MetadataLog, clock: FakeClock) -> None:
    directory.append(records.topics(orders=[1]))
    path = directory.path / f"{0:020d}.log"
    kept = path.stat().st_size
    directory.append([records.partition_change("orders", 0, [1, 2])])
    assert log.refresh().replica_count(ORDERS) == 2
    os.truncate(path, kept)
    later(clock)
    assert log.refresh().replica_count(ORDERS) == 1


def test_a_record_that_cannot_be_read_is_reported_and_the_others_count(
    directory: MetadataDirectory, log: MetadataLog
) -> None:
    directory.append([records.frame(2, 0, b"\xff"), records.frame(99, 0, b"?"), *records.topics(orders=[1, 2])])
    assert log.refresh().replica_count(ORDERS) == 2
    assert log.problem is not None and "offset 0" in str(log.problem)


def test_the_directory_is_found_beside_the_data_or_where_it_is_given(tmp_path: Path) -> None:
    data, apart = tmp_path / "data", tmp_path / "apart"
    data.mkdir()
    assert metadata_log.open_beside(os.fspath(data), None, SYSTEM) is None
    at = MetadataDirectory(apart).path
    for path, given in ((data, apart), (data, at), (apart, None)):
        found = metadata_log.open_beside(os.fspath(path), None if given is None else os.fspath(given), SYSTEM)
        assert found is not None and found.path == os.fspath(at)
    with pytest.raises(InvalidConfig, match="there is no __cluster_metadata-0"):
        metadata_log.open_beside(os.fspath(apart), os.fspath(data), SYSTEM)


def test_the_metadata_of_another_cluster_is_refused(tmp_path: Path) -> None:
    data, apart = tmp_path / "data", tmp_path / "apart"
    data.mkdir()
    MetadataDirectory(apart)
    (data / "meta.properties").write_text("version=1\ncluster.id=one\nnode.id=1\n")
    (apart / "meta.properties").write_text("version=1\ncluster.id=two\nnode.id=1\n")
    with pytest.raises(InvalidConfig, match="is of cluster two"):
        metadata_log.open_beside(os.fspath(data), os.fspath(apart), SYSTEM)
