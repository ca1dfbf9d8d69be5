"""A reader beside a broker with followers ends at the high watermark: what lies above it may be truncated."""

import os
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs import metadata_records as records
from fixtures.logs.metadata_records import MetadataDirectory

from offsetfs.storage import checkpoint
from offsetfs.storage.checkpoint import HIGH_WATERMARKS
from offsetfs.storage.cluster import metadata_log
from offsetfs.storage.directory import directory_checkpoints
from offsetfs.storage.directory.directory import DirectoryAccess, LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition import follower
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.compression.compression import Compression
from offsetfs.storage.records.format.batch_builder import BatchBuilder, SealedBatch

pytestmark = pytest.mark.unit

PARTITION = TopicPartition("orders", 0)


def sealed(*values: bytes) -> SealedBatch:
    builder = BatchBuilder(1 << 20, Compression("none"))
    for value in values:
        assert builder.append(None, value, (), 1000)
    return builder.seal()


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "LOOK_INTERVAL_S", 0.0)
    monkeypatch.setattr(directory_checkpoints, "LOG_START_CHECK_S", 0.0)
    monkeypatch.setattr(directory_checkpoints, "HIGH_WATERMARK_CHECK_S", 0.0)
    monkeypatch.setattr(metadata_log, "CHECK_INTERVAL_S", 0.0)


class Broker:
    """Writes one partition, its high watermark and the metadata log beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.directory = LogDirectory.open(
            os.fspath(path), defaults={"segment.bytes": "1000", "index.interval.bytes": "200"}
        )
        self.log = self.directory.create_partition(PARTITION)
        self.metadata = MetadataDirectory(path)
        self._written = 0

    def append(self, count: int) -> None:
        for _ in range(count):
            self.log.append(sealed(b"%d" % self._written))
            self._written += 1

    def replicated_to(self, offset: int) -> None:
        path = os.fspath(self.path / HIGH_WATERMARKS)
        checkpoint.write_offsets(path, {PARTITION: offset})
        self._written_at = os.stat(path).st_mtime_ns

    def reader(self, **options: Any) -> Log:
        return LogDirectory.open(os.fspath(self.path), read_only=True, **options).log(PARTITION)


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


def shown(log: Log) -> list[int]:
    log.refresh()
    found = [int(r.value or b"") for s in log.snapshot() for b in s.batches() for r in b.records()]
    assert log.next_offset == log.high_watermark == (found[-1] + 1 if found else log.log_start_offset)
    return found


def test_a_reader_ends_at_the_high_watermark_and_goes_on_with_it(broker: Broker) -> None:
    broker.metadata.append(records.topics(orders=[1, 2, 3]))
    broker.append(60)
    assert len(broker.log.snapshot()) > 4
    log = broker.reader()
    assert shown(log) == [], "no high watermark was written yet"
    for high_watermark in (1, 2, 7, 20, 20, 41, 59, 60):
        broker.replicated_to(high_watermark)
        assert shown(log) == list(range(high_watermark)), high_watermark
        assert shown(broker.reader()) == list(range(high_watermark)), high_watermark
        assert log.log_end_offset() == 60
        log.check()
    broker.append(5)
    assert shown(log) == list(range(60)) and log.log_end_offset() == 65 and log.is_bounded


def test_records_above_the_high_watermark_may_go_without_a_trace(broker: Broker) -> None:
    broker.metadata.append(records.topics(orders=[1, 2]))
    broker.append(5)
    active = broker.log.snapshot().active.log_path
    kept = os.stat(active).st_size
    broker.replicated_to(5)
    log = broker.reader()
    broker.append(1)
    assert shown(log) == [0, 1, 2, 3, 4]
    os.truncate(active, kept)  # as a leader that became a follower does
    assert shown(log) == [0, 1, 2, 3, 4] and not log.is_gone


def test_a_high_watermark_inside_a_batch_shows_whole_batches_below_it(broker: Broker) -> None:
    broker.metadata.append(records.topics(orders=[1, 2]))
    broker.log.append(sealed(b"0", b"1", b"2"))
    broker.log.append(sealed(b"3", b"4", b"5"))
    broker.replicated_to(4)
    assert shown(broker.reader()) == [0, 1, 2]


def test_a_batch_that_holds_the_log_start_is_shown_whatever_the_high_watermark(broker: Broker) -> None:
    broker.metadata.append(records.topics(orders=[1, 2]))
    broker.log.append(sealed(b"0", b"1", b"2"))
    broker.log.append(sealed(b"3", b"4", b"5"))
    broker.directory.raise_log_starts({PARTITION: 1})
    log = broker.reader()
    assert (log.log_start_offset, log.next_offset) == (1, 3)


@pytest.mark.parametrize("replicas", [[1], None])
def test_one_replica_or_no_metadata_shows_the_log_end(broker: Broker, replicas: list[int] | None) -> None:
    if replicas is not None:
        broker.metadata.append(records.topics(orders=replicas))
    broker.append(9)
    broker.replicated_to(4)
    log = broker.reader()
    assert shown(log) == list(range(9)) and not log.is_bounded


def test_the_log_end_is_shown_where_it_is_asked_for(broker: Broker) -> None:
    broker.metadata.append(records.topics(orders=[1, 2]))
    broker.append(9)
    broker.replicated_to(4)
    assert shown(broker.reader(access=DirectoryAccess(shows_log_end=True))) == list(range(9))


def test_a_partition_that_loses_its_followers_shows_the_log_end(broker: Broker) -> None:
    broker.metadata.append(records.topics(orders=[1, 2]))
    broker.append(9)
    broker.replicated_to(4)
    log = broker.reader()
    assert shown(log) == list(range(4))
    broker.metadata.append([records.partition_change("orders", 0, [1])])
    assert shown(log) == list(range(9))


def test_a_partition_that_gets_followers_takes_nothing_back(broker: Broker) -> None:
    broker.metadata.append(records.topics(orders=[1]))
    broker.append(9)
    broker.replicated_to(4)
    log = broker.reader()
    assert shown(log) == list(range(9))
    broker.metadata.append([records.partition_change("orders", 0, [1, 2])])
    broker.append(1)
    assert shown(log) == list(range(9))
    broker.replicated_to(10)
    assert shown(log) == list(range(10))


def test_the_writer_sees_the_end_of_the_log(broker: Broker) -> None:
    broker.metadata.append(records.topics(orders=[1, 2]))
    broker.append(9)
    broker.directory.close()
    broker.replicated_to(4)
    with_lock = LogDirectory.open(os.fspath(broker.path))
    assert shown(with_lock.log(PARTITION)) == list(range(9))
    with_lock.close()
