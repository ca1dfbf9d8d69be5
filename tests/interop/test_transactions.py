"""Transactions of unmodified clients, against Kafka 4.1 and against `offsetfs serve`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_clients import SECONDS_MAX, create, messages
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from java_tools import JavaTools
from served import Cluster

pytestmark = pytest.mark.interop

PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"


@pytest.fixture(scope="module")
def java() -> Iterator[JavaTools]:
    with JavaTools() as tools:
        yield tools


@pytest.fixture(autouse=True)
def _log_of_py4j(caplog: pytest.LogCaptureFixture) -> None:
    """py4j logs the exceptions by which a tool exits."""
    caplog.set_level(logging.CRITICAL, logger="py4j")


def transactional(address: str, transactional_id: str) -> Producer:
    producer = Producer({"bootstrap.servers": address, "transactional.id": transactional_id})
    producer.init_transactions(SECONDS_MAX)
    return producer


def committed(address: str, topic: str, count: int) -> list[bytes | None]:
    """Return what a consumer of committed records reads from partition 0 of a topic, and that it reads to its end."""
    settings = {"group.id": f"{topic}-readers", "isolation.level": "read_committed", "enable.partition.eof": True}
    with closing(Consumer({"bootstrap.servers": address, **settings})) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        found = [each.value() for each in messages(consumer, count)]
        end = consumer.poll(SECONDS_MAX)
        assert end is not None and end.error() is not None, "more records than were committed"
    return found


# --- librdkafka


def test_records_are_processed_exactly_once(cluster: Cluster) -> None:
    """Read, process, write: the offsets and the results are committed together, or neither."""
    source, target = "transactions-in", "transactions-out"
    client = AdminClient({"bootstrap.servers": cluster.address})
    create(client, source, 1)
    create(client, target, 1)
    plain = Producer({"bootstrap.servers": cluster.address})
    for number in range(20):
        plain.produce(source, b"%d" % number)
    assert plain.flush(SECONDS_MAX) == 0
    settings = {"group.id": "transactions", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    for life in range(2):  # each aborts one transaction, commits one, and leaves one open
        producer = transactional(cluster.address, "transactions-processor")
        with closing(Consumer({"bootstrap.servers": cluster.address, **settings})) as consumer:
            consumer.subscribe([source])
            for ends in (producer.abort_transaction, producer.commit_transaction, None):
                producer.begin_transaction()
                for each in messages(consumer, 10):
                    producer.produce(target, b"processed " + (each.value() or b""))
                positions, group = consumer.position(consumer.assignment()), consumer.consumer_group_metadata()
                producer.send_offsets_to_transaction(positions, group, SECONDS_MAX)
                producer.flush(SECONDS_MAX)
                if ends is not None:
                    ends(SECONDS_MAX)
                if ends == producer.abort_transaction:
                    consumer.seek(TopicPartition(source, 0, 10 * life))
                if life == 1 and ends == producer.commit_transaction:
                    break  # nothing is left to read
    assert committed(cluster.address, target, 20) == [b"processed %d" % number for number in range(20)]


def test_an_older_instance_of_a_producer_is_fenced(cluster: Cluster) -> None:
    create(AdminClient({"bootstrap.servers": cluster.address}), "transactions-fenced", 1)
    older = transactional(cluster.address, "transactions-fenced")
    older.begin_transaction()
    older.produce("transactions-fenced", b"of the older one")
    older.flush(SECONDS_MAX)
    newer = transactional(cluster.address, "transactions-fenced")
    newer.begin_transaction()
    newer.produce("transactions-fenced", b"of the newer one")
    newer.commit_transaction(SECONDS_MAX)
    with pytest.raises(KafkaException, match="FENCED"):
        older.commit_transaction(SECONDS_MAX)
    assert committed(cluster.address, "transactions-fenced", 1) == [b"of the newer one"]


# --- Kafka's own clients


def performed(java: JavaTools, address: str, topic: str, transactional_id: str) -> None:
    """Write 200 records in transactions of some milliseconds."""
    output = java.run(
        PERFORMANCE,
        *("--topic", topic, "--num-records", "200", "--record-size", "100", "--throughput", "2000"),
        *("--transaction-duration-ms", "20", "--transactional-id", transactional_id),
        *("--producer-props", f"bootstrap.servers={address}"),
    )
    assert "200 records sent" in output and "exit status" not in output, output


def test_java_producers_and_the_administration_of_transactions(cluster: Cluster, java: JavaTools) -> None:
    topic, client = "transactions-java", AdminClient({"bootstrap.servers": cluster.address})
    create(client, topic, 1)
    performed(java, cluster.address, topic, "transactions-java")
    assert len(committed(cluster.address, topic, 200)) == 200

    def lines_of(*words: str) -> list[list[str]]:
        lines = java.run(TRANSACTIONS, "--bootstrap-server", cluster.address, *words).splitlines()
        return [line.split() for line in lines]

    hanging = transactional(cluster.address, "transactions-hanging")
    hanging.begin_transaction()
    hanging.produce(topic, b"open")
    assert hanging.flush(SECONDS_MAX) == 0
    listed = {line[0]: line[3] for line in lines_of("list")[1:]}
    assert (listed["transactions-java"], listed["transactions-hanging"]) == ("CompleteCommit", "Ongoing")
    head, row = lines_of("describe", "--transactional-id", "transactions-hanging")
    described = dict(zip(head, row, strict=True))
    assert (described["TransactionState"], described["TransactionTimeoutMs"]) == ("Ongoing", "60000")
    assert described["TopicPartitions"] == f"{topic}-0"
    first = next(
        line[-1]
        for line in lines_of("describe-producers", "--topic", topic, "--partition", "0")[1:]
        if line[-1] != "None"
    )
    lines_of("abort", "--topic", topic, "--partition", "0", "--start-offset", first)
    assert len(committed(cluster.address, topic, 200)) == 200
