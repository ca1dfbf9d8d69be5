"""A real Kafka is mirrored, its topic and its group are deleted, and both are restored from the mirror."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from fixtures.kafka.broker import KafkaBroker
from fixtures.kafka.confluent_clients import SECONDS_MAX, messages

from offsetfs import cli

pytestmark = pytest.mark.interop

BASE_MS = 1_795_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
GROUP = "billing"


def fill(address: str, topic: str) -> None:
    """Produce records in each codec with keys, headers and times; then an aborted and a committed transaction."""
    for codec in CODECS:
        producer = Producer({"bootstrap.servers": address, "compression.type": codec, "linger.ms": 50})
        _produce(producer, topic, codec, 40)
        assert producer.flush(SECONDS_MAX) == 0
    producer = Producer({"bootstrap.servers": address, "transactional.id": "t"})
    producer.init_transactions(SECONDS_MAX)
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        _produce(producer, topic, end.__name__, 10)
        producer.flush(SECONDS_MAX)
        end(SECONDS_MAX)


def _produce(producer: Producer, topic: str, name: str, count: int) -> None:
    for number in range(count):
        headers: list[tuple[str, str | bytes | None]] = [("codec", name.encode()), ("null", None)]
        value = f"{name} {number} ".encode() * 20
        producer.produce(topic, value, f"k{number}".encode(), number % 2, timestamp=BASE_MS + number, headers=headers)


def reader(address: str, group: str = GROUP) -> Consumer:
    begin = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "isolation.level": "read_committed"}
    return Consumer({"bootstrap.servers": address, "group.id": group, **begin})


def content(found: list[Message]) -> list[tuple[object, ...]]:
    rows = [(each.partition(), each.key(), each.value(), each.headers(), each.timestamp()) for each in found]
    return sorted(rows, key=lambda row: int(str(row[0])))  # stable: each partition in its order


@pytest.mark.promise("Consumers of a restored group continue with the first record that they had not committed.")
def test_a_group_reads_on_where_it_was_after_topic_and_group_were_lost(
    kafka_module: KafkaBroker, tmp_path: Path
) -> None:
    kafka, backup = kafka_module, tmp_path / "backup"
    kafka.create_topic("orders", 2, {"retention.ms": "-1", "segment.bytes": "1048576"})
    fill(kafka.address, "orders")
    consumer = reader(kafka.address)
    consumer.assign([TopicPartition("orders", 0, 0), TopicPartition("orders", 1, 0)])
    everything = messages(consumer, 210)
    half = [TopicPartition("orders", 0, 33), TopicPartition("orders", 1, 104)]
    consumer.commit(offsets=half, asynchronous=False)
    consumer.assign(half)
    count = sum(1 for each in everything if (each.offset() or 0) >= (33, 104)[each.partition() or 0])
    expected = content(messages(consumer, count))
    consumer.close()

    topics = ["--topic", "orders", "--topic", "__consumer_offsets"]
    assert cli.run(["mirror", kafka.address, str(backup), "--once", *topics]) == 0
    admin = AdminClient({"bootstrap.servers": kafka.address})
    admin.delete_consumer_groups([GROUP])[GROUP].result(SECONDS_MAX)
    admin.delete_topics(["orders"], operation_timeout=30)["orders"].result(SECONDS_MAX)
    deadline = time.monotonic() + SECONDS_MAX
    while "orders" in admin.list_topics().topics:
        assert time.monotonic() < deadline

    assert cli.run(["restore", str(backup), kafka.address, "--groups", GROUP]) == 0

    consumer = reader(kafka.address)
    consumer.subscribe(["orders"])
    assert content(messages(consumer, count)) == expected
    consumer.close()
    consumer = reader(kafka.address, "another")
    consumer.assign([TopicPartition("orders", 0, 0), TopicPartition("orders", 1, 0)])
    assert content(messages(consumer, 210)) == content(everything)
    consumer.close()
    files = sorted(kafka.log_dir.glob("orders-[01]/*.log"))  # those of the deleted topic are there for a minute
    dump = kafka.dump(files).stdout
    assert all(f"compresscodec: {codec}" in dump for codec in CODECS)
    assert "isControl: true" not in dump
