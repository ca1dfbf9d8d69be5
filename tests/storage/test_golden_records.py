"""What an independent client read from a broker is what the engine reads from the broker's files."""

import base64
import hashlib
import json
from pathlib import Path

import pytest

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.format import codec
from offsetfs.storage.records.format.record import Record
from offsetfs.storage.reference import codec as reference_codec

pytestmark = pytest.mark.unit

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.1"
STEP = 13 if codec.find is reference_codec.find else 1
"""Each look-up walks over a batch: the Python reference looks up every 13th record, compiled code each of them."""
PARTITIONS = sorted(path.name.removesuffix(".expected.ndjson") for path in GOLDEN.glob("*.expected.ndjson"))


def expected(partition: str) -> list[dict[str, object]]:
    with (GOLDEN / f"{partition}.expected.ndjson").open() as lines:
        return [json.loads(line) for line in lines]


def as_expected(record: Record, like: dict[str, object]) -> dict[str, object]:
    """A record in the words of the expectation."""

    def text(data: bytes | None) -> str | None:
        return None if data is None else base64.b64encode(data).decode()

    row: dict[str, object] = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": record.timestamp_type,
        "key_b64": text(record.key),
        "headers": [[name, text(value)] for name, value in record.headers],
        "committed": like["committed"],
    }
    if "value_sha256" in like:
        assert record.value is not None
        row |= {"value_sha256": hashlib.sha256(record.value).hexdigest(), "value_size": len(record.value)}
    else:
        row["value_b64"] = text(record.value)
    return row


def all_records(log: Log) -> list[Record]:
    batches = (batch for segment in log.snapshot() for batch in segment.batches())
    records = [record for batch in batches if not batch.header.is_control for record in batch.records()]
    return [record for record in records if record.offset >= log.log_start_offset]


@pytest.fixture(scope="module")
def directory() -> LogDirectory:
    return LogDirectory.open(str(GOLDEN), read_only=True)


@pytest.mark.promise("Every record that a broker wrote reads exactly as a Kafka client reads it.")
@pytest.mark.parametrize("partition", PARTITIONS)
def test_every_golden_partition_reads_as_the_client_read_it(partition: str, directory: LogDirectory) -> None:
    log = directory.log(TopicPartition.parse(partition))
    rows = expected(partition)
    records = all_records(log)
    assert [as_expected(r, like) for r, like in zip(records, rows, strict=True)] == rows
    assert log.damage == ()
    log.check()


@pytest.mark.long
@pytest.mark.parametrize("partition", PARTITIONS)
def test_every_golden_record_is_found_by_its_offset(partition: str, directory: LogDirectory) -> None:
    log = directory.log(TopicPartition.parse(partition))
    for record in all_records(log)[::STEP]:
        batch = log.batch_at(record.offset)
        assert batch is not None and batch.record(record.offset) == record


@pytest.mark.long
@pytest.mark.parametrize("partition", PARTITIONS)
def test_a_time_finds_the_first_record_in_offset_order_that_reaches_it(partition: str, directory: LogDirectory) -> None:
    log = directory.log(TopicPartition.parse(partition))
    records = all_records(log)
    times = sorted({record.timestamp for record in records})
    for time in [*times[:: 7 * STEP], *(t + 1 for t in times[:: 7 * STEP]), *times[-1:]]:
        first = next(((r.offset, r.timestamp) for r in records if r.timestamp >= time), None)
        assert log.find_timestamp(time) == first
    assert log.find_timestamp(times[-1] + 1) is None if times else log.find_timestamp(0) is None
    largest = next(((r.offset, r.timestamp) for r in records if r.timestamp == times[-1]), None) if times else None
    assert log.max_timestamp() == largest


@pytest.mark.parametrize("partition", PARTITIONS)
def test_the_bounds_are_those_that_the_broker_reported(partition: str, directory: LogDirectory) -> None:
    bounds = json.loads((GOLDEN / f"{partition}.bounds.json").read_text())
    log = directory.log(TopicPartition.parse(partition))
    assert (log.log_start_offset, log.next_offset) == (bounds["log_start_offset"], bounds["high_watermark"])
