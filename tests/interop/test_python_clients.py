"""aiokafka and kafka-python, which have the protocol in Python: the same from Kafka 4.4 and `offsetfs serve`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import aiokafka
import pytest
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.admin import NewTopic as AioNewTopic
from fixtures.broker.served import Cluster
from fixtures.messages.kafka_python_codec import imported

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("python_clients"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

kafka = imported("kafka")

SECONDS_MAX = 60
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture(autouse=True)
def _logs_of_clients(caplog: pytest.LogCaptureFixture) -> None:
    """Both clients log rebalances and new topics as warnings and errors."""
    for name in ("kafka", "aiokafka"):
        caplog.set_level(logging.CRITICAL, logger=name)


# --- aiokafka


def test_aiokafka_produces_and_consumes(cluster: Cluster) -> None:
    async def scenario() -> object:
        return {codec: await aiokafka_round_trip(cluster, codec) for codec in CODECS}

    records = [(number, 1_700_000_000_000 + number, b"k", b"%d" % number, (("h", b"x"),)) for number in range(200)]
    expected = {"offsets": list(range(200)), "records": records, "bounds": (0, 200), "of a time": 150}
    assert asyncio.run(scenario()) == dict.fromkeys(CODECS, expected)


async def aiokafka_round_trip(cluster: Cluster, codec: str) -> object:
    topic, partition = f"aiokafka-{codec}", aiokafka.TopicPartition(f"aiokafka-{codec}", 0)
    async with aiokafka.AIOKafkaProducer(
        bootstrap_servers=cluster.address,
        compression_type=None if codec == "none" else codec,
        enable_idempotence=codec in ("none", "zstd"),
    ) as producer:
        sent = [
            await producer.send(
                topic, b"%d" % number, b"k", headers=[("h", b"x")], timestamp_ms=1_700_000_000_000 + number
            )
            for number in range(200)
        ]
        offsets = [(await each).offset for each in sent]
    async with aiokafka.AIOKafkaConsumer(bootstrap_servers=cluster.address, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        records = [await asyncio.wait_for(consumer.getone(), SECONDS_MAX) for _ in range(200)]
        found = await consumer.offsets_for_times({partition: 1_700_000_000_150})
        first, end = await consumer.beginning_offsets([partition]), await consumer.end_offsets([partition])
    return {
        "offsets": offsets,
        "records": [(each.offset, each.timestamp, each.key, each.value, each.headers) for each in records],
        "bounds": (first[partition], end[partition]),
        "of a time": found[partition].offset,
    }


def test_aiokafka_members_share_partitions_and_go_on(cluster: Cluster) -> None:
    topic = "aiokafka-group"

    def member() -> aiokafka.AIOKafkaConsumer:
        return aiokafka.AIOKafkaConsumer(
            topic,
            bootstrap_servers=cluster.address,
            group_id=topic,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=300,
            enable_auto_commit=False,
        )

    async def scenario() -> object:
        admin = AIOKafkaAdminClient(bootstrap_servers=cluster.address)
        await admin.start()
        created = await admin.create_topics([AioNewTopic(topic, 4, 1)])
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=cluster.address, acks="all") as producer:
            for number in range(100):
                await producer.send_and_wait(topic, b"%d" % number, partition=number % 4)
        first = member()
        await first.start()
        alone = await take(60, first)
        await first.commit()
        second = member()
        await second.start()
        await until(lambda: (len(first.assignment()), len(second.assignment())) == (2, 2))
        rest = await take(40, first, second)
        await first.commit()
        await second.commit()
        (described,) = await admin.describe_consumer_groups([topic])
        await second.stop()
        await until(lambda: len(first.assignment()) == 4)
        await first.stop()
        committed = await admin.list_consumer_group_offsets(topic)
        deleted = await admin.delete_records({aiokafka.TopicPartition(topic, 1): RecordsToDelete(before_offset=7)})
        removed = await admin.delete_topics([topic])
        await admin.close()
        return {
            "created": [each[:2] for each in created.topic_errors],
            "read": sorted(int(each) for each in alone + rest) == list(range(100)),
            "group": [
                (error, group, state, len(members)) for error, group, state, _, _, members, *_ in described.groups
            ],
            "committed": sorted((each.partition, found.offset) for each, found in committed.items()),
            "deleted": list(deleted.values()),
            "removed": removed.topic_error_codes,
        }

    assert asyncio.run(scenario()) == {
        "created": [(topic, 0)],
        "read": True,
        "group": [(0, topic, "Stable", 2)],
        "committed": [(each, 25) for each in range(4)],
        "deleted": [7],
        "removed": [(topic, 0)],
    }


async def take(count: int, *consumers: aiokafka.AIOKafkaConsumer) -> list[bytes]:
    """Return the values of `count` records, which the consumers get together."""
    values: list[bytes] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(values) < count and time.monotonic() < deadline:
        for each in consumers:
            if len(values) < count:
                found = await each.getmany(timeout_ms=100, max_records=count - len(values))
                values += [record.value for records in found.values() for record in records]
    return values


async def until(is_reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        while not is_reached():
            await asyncio.sleep(0.02)


# --- kafka-python


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4", "zstd"])
def test_kafka_python_produces_and_consumes(cluster: Cluster, codec: str) -> None:
    topic, partition = f"kafka-python-{codec}", kafka.TopicPartition(f"kafka-python-{codec}", 0)
    with kafka.KafkaProducer(
        bootstrap_servers=cluster.address,
        compression_type=None if codec == "none" else codec,
        enable_idempotence=codec in ("none", "zstd"),
        acks="all",
    ) as producer:
        sent = [
            producer.send(topic, b"%d" % number, b"k", headers=[("h", b"x")], timestamp_ms=1_700_000_000_000 + number)
            for number in range(200)
        ]
        offsets = [each.get(SECONDS_MAX).offset for each in sent]
    with kafka.KafkaConsumer(
        bootstrap_servers=cluster.address, auto_offset_reset="earliest", consumer_timeout_ms=SECONDS_MAX * 1000
    ) as consumer:
        consumer.assign([partition])
        records = [next(consumer) for _ in range(200)]
        consumer.seek(partition, 190)
        assert {
            "offsets": offsets,
            "records": [(each.offset, each.timestamp, each.key, each.value, each.headers) for each in records],
            "after a seek": next(consumer).offset,
            "bounds": (consumer.beginning_offsets([partition]), consumer.end_offsets([partition])),
            "of a time": consumer.offsets_for_times({partition: 1_700_000_000_150})[partition].offset,
            "partitions": consumer.partitions_for_topic(topic),
        } == {
            "offsets": list(range(200)),
            "records": [
                (number, 1_700_000_000_000 + number, b"k", b"%d" % number, [("h", b"x")]) for number in range(200)
            ],
            "after a seek": 190,
            "bounds": ({partition: 0}, {partition: 200}),
            "of a time": 150,
            "partitions": {0},
        }


def test_kafka_python_commits_and_administers(cluster: Cluster) -> None:
    topic = "kafka-python-group"
    partition = kafka.TopicPartition(topic, 0)
    with kafka.admin.KafkaAdminClient(bootstrap_servers=cluster.address) as admin:
        admin.create_topics([kafka.admin.NewTopic(topic, 2, 1)], wait_for_metadata=True)
        again = refused(lambda: admin.create_topics([kafka.admin.NewTopic(topic, 2, 1)]))
        with kafka.KafkaProducer(bootstrap_servers=cluster.address) as producer:
            for number in range(50):
                producer.send(topic, b"%d" % number, partition=0)
            producer.flush(SECONDS_MAX)
        with kafka_python_member(cluster, topic) as consumer:
            seen = [next(consumer).value for _ in range(30)]
            consumer.commit({partition: kafka.OffsetAndMetadata(30, "so far", -1)})
            described = admin.describe_groups([topic])[topic]
            in_use = admin.delete_groups([topic])
        with kafka_python_member(cluster, topic) as consumer:
            next_value = next(consumer).value
        resource = kafka.admin.ConfigResource(
            kafka.admin.ConfigResourceType.TOPIC, topic, configs={"retention.ms": "5000"}
        )
        admin.alter_configs([resource])
        offsets = admin.list_group_offsets({topic: None})[topic]
        found = {
            "create again": again,
            "seen": [int(each) for each in seen] == list(range(30)),
            "described": (described["group_state"], described["protocol_type"], len(described["members"])),
            "in use": in_use,
            "next": next_value,
            "offsets": {each: (found.offset, found.metadata) for each, found in offsets.items()},
            "deleted records": {
                each: found["low_watermark"] for each, found in admin.delete_records({partition: 20}).items()
            },
            "deleted group": admin.delete_groups([topic]),
            "partitions": len(admin.describe_topics([topic])[0]["partitions"]),
            "extended": admin.create_partitions({topic: 3}) is not None,
            "deleted topic": admin.delete_topics([topic]) is not None,
        }
    assert found == {
        "create again": "TopicAlreadyExistsError",
        "seen": True,
        "described": ("Stable", "consumer", 1),
        "in use": {topic: "NonEmptyGroupError"},
        "next": b"30",
        "offsets": {partition: (30, "so far")},
        "deleted records": {partition: 20},
        "deleted group": {topic: "OK"},
        "partitions": 2,
        "extended": True,
        "deleted topic": True,
    }


def kafka_python_member(cluster: Cluster, topic: str) -> Any:
    return kafka.KafkaConsumer(
        topic,
        bootstrap_servers=cluster.address,
        group_id=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=10,
        consumer_timeout_ms=SECONDS_MAX * 1000,
    )


def refused(call: Callable[[], object]) -> str:
    """Return the name of the error that a request gets."""
    with pytest.raises(kafka.errors.KafkaError) as caught:
        call()
    return type(caught.value).__name__
