"""What clients of five old releases read from their brokers is what the engine reads from those brokers' files."""

import base64
import json
from pathlib import Path

import pytest

from offsetfs.storage.directory import LogDirectory
from offsetfs.storage.log import Log
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.record import Record

pytestmark = pytest.mark.unit

GOLDEN = Path(__file__).parents[1] / "golden"
RELEASES = ("0.8.2.2", "0.9.0.1", "0.10.0.1", "0.10.2.2", "3.6.2")
PARTITIONS = [
    (release, path.name.removesuffix(".expected.ndjson"))
    for release in RELEASES
    for path in sorted((GOLDEN / f"kafka-{release}").glob("*.expected.ndjson"))
]
every_partition = pytest.mark.parametrize(
    ("release", "partition"), PARTITIONS, ids=["/".join(each) for each in PARTITIONS]
)


def expected(release: str, partition: str) -> list[Record]:
    def data(text: str | None) -> bytes | None:
        return None if text is None else base64.b64decode(text)

    lines = (GOLDEN / f"kafka-{release}" / f"{partition}.expected.ndjson").read_text().splitlines()
    return [
        Record(row["offset"], row["timestamp"], row["timestamp_type"], data(row["key_b64"]), data(row["value_b64"]))
        for row in map(json.loads, lines)
    ]


@pytest.fixture(scope="module")
def directories() -> dict[str, LogDirectory]:
    return {release: LogDirectory.open(str(GOLDEN / f"kafka-{release}"), read_only=True) for release in RELEASES}


@pytest.fixture
def log(directories: dict[str, LogDirectory], release: str, partition: str) -> Log:
    return directories[release].log(TopicPartition.parse(partition))


def all_records(log: Log) -> list[Record]:
    return [record for segment in log.snapshot() for batch in segment.batches() for record in batch.records()]


def test_there_is_something_to_compare_with() -> None:
    assert len(PARTITIONS) == 88
    assert sum(len(expected(*each)) for each in PARTITIONS) == 5572


@every_partition
def test_every_record_of_an_old_broker_reads_as_its_client_read_it(release: str, partition: str, log: Log) -> None:
    assert all_records(log) == expected(release, partition)
    assert log.damage == ()
    log.check()


@every_partition
def test_every_record_of_an_old_broker_is_found_by_its_offset(release: str, partition: str, log: Log) -> None:
    for record in expected(release, partition):
        batch = log.batch_at(record.offset)
        assert batch is not None and batch.record(record.offset) == record
        assert batch.base_offset <= record.offset <= batch.header.last_offset


@every_partition
def test_offsets_that_compaction_took_are_in_no_batch(release: str, partition: str, log: Log) -> None:
    present = {record.offset for record in expected(release, partition)}
    for offset in set(range(log.log_start_offset, log.next_offset)) - present:
        batch = log.batch_at(offset)
        assert batch is None or batch.record(offset) is None


@every_partition
def test_a_time_finds_the_first_old_record_that_reaches_it(release: str, partition: str, log: Log) -> None:
    records = expected(release, partition)
    times = sorted({record.timestamp for record in records} - {-1})
    for time in [0, *times[::5], *(time + 1 for time in times[::5]), *times[-1:]]:
        first = next(((r.offset, r.timestamp) for r in records if r.timestamp >= time), None)
        assert log.find_timestamp(time) == first
    assert log.find_timestamp(times[-1] + 1 if times else 1) is None
    largest = next(((r.offset, r.timestamp) for r in records if r.timestamp == times[-1]), None) if times else None
    assert log.max_timestamp() == largest
