"""Hand-over to a real Kafka 2.8 broker with ZooKeeper."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.kafka.zookeeper_broker import ZooKeeperBroker

from offsetfs import cli
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.format.batch_builder import BatchBuilder

pytestmark = [pytest.mark.interop, pytest.mark.long]

CODECS = ["uncompressed", "lz4", "zstd"]
COUNT = 300
BASE_TIMESTAMP = 1_795_000_000_000
FORMAT = "%o %T %k %h %s\\n"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ZooKeeperBroker]:
    """A running broker of a version that writes no `partition.metadata`."""
    with ZooKeeperBroker(tmp_path / "kafka") as broker:
        yield broker


def fill(directory: LogDirectory, topic: str, codec: str) -> None:
    """Create the topic and append `COUNT` records, each with a key, a header and a timestamp of its own."""
    partition = TopicPartition(topic, 0)
    log = directory.create_partition(partition, {"segment.bytes": "9000", "compression.type": codec})
    for start in range(0, COUNT, 20):
        builder = BatchBuilder(1 << 20, log.config.compression)
        for number in range(start, start + 20):
            headers = (("number", b"%d" % number), ("by", b"offsetfs"))
            assert builder.append(b"key-%d" % number, b"value %d " % number * 8, headers, BASE_TIMESTAMP + number)
        log.append(builder.seal())
    assert len(log.snapshot()) > 1 or codec != "uncompressed"


def printed() -> list[str]:
    """Return the same records as kcat prints them with `FORMAT`."""
    return [
        f"{number} {BASE_TIMESTAMP + number} key-{number} number={number},by=offsetfs {f'value {number} ' * 8}"
        for number in range(COUNT)
    ]


def read_back(path: Path, topic: str) -> list[str]:
    """Return all records of the log as offsetfs reads them, in the same form."""
    log = LogDirectory.open(str(path), read_only=True).log(TopicPartition(topic, 0))
    log.check()
    records = [record for segment in log.snapshot() for batch in segment.batches() for record in batch.records()]
    return [
        b" ".join(
            (
                b"%d %d" % (record.offset, record.timestamp),
                record.key or b"",
                b",".join(name.encode() + b"=" + (value or b"") for name, value in record.headers),
                record.value or b"",
            )
        ).decode()
        for record in records
    ]


@pytest.mark.promise("A partition that offsetfs created can be handed over to a broker.")
def test_a_partition_is_handed_over_to_a_broker_without_partition_metadata(
    broker: ZooKeeperBroker, tmp_path: Path
) -> None:
    ours = tmp_path / "ours"
    ours.mkdir()
    directory = LogDirectory.open(str(ours))
    for codec in CODECS:
        fill(directory, f"orders-{codec}", codec)
        broker.create_topic(f"orders-{codec}", configs={"retention.ms": "-1"})
    directory.close()
    broker.stop()

    for codec in CODECS:
        assert not (broker.log_dir / f"orders-{codec}-0" / "partition.metadata").exists()
        assert cli.run(["hand-over", str(ours), f"orders-{codec}-0", str(broker.log_dir)]) == 0

    broker.start()
    assert broker.complaints() == []
    for codec in CODECS:
        topic = f"orders-{codec}"
        assert broker.consume(topic, "-f", FORMAT).decode().splitlines() == printed()
        broker.produce(topic, b"last-key:last\n", "-K:", "-H", "by=kafka")
    broker.stop()
    broker.start()
    assert broker.complaints() == []
    consumed = {codec: broker.consume(f"orders-{codec}", "-f", FORMAT).decode().splitlines() for codec in CODECS}
    broker.stop()

    for codec, lines in consumed.items():
        assert lines[:-1] == printed()
        assert lines[-1].startswith(f"{COUNT} ") and lines[-1].endswith(" last-key by=kafka last")
        assert read_back(broker.log_dir, f"orders-{codec}") == lines
