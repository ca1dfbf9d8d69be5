"""A log directory with open and committed transactions that Kafka 4.4 and `offsetfs serve` have in turn."""

from __future__ import annotations

import re
import time
from contextlib import closing
from functools import partial

import pytest
import trio
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from fixtures.broker.served import served
from fixtures.broker.transaction_requests import Remote, TransactionalProducer, granted
from fixtures.kafka.broker import KafkaBroker
from fixtures.kafka.confluent_clients import SECONDS_MAX
from fixtures.kafka.tools import JavaTools
from fixtures.kafka.transactional_clients import committed, performed, transactional

pytestmark = pytest.mark.interop


def committed_offset(consumer: Consumer) -> int:
    """Return the committed offset of `orders-0`, 0 without one. Try again while Kafka creates `__consumer_offsets`."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            (found,) = consumer.committed([TopicPartition("orders", 0)], SECONDS_MAX)
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            continue
        return max(found.offset, 0)


async def commit_and_begin(address: str, epochs: list[tuple[int, int]]) -> tuple[int, int]:
    """Commit the transaction with `transaction.version` 2 that the other broker has left, and begin the next one.

    `epochs` has a producer id and epoch for each transaction before; returned are those of this one.
    """
    producer = TransactionalProducer(Remote(address), "of requests")
    if epochs:
        producer.producer_id, producer.epoch = epochs[-1]
        assert await granted(partial(producer.end, version=5))
        assert (producer.producer_id, producer.epoch) == (epochs[-1][0], epochs[-1][1] + 1)
    else:
        assert await granted(producer.init)
    value = b"%d" % len(epochs)
    assert await granted(partial(producer.send, value, "epochs", version=12))
    return producer.producer_id, producer.epoch


def test_open_and_committed_transactions_are_handed_over_and_back(kafka: KafkaBroker, java: JavaTools) -> None:
    kafka.create_topic("orders", partitions=1)
    kafka.create_topic("epochs", configs={"message.timestamp.after.max.ms": str(2**63 - 1)})  # the time of our batches
    written: list[bytes] = []
    bumped: list[tuple[int, int]] = []
    performed(java, kafka.address, "orders", "of java")  # with transaction.version 2
    producers: list[Producer] = []  # without a destructor that would end what they leave

    def live(address: str, life: str) -> None:
        """Check what the other broker has left; commit, and leave a transaction open."""
        bumped.append(trio.run(commit_and_begin, address, bumped))
        performed(java, address, "orders", "of java")
        producer = transactional(address, "of librdkafka")  # aborts what is open
        settings = {"bootstrap.servers": address, "group.id": "g", "enable.auto.commit": False}
        with closing(Consumer(settings)) as consumer:
            assert committed_offset(consumer) == len(written)
            written.append(life.encode())
            for value in (b"committed " + written[-1], b"open"):
                producer.begin_transaction()
                producer.produce("orders", value)
                position = [TopicPartition("orders", 0, len(written) if value != b"open" else 999)]
                producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), SECONDS_MAX)
                assert producer.flush(SECONDS_MAX) == 0
                if value != b"open":
                    producer.commit_transaction(SECONDS_MAX)
        producers.append(producer)

    live(kafka.address, "theirs")
    kafka.stop()
    with served(kafka.log_dir) as broker:
        live(broker.address, "ours")
    kafka.start()
    assert kafka.complaints() == []
    # A request of a broker whose controller does not lead yet is logged with its features, transaction.version too.
    complaints = r"^\S+ (?:WARN|ERROR) (?!ControllerApis ).*[Tt]ransaction.*"
    assert re.findall(complaints, kafka.log_text(), re.MULTILINE) == []
    live(kafka.address, "theirs again")
    kafka.stop()
    with served(kafka.log_dir) as broker:
        transactional(broker.address, "of librdkafka")
        assert committed(broker.address, "epochs", len(bumped) - 1) == [b"%d" % each for each in range(len(bumped) - 1)]
        found = committed(broker.address, "orders", 200 * 4 + len(written))
    assert [each for each in found if each is not None and each.startswith(b"committed ")] == [
        b"committed " + each for each in written
    ]
