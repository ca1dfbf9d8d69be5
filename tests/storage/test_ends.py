"""The ends of a log: control batches and gaps are no records, and damage is where it is."""

from __future__ import annotations

import pytest
from fixtures.logs.log_states import begin_log_at

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import WouldBlock
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.log_reader import LogView
from offsetfs.storage.records.format.batch import build
from offsetfs.storage.records.format.batch_builder import BatchBuilder, SealedBatch
from offsetfs.storage.units import Timestamp
from offsetfs.storage.views.ends import first_offset, last_offset, newest_start

pytestmark = pytest.mark.unit


@pytest.fixture
def log(directory: LogDirectory) -> Log:
    return directory.create_partition(TopicPartition("t", 0), {"segment.bytes": "2000"})


def records(log: Log, count: int) -> None:
    builder = BatchBuilder(1 << 16)
    for _ in range(count):
        assert builder.append(None, b"v", (), 5)
    log.append(builder.seal())


def control(log: Log, count: int = 1) -> None:
    for _ in range(count):
        marker = [(b"\0\0\0\1", b"\0" * 6, (), 5)]
        data = memoryview(build(marker, control=True, transactional=True, producer_id=1, producer_epoch=0))
        log.append(SealedBatch(data, 1, 0, Timestamp(5), len(data)))


def test_an_empty_log_has_no_ends(log: Log) -> None:
    assert (first_offset(LogView(log)), last_offset(LogView(log)), newest_start(LogView(log), 10)) == (None, None, 0)


def test_control_batches_are_no_records(log: Log) -> None:
    control(log, 3)
    assert (first_offset(LogView(log)), last_offset(LogView(log))) == (None, None)
    records(log, 2)
    control(log, 5)
    assert (first_offset(LogView(log)), last_offset(LogView(log))) == (3, 4)


def test_a_long_run_of_control_batches_is_left_to_a_thread(log: Log) -> None:
    records(log, 1)
    control(log, 200)
    assert (first_offset(LogView(log)), last_offset(LogView(log))) == (0, 0)
    with pytest.raises(WouldBlock):
        last_offset(LogView(log), nowait=True)
    begin_log_at(log, 1)
    with pytest.raises(WouldBlock):
        first_offset(LogView(log), nowait=True)
    assert (first_offset(LogView(log)), last_offset(LogView(log))) == (None, None)


def test_the_log_start_cuts_a_batch(log: Log) -> None:
    records(log, 10)
    begin_log_at(log, 4)
    assert (first_offset(LogView(log)), last_offset(LogView(log))) == (4, 9)
    assert newest_start(LogView(log), 3) == 7 and newest_start(LogView(log), 100) == 4


@pytest.mark.parametrize("count", [0, 1, 2, 5, 49, 50, 51, 1000])
def test_the_newest_are_counted_and_not_their_offsets(log: Log, count: int) -> None:
    for number in range(10):
        records(log, 5)
        control(log, number)
    offsets = []
    for segment in log.snapshot():
        for batch in segment.batches():
            if not batch.header.is_control:
                offsets += [record.offset for record in batch.records()]
    begin = newest_start(LogView(log), count)
    assert [offset for offset in offsets if offset >= begin] == (offsets[-count:] if count else [])


@pytest.mark.damages
def test_damage_counts_as_records(log: Log) -> None:
    for _ in range(3):
        records(log, 2)
    segment = log.snapshot().first
    places = [place for place, _ in segment.headers()]
    with open(segment.log_path, "r+b") as file:
        for place in (places[0], places[-1]):
            file.seek(place + 63)
            file.write(b"\xff\xff")
    assert (first_offset(LogView(log)), last_offset(LogView(log))) == (0, 5)
