"""`offsetfs serve` and unmodified clients: kcat, confluent-kafka, Kafka's tools; a real broker before and after."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, ResourceType
from fixtures.broker.served import Served, served
from fixtures.kafka.broker import KafkaBroker

pytestmark = pytest.mark.interop

SECONDS_MAX = 60


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
        assert producer.flush(SECONDS_MAX) == 0
        first, second = (consumer(broker) for _ in range(2))
        seen = read(1000, first, second, partitions=2)
        assert sorted(seen) == sorted(f"value {number}".encode() for number in range(1000))
        first.commit(asynchronous=False)
        second.commit(asynchronous=False)
        admin = AdminClient({"bootstrap.servers": broker.address})
        group = admin.describe_consumer_groups(["readers"])["readers"].result(SECONDS_MAX)
        assert (group.state.name, len(group.members)) == ("STABLE", 2)
        first.close()
        assert read(0, second, partitions=4) == []
        second.close()
    with served(logs) as broker:
        again = consumer(broker)
        committed = again.committed([TopicPartition("orders", each) for each in range(4)], timeout=SECONDS_MAX)
        assert sum(each.offset for each in committed) == 1000
        again.close()


def consumer(broker: Served) -> Consumer:
    settings = {"bootstrap.servers": broker.address, "group.id": "readers", "auto.offset.reset": "earliest"}
    made = Consumer(settings)
    made.subscribe(["orders"])
    return made


def read(count: int, *consumers: Consumer, partitions: int) -> list[bytes]:
    """Return the values of `count` records, which the consumers get together, when each has so many partitions."""
    seen: list[bytes] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(seen) < count or {len(each.assignment()) for each in consumers} != {partitions}:
        assert time.monotonic() < deadline, (len(seen), [each.assignment() for each in consumers])
        for each in consumers:
            seen += [message.value() or b"" for message in each.consume(500, 0.1) if message.error() is None]
    return seen


def test_topics_are_created_described_changed_extended_and_deleted(logs: Path) -> None:
    with served(logs) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_topics([NewTopic("made", 3, config={"retention.ms": "100000"})])["made"].result(SECONDS_MAX)
        assert sorted(path.name for path in logs.glob("made-*")) == ["made-0", "made-1", "made-2"]
        with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
            admin.create_topics([NewTopic("made", 3)])["made"].result(SECONDS_MAX)
        with pytest.raises(KafkaException, match="INVALID_REPLICATION_FACTOR"):
            admin.create_topics([NewTopic("other", 3, 2)])["other"].result(SECONDS_MAX)
        with pytest.raises(KafkaException, match="INVALID_CONFIG"):
            admin.create_topics([NewTopic("other", 1, config={"no.such": "1"})])["other"].result(SECONDS_MAX)
        resource = ConfigResource(ResourceType.TOPIC, "made")
        configs = admin.describe_configs([resource])[resource].result(SECONDS_MAX)
        assert (configs["retention.ms"].value, configs["retention.ms"].is_default) == ("100000", False)
        assert configs["segment.bytes"].is_default
        admin.create_partitions([NewPartitions("made", 5)])["made"].result(SECONDS_MAX)
        assert len(admin.list_topics("made", timeout=SECONDS_MAX).topics["made"].partitions) == 5
        admin.delete_topics(["made"])["made"].result(SECONDS_MAX)
        assert "made" not in admin.list_topics(timeout=SECONDS_MAX).topics


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
    """The producer gets no answer while the broker stands still, and sends the batch again: the broker has both."""
    timeouts = [0]

    def count(statistics: str) -> None:
        timeouts.append(sum(each["req_timeouts"] for each in json.loads(statistics)["brokers"].values()))

    with served(logs) as broker:
        settings = {"linger.ms": 0, "request.timeout.ms": 500, "socket.timeout.ms": 1000}
        observed = {"statistics.interval.ms": 50, "stats_cb": count}
        producer = Producer({"bootstrap.servers": broker.address, "enable.idempotence": True, **settings, **observed})
        producer.produce("orders", value="0")
        assert producer.flush(SECONDS_MAX) == 0
        os.kill(broker.process.pid, signal.SIGSTOP)
        try:
            for number in range(1, 100):
                producer.produce("orders", value=f"{number}")
            deadline = time.monotonic() + SECONDS_MAX
            while not timeouts[-1]:
                assert time.monotonic() < deadline
                producer.poll(0.05)
        finally:
            os.kill(broker.process.pid, signal.SIGCONT)
        assert producer.flush(SECONDS_MAX) == 0
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
        producer.flush(SECONDS_MAX)
        assert failed == ["POLICY_VIOLATION"]
