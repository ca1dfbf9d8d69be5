"""Transactions of unmodified clients, against Kafka 4.4 and against `offsetfs serve`."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import closing
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from fixtures.broker.served import Cluster
from fixtures.broker.transaction_requests import Remote, TransactionalProducer, granted
from fixtures.kafka.confluent_clients import SECONDS_MAX, create, messages
from fixtures.kafka.tools import JavaTools
from fixtures.kafka.transactional_clients import committed, performed, transactional

pytestmark = pytest.mark.interop

TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"


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


async def test_a_sequence_reused_after_an_abort_is_that_of_the_aborted_record(cluster: Cluster) -> None:
    """A client that does this loses a record: a broker cannot tell the record from the one that is sent again."""
    topic = "transactions-sequences"
    create(AdminClient({"bootstrap.servers": cluster.address}), topic, 1)
    transactional(cluster.address, "transactions-first")  # creates the topic of the coordinator
    producer = TransactionalProducer(Remote(cluster.address), "transactions-sequences")
    assert await granted(producer.init)
    offsets = list[int]()
    for value, commits in ((b"aborted", False), (b"lost", True)):
        assert await granted(lambda: _first(producer.add(topic)))
        producer.sequences[topic] = 0
        assert await producer.send(value, topic) == 0
        offsets.append(producer.offset)
        assert await granted(partial(producer.end, commits=commits))
    assert offsets == [0, 0]


async def _first(codes: Awaitable[list[int]]) -> int:
    return (await codes)[0]


# --- Kafka's own clients


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

    def open_since() -> set[str]:
        """Return where transactions of the partition begin; None for each producer without one."""
        return {line[-1] for line in lines_of("describe-producers", "--topic", topic, "--partition", "0")[1:]}

    (first,) = open_since() - {"None"}
    lines_of("abort", "--topic", topic, "--partition", "0", "--start-offset", first)
    assert open_since() == {"None"}
    assert len(committed(cluster.address, topic, 200)) == 200
