"""`offsetfs serve --read-only` beside a running Kafka: the same groups and the same committed offsets, at any time."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from fixtures.broker.served import served
from fixtures.kafka.broker import KafkaBroker

pytestmark = pytest.mark.interop

SECONDS_MAX = 20
UNSTABLE = "unstable"


def committed(address: str, group: str, isolation: str = "read_committed") -> int | str:
    """Return the offset of a group in the topic of its name; UNSTABLE while a transaction has one."""
    settings = {"bootstrap.servers": address, "group.id": group, "isolation.level": isolation}
    with closing(Consumer(settings)) as consumer:
        try:
            return consumer.committed([TopicPartition(group, 0)], timeout=2)[0].offset
        except KafkaException as error:
            assert error.args[0].name() in ("_TIMED_OUT", "UNSTABLE_OFFSET_COMMIT")
            return UNSTABLE


def described(address: str, group: str) -> tuple[str, list[str]]:
    client = AdminClient({"bootstrap.servers": address})
    found = client.describe_consumer_groups([group])[group].result(SECONDS_MAX)
    return found.state.name, [each.client_id for each in found.members]


def eventually(look: Callable[[], object], wanted: object) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while look() != wanted and time.monotonic() < deadline:
        time.sleep(0.05)
    assert look() == wanted


@pytest.mark.parametrize(("is_committed", "after"), [(True, 5), (False, 1)], ids=["committed", "aborted"])
def test_offsets_of_a_transaction_count_when_it_commits(
    kafka_module: KafkaBroker, is_committed: bool, after: int
) -> None:
    """Once those of open and aborted transactions counted, so that a consumer would have skipped records."""
    kafka, group = kafka_module, f"transactions-{is_committed}"
    kafka.create_topic(group)
    reader = Consumer({"bootstrap.servers": kafka.address, "group.id": group, "enable.auto.commit": False})
    reader.commit(offsets=[TopicPartition(group, 0, 1)], asynchronous=False)
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": group})
    producer.init_transactions(SECONDS_MAX)
    with served(kafka.log_dir, "--read-only") as broker:
        addresses = (kafka.address, broker.address)
        assert [committed(each, group) for each in addresses] == [1, 1]
        producer.begin_transaction()
        producer.produce(group, b"one")
        producer.send_offsets_to_transaction(
            [TopicPartition(group, 0, 5)], reader.consumer_group_metadata(), SECONDS_MAX
        )
        producer.flush(SECONDS_MAX)
        assert [committed(each, group, "read_uncommitted") for each in addresses] == [1, 1]
        assert [committed(each, group) for each in addresses] == [UNSTABLE, UNSTABLE]
        end = producer.commit_transaction if is_committed else producer.abort_transaction
        end(SECONDS_MAX)
        for each in addresses:
            eventually(partial(committed, each, group), after)
    reader.close()


def test_groups_have_the_members_that_kafka_has(kafka_module: KafkaBroker) -> None:
    kafka = kafka_module
    kafka.create_topic("followed")
    with served(kafka.log_dir, "--read-only") as broker:
        member = Consumer({"bootstrap.servers": kafka.address, "group.id": "followed", "client.id": "reader"})
        member.subscribe(["followed"])
        deadline = time.monotonic() + SECONDS_MAX
        while not member.assignment() and time.monotonic() < deadline:
            member.poll(0.1)
        for address in (kafka.address, broker.address):
            eventually(partial(described, address, "followed"), ("STABLE", ["reader"]))
        member.close()
        for address in (kafka.address, broker.address):
            eventually(partial(described, address, "followed"), ("EMPTY", []))
