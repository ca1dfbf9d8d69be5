"""`offsetfs serve` and unmodified clients: kcat, confluent-kafka, Kafka's tools; a real broker before and after."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, ResourceType
from kafka_broker import KafkaBroker
from served import Served, served

pytestmark = pytest.mark.interop


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    path = tmp_path / "logs"
    path.mkdir()
    return path


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kcat_reads_what_it_wrote(logs: Path, codec: str) -> None:
    lines = b"".join(b"line %d of some words\n" % number for number in range(5000))
    with served(logs) as broker:
        broker.kcat("-P", "-t", "orders", "-z", codec, lines=lines)
        assert broker.kcat("-C", "-t", "orders", "-e") == lines
        assert broker.kcat("-C", "-t", "orders", "-o", "4998", "-e") == b"".join(lines.splitlines(True)[4998:])
        assert b"orders [0] offset 5000" in broker.kcat("-Q", "-t", "orders:0:-1")
    assert (logs / ".kafka_cleanshutdown").exists()


def test_members_of_a_group_share_the_partitions_and_go_on_at_their_offsets(logs: Path) -> None:
    with served(logs, "--partitions", "4") as broker:
        producer = Producer({"bootstrap.servers": broker.address, "enable.idempotence": True})
        for number in range(1000):
            producer.produce("orders", key=str(number), value=f"value {number}")
        assert producer.flush(30) == 0
        first, second = (consumer(broker) for _ in range(2))
        seen = read(1000, first, second)
        assert sorted(seen) == sorted(f"value {number}".encode() for number in range(1000))
        assert {len(each.assignment()) for each in (first, second)} == {2}
        first.commit(asynchronous=False)
        second.commit(asynchronous=False)
        admin = AdminClient({"bootstrap.servers": broker.address})
        group = admin.describe_consumer_groups(["readers"])["readers"].result(30)
        assert (group.state.name, len(group.members)) == ("STABLE", 2)
        first.close()
        deadline = time.monotonic() + 20
        while len(second.assignment()) < 4 and time.monotonic() < deadline:
            second.poll(0.1)
        assert len(second.assignment()) == 4
        second.close()
    with served(logs) as broker:
        again = consumer(broker)
        committed = again.committed([TopicPartition("orders", each) for each in range(4)], timeout=30)
        assert sum(each.offset for each in committed) == 1000
        again.close()


def consumer(broker: Served) -> Consumer:
    settings = {"bootstrap.servers": broker.address, "group.id": "readers", "auto.offset.reset": "earliest"}
    made = Consumer({**settings, "session.timeout.ms": 6000})
    made.subscribe(["orders"])
    return made


def read(count: int, *consumers: Consumer) -> list[bytes]:
    """Return the values of `count` records, which the consumers get together."""
    seen: list[bytes] = []
    deadline = time.monotonic() + 30
    while len(seen) < count and time.monotonic() < deadline:
        for each in consumers:
            seen += [message.value() or b"" for message in each.consume(500, 0.1) if message.error() is None]
    return seen


def test_topics_are_created_described_changed_extended_and_deleted(logs: Path) -> None:
    with served(logs) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_topics([NewTopic("made", 3, config={"retention.ms": "100000"})])["made"].result(30)
        assert sorted(path.name for path in logs.glob("made-*")) == ["made-0", "made-1", "made-2"]
        with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
            admin.create_topics([NewTopic("made", 3)])["made"].result(30)
        with pytest.raises(KafkaException, match="INVALID_REPLICATION_FACTOR"):
            admin.create_topics([NewTopic("other", 3, 2)])["other"].result(30)
        with pytest.raises(KafkaException, match="INVALID_CONFIG"):
            admin.create_topics([NewTopic("other", 1, config={"no.such": "1"})])["other"].result(30)
        resource = ConfigResource(ResourceType.TOPIC, "made")
        configs = admin.describe_configs([resource])[resource].result(30)
        assert (configs["retention.ms"].value, configs["retention.ms"].is_default) == ("100000", False)
        assert configs["segment.bytes"].is_default
        admin.create_partitions([NewPartitions("made", 5)])["made"].result(30)
        assert len(admin.list_topics("made", timeout=30).topics["made"].partitions) == 5
        admin.delete_topics(["made"])["made"].result(30)
        assert "made" not in admin.list_topics(timeout=30).topics


def test_the_tools_of_kafka_work(logs: Path) -> None:
    with served(logs) as broker:
        broker.tool("org.apache.kafka.tools.TopicCommand", "--create", "--topic", "jobs", "--partitions", "2")
        shown = broker.tool("org.apache.kafka.tools.TopicCommand", "--describe", "--topic", "jobs")
        assert "PartitionCount: 2" in shown and "ReplicationFactor: 1" in shown
        lines = "".join(f"job {number}\n" for number in range(200))
        broker.tool("org.apache.kafka.tools.ConsoleProducer", "--topic", "jobs", lines=lines)
        options = ("--topic", "jobs", "--from-beginning", "--max-messages", "200", "--group", "workers")
        printed = broker.tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *options)
        assert sorted(printed.splitlines()) == sorted(lines.splitlines())
        group = ("--describe", "--group", "workers")
        shown = broker.tool("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", *group)
        lags = [line.split()[5] for line in shown.splitlines() if line.startswith("workers")]
        assert lags == ["0", "0"]
        ends = broker.tool("org.apache.kafka.tools.GetOffsetShell", "--topic", "jobs")
        assert sum(int(line.rsplit(":", 1)[1]) for line in ends.splitlines()) == 200


def test_a_broker_opens_what_was_served_and_its_consumers_go_on(kafka: KafkaBroker) -> None:
    kafka.create_topic("orders", partitions=1)
    kafka.produce("orders", b"".join(b"theirs %d\n" % number for number in range(100)))
    kafka.stop()
    for life in range(2):
        with served(kafka.log_dir) as broker:
            broker.kcat("-P", "-t", "orders", "-p", "0", lines=b"ours %d\n" % life * 10)
            values = broker.kcat("-C", "-t", "orders", "-e")
            assert values.count(b"\n") == 110 + life * 20
        kafka.start()
        assert kafka.complaints() == []
        assert kafka.consume("orders") == values
        kafka.produce("orders", b"theirs again %d\n" % life * 10)
        kafka.stop()


def test_a_repeated_batch_of_an_idempotent_producer_is_stored_once(logs: Path) -> None:
    """Answers are lost when the broker is killed after it has appended: the producer sends the batch again."""
    with served(logs) as broker:
        port = broker.address.rsplit(":", 1)[1]
        producer = Producer({"bootstrap.servers": broker.address, "enable.idempotence": True, "linger.ms": 0})
        for number in range(50):
            producer.produce("orders", value=f"{number}")
            producer.poll(0)
        os.kill(broker.process.pid, signal.SIGSTOP)
        for number in range(50, 100):
            producer.produce("orders", value=f"{number}")
            producer.poll(0)
        os.kill(broker.process.pid, signal.SIGCONT)
        assert producer.flush(30) == 0 and int(port)
        values = broker.kcat("-C", "-t", "orders", "-e").split()
    assert values == [b"%d" % number for number in range(100)]


def test_clients_of_a_read_only_directory_read_and_get_an_error_for_writes(logs: Path) -> None:
    with served(logs) as broker:
        broker.kcat("-P", "-t", "orders", lines=b"one\ntwo\n")
    with served(logs, "--read-only") as broker:
        assert broker.kcat("-C", "-t", "orders", "-e") == b"one\ntwo\n"
        failed: list[str] = []
        producer = Producer({"bootstrap.servers": broker.address})
        producer.produce(
            "orders", value=b"three", on_delivery=lambda error, message: failed.append(error.name() if error else "")
        )
        producer.flush(30)
        assert failed == ["POLICY_VIOLATION"]
