"""A log directory that `offsetfs serve` and Kafka have in turn, ten times: records, producers and groups go on.

Brokers of older versions have it once, and are mirrored.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from fixtures.broker.served import served
from fixtures.kafka.broker import KafkaBroker
from fixtures.mirrors.process import MirrorProcess, batches_of

pytestmark = [pytest.mark.interop, pytest.mark.long]

ROUNDS = 10
PARTITIONS = 3
SECONDS_MAX = 60
OLDER = ("4.1.0", "3.6.2")
GROUPS = {"all": 90, "some": 31}
"""Groups, and how many records each reads in each life of a broker, of 90 that are written."""


@dataclass
class History:
    """What clients have written and read in all lives of both brokers."""

    written: list[list[bytes]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    positions: dict[str, list[int]] = field(default_factory=lambda: {group: [0] * PARTITIONS for group in GROUPS})

    def write(self, address: str, life: str) -> None:
        """Write with three idempotent producers, each of which writes to each partition."""
        settings = {"bootstrap.servers": address, "enable.idempotence": True}
        producers = [Producer(settings) for _ in range(3)]  # all at first: each waits half a second for its id
        for producer_number, producer in enumerate(producers):
            for number in range(30):
                partition, value = number % PARTITIONS, f"{life} {producer_number} {number}".encode()
                producer.produce("orders", value=value, partition=partition, on_delivery=self._check_delivery)
                self.written[partition].append(value)
                producer.poll(0)
            assert producer.flush(SECONDS_MAX) == 0

    def _check_delivery(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        assert self.written[message.partition() or 0][message.offset() or 0] == message.value()

    def read(self, address: str, group: str, count: int) -> None:
        """Read with a member of a group, which begins at the offsets that the group committed before."""
        settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        with closing(Consumer({"bootstrap.servers": address, **settings})) as consumer:
            consumer.subscribe(["orders"])
            for message in messages(consumer, count):
                partition = message.partition() or 0
                assert message.offset() == self.positions[group][partition], (group, partition)
                assert message.value() == self.written[partition][self.positions[group][partition]]
                self.positions[group][partition] += 1
            consumer.commit(asynchronous=False)
            found = consumer.committed([TopicPartition("orders", each) for each in range(PARTITIONS)], SECONDS_MAX)
        assert [each.offset if each.offset >= 0 else 0 for each in found] == self.positions[group]

    def check(self, address: str) -> None:
        """Read everything and compare it."""
        found: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        with closing(Consumer({"bootstrap.servers": address, "group.id": "none"})) as consumer:
            consumer.assign([TopicPartition("orders", each, OFFSET_BEGINNING) for each in range(PARTITIONS)])
            for message in messages(consumer, sum(map(len, self.written))):
                found[message.partition() or 0].append(message.value() or b"")
        assert found == self.written

    def live(self, address: str, life: str) -> None:
        """Check what the other broker left, and go on."""
        self.check(address)
        self.write(address, life)
        for group, count in GROUPS.items():
            self.read(address, group, count)


def messages(consumer: Consumer, count: int) -> Iterator[Message]:
    """Yield `count` messages."""
    deadline = time.monotonic() + SECONDS_MAX
    left = count
    while left:
        assert time.monotonic() < deadline, f"{left} of {count} messages are missing"
        for each in consumer.consume(left, 0.05):
            assert each.error() is None, each.error()
            left -= 1
            yield each


def test_ten_hand_overs_between_a_broker_of_kafka_and_ours(kafka: KafkaBroker) -> None:
    history = History()
    kafka.create_topic("orders", partitions=PARTITIONS)
    history.live(kafka.address, "at first")
    kafka.stop()
    for number in range(ROUNDS):
        with served(kafka.log_dir) as broker:
            history.live(broker.address, f"ours {number}")
        kafka.start()
        assert kafka.complaints() == []
        assert complaints_of_coordinators(kafka) == []
        history.live(kafka.address, f"theirs {number}")
        kafka.stop()
    with served(kafka.log_dir) as broker:
        history.check(broker.address)
    assert [len(each) for each in history.written] == [30 * (2 * ROUNDS + 1)] * PARTITIONS


@pytest.mark.parametrize("version", OLDER)
def test_an_older_broker_goes_on_with_what_serve_wrote_and_is_mirrored(version: str, tmp_path: Path) -> None:
    history = History()
    with KafkaBroker(tmp_path / "kafka", version=version) as kafka:
        kafka.create_topic("orders", partitions=PARTITIONS)
        history.live(kafka.address, "at first")
        kafka.stop()
        with served(kafka.log_dir) as broker:
            history.live(broker.address, "ours")
        kafka.start()
        assert kafka.complaints() == []
        assert complaints_of_coordinators(kafka) == []
        history.live(kafka.address, "theirs")
        mirror = MirrorProcess(kafka.address, tmp_path / "mirror", "--topic", "orders")
        done = mirror.once()
        assert (done.returncode, done.stderr) == (0, "")
        kafka.stop()
    for number in range(PARTITIONS):
        assert batches_of(mirror.path / f"orders-{number}") == batches_of(kafka.log_dir / f"orders-{number}")


def complaints_of_coordinators(kafka: KafkaBroker) -> list[str]:
    """Return the warnings of the last start about groups, offsets and transactions."""
    return re.findall(r"^\S+ WARN (?:Group|Coordinator|Offset|Transaction).*", kafka.log_text(), re.MULTILINE)
