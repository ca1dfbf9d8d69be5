"""Messages of v0 and v1, handed over as they are: what a broker of today makes of them."""

import base64
import json
import shutil
from pathlib import Path

import pytest
from fixtures.kafka.broker import KafkaBroker

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.directory.hand_over import hand_over
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.compression.compression import Compression
from offsetfs.storage.records.format.batch_builder import BatchBuilder

pytestmark = pytest.mark.interop

SOURCES = {
    "0.8.2.2": ["v0-none-0", "v0-segs-mix-0"],
    "0.10.2.2": ["v1-lz4-blocks-0", "v1-compact-gzip-0", "mixed-v0v1-0"],
    "3.6.2": ["mixed-v0v1v2-0", "mixed-v2v1v0-0"],
}
PARTITIONS = [TopicPartition.parse(name) for names in SOURCES.values() for name in names]


def expected(golden: Path, release: str, name: str) -> list[str]:
    def text(data: str | None) -> str:
        return "" if data is None else base64.b64decode(data).hex()

    lines = (golden.parent / f"kafka-{release}" / f"{name}.expected.ndjson").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return [f"{row['offset']} {text(row['key_b64'])} {text(row['value_b64'])}" for row in rows]


def consumed(kafka: KafkaBroker, topic: str) -> list[str]:
    """What a consumer gets, a record a line."""
    left, lines = kafka.consume(topic, "-f", "%o %K %S\\n%k%s"), []
    while left:
        head, _, left = left.partition(b"\n")
        offset, *sizes = map(int, head.split())
        key, value = max(sizes[0], 0), max(sizes[1], 0)
        lines.append(f"{offset} {left[:key].hex()} {left[key : key + value].hex()}")
        left = left[key + value :]
    return lines


def test_a_broker_of_today_goes_on_with_logs_of_old_formats(kafka: KafkaBroker, golden: Path, tmp_path: Path) -> None:
    beside = shutil.ignore_patterns("*.txt", "*.ndjson")
    for partition in PARTITIONS:
        kafka.create_topic(partition.topic, configs={"retention.ms": "-1"})
    kafka.stop()
    for release, names in SOURCES.items():
        copy = shutil.copytree(golden.parent / f"kafka-{release}", tmp_path / release, ignore=beside)
        directory = LogDirectory.open(str(copy))
        for name in names:
            builder = BatchBuilder(1 << 12, Compression("none"))
            assert builder.append(b"key", b"of offsetfs", (), 1_900_000_000_000)
            directory.log(TopicPartition.parse(name)).append(builder.seal())
        directory.close()
        for name in names:
            hand_over(str(copy), TopicPartition.parse(name), str(kafka.log_dir))
    kafka.start()
    assert kafka.complaints() == []
    for release, names in SOURCES.items():
        for name in names:
            topic, rows = TopicPartition.parse(name).topic, expected(golden, release, name)
            kafka.produce(topic, b"of the broker\n")
            found = consumed(kafka, topic)
            assert found[: len(rows)] == rows, name
            assert [line.split()[-1] for line in found[len(rows) :]] == [b"of offsetfs".hex(), b"of the broker".hex()]
    kafka.stop()
    kafka.start()
    assert kafka.complaints() == []
