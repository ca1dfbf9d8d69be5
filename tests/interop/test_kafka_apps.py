"""Kafka's own applications with `offsetfs serve`: Connect's file connectors, and MirrorMaker from a Kafka broker."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource
from fixtures.broker.served import served
from fixtures.kafka.apps import app, properties
from fixtures.kafka.broker import KafkaBroker
from fixtures.kafka.confluent_clients import SECONDS_MAX, messages, reader
from fixtures.machine.free_ports import free_ports

pytestmark = pytest.mark.interop

CONNECT, MIRROR_MAKER = "org.apache.kafka.connect.cli.ConnectStandalone", "org.apache.kafka.connect.mirror.MirrorMaker"


def committed_offset(address: str, group: str, topic: str) -> int:
    """Return the committed offset of a group in partition 0 of a topic; -1001 without one."""
    settings = {"bootstrap.servers": address, "group.id": group, "enable.auto.commit": False}
    with closing(Consumer(settings)) as consumer:
        (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=SECONDS_MAX)
    return int(found.offset)


def commit(address: str, group: str, topic: str, offset: int) -> None:
    settings = {"bootstrap.servers": address, "group.id": group, "enable.auto.commit": False}
    with closing(Consumer(settings)) as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)


def retention_of(client: AdminClient, topic: str) -> str:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    return str(client.describe_configs([resource])[resource].result(SECONDS_MAX)["retention.ms"].value)


def test_connect_copies_lines_from_a_file_through_a_topic_into_a_file(tmp_path: Path) -> None:
    source, sink, logs = (tmp_path / name for name in ("in.txt", "out.txt", "logs"))
    logs.mkdir()
    source.write_text("".join(f"line {number}\n" for number in range(1000)))
    with served(logs) as broker:
        worker = properties(
            tmp_path / "worker",
            {
                "bootstrap.servers": broker.address,
                "key.converter": "org.apache.kafka.connect.storage.StringConverter",
                "value.converter": "org.apache.kafka.connect.storage.StringConverter",
                "offset.storage.file.filename": tmp_path / "offsets",
                "offset.flush.interval.ms": 500,
                "listeners": f"http://127.0.0.1:{free_ports(1)[0]}",
                "plugin.discovery": "service_load",
            },
        )
        connector = "org.apache.kafka.connect.file.FileStream"
        reads = {"name": "reads", "connector.class": f"{connector}SourceConnector", "file": source, "topic": "lines"}
        writes = {"name": "writes", "connector.class": f"{connector}SinkConnector", "file": sink, "topics": "lines"}
        connectors = [properties(tmp_path / str(each["name"]), each) for each in (reads, writes)]
        with app(tmp_path, CONNECT, worker, *connectors) as wait:
            wait(lambda: sink.exists() and sink.read_text() == source.read_text())
            with source.open("a") as file:
                file.write("one more\n")
            wait(lambda: sink.read_text() == source.read_text())
        assert committed_offset(broker.address, "connect-writes", "lines") == 1001


def test_mirror_maker_copies_topics_and_offsets_of_a_kafka_broker_exactly_once(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    logs = tmp_path / "mirror"
    logs.mkdir()
    kafka.create_topic("orders", partitions=2, configs={"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": kafka.address})
    for number in range(200):
        producer.produce("orders", key=str(number), value=b"v", headers={"n": str(number)}, partition=number % 2)
    assert producer.flush(SECONDS_MAX) == 0
    commit(kafka.address, "billing", "orders", 100)
    with served(logs) as broker:
        one = {f"{each}.replication.factor": 1 for each in ("checkpoints.topic", "heartbeats.topic")}
        storages = {f"{each}.storage.replication.factor": 1 for each in ("config", "offset", "status")}
        settings = {
            "clusters": "kafka, ours",
            "kafka.bootstrap.servers": kafka.address,
            "ours.bootstrap.servers": broker.address,
            "kafka->ours.enabled": "true",
            "kafka->ours.topics": "orders",
            "replication.factor": 1,
            "offset-syncs.topic.replication.factor": 1,
            "emit.checkpoints.interval.seconds": 1,
            "sync.group.offsets.enabled": "true",
            "sync.group.offsets.interval.seconds": 1,
            "refresh.groups.interval.seconds": 1,
            "offset.lag.max": 0,
            "ours.exactly.once.source.support": "enabled",
            "dedicated.mode.enable.internal.rest": "true",  # as exactly-once asks for
            "listeners": f"http://127.0.0.1:{free_ports(1)[0]}",
            "plugin.discovery": "service_load",
            **one,
            **storages,
        }
        with app(tmp_path, MIRROR_MAKER, properties(tmp_path / "mm2", settings)) as wait:
            client = AdminClient({"bootstrap.servers": broker.address})
            wait(lambda: "kafka.orders" in client.list_topics(timeout=SECONDS_MAX).topics)
            with closing(reader(broker, **{"isolation.level": "read_committed"})) as consumer:
                consumer.subscribe(["kafka.orders"])
                found = messages(consumer, 200)
                _, log_end = consumer.get_watermark_offsets(TopicPartition("kafka.orders", 0), SECONDS_MAX)
            end = max(each.offset() or 0 for each in found if each.partition() == 0) + 1
            assert log_end > end, "no marker of a transaction is behind the records"
            wait(lambda: committed_offset(broker.address, "billing", "kafka.orders") == end)
            assert retention_of(client, "kafka.orders") == "-1"
        assert sorted(int(each.key() or b"") for each in found) == list(range(200))
        assert all(each.headers() == [("n", each.key())] for each in found)
        assert all(int(each.key() or b"") % 2 == each.partition() for each in found)
