"""Kafka Streams with `offsetfs serve`: words are counted exactly once, also when a process is killed."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from fixtures.broker.served import served
from fixtures.kafka.confluent_clients import SECONDS_MAX, create
from fixtures.kafka.streams import OUTPUT, CountingStream
from fixtures.machine.free_ports import free_ports

pytestmark = pytest.mark.interop

WORDS = ("to", "be", "or", "not")
PARTITIONS = 2
APPLICATION, SOURCE = "count", "words"
OPTIONS = (
    *("-o", "transaction.abort.timed.out.transaction.cleanup.interval.ms=200"),
    *("-o", "offsets.topic.num.partitions=4", "-o", "transaction.state.log.num.partitions=4"),
)


def write(address: str, count: int) -> None:
    """Write each of the words so many times."""
    producer = Producer({"bootstrap.servers": address})
    for number in range(count * len(WORDS)):
        producer.produce(SOURCE, key=WORDS[number % len(WORDS)], value=b"x")
    assert producer.flush(SECONDS_MAX) == 0


class Counts:
    """The counts that the application has committed, in order for each word."""

    def __init__(self, address: str) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": address, "group.id": "none", "isolation.level": "read_committed"}
        )
        topic = f"{APPLICATION}-{OUTPUT}"
        self._consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(PARTITIONS)])
        self.found: dict[str, list[int]] = {each: [] for each in WORDS}
        self.close = self._consumer.close

    def read(self, count: int) -> None:
        """Read until there are so many for each word."""
        while min(len(each) for each in self.found.values()) < count:
            record = self._consumer.poll(SECONDS_MAX)
            assert record is not None and record.error() is None, f"no more counts than {self.found}"
            key, value = record.key(), record.value()
            assert key is not None and value is not None
            self.found[key.decode()].append(int.from_bytes(value, "big"))


def test_words_are_counted_exactly_once(tmp_path: Path) -> None:
    """The server is killed while the application counts, then the application is."""
    logs, state = tmp_path / "logs", tmp_path / "state"
    logs.mkdir()
    state.mkdir()
    address = f"127.0.0.1:{free_ports(1)[0]}"
    with ExitStack() as brokers:
        broker = brokers.enter_context(served(logs, *OPTIONS, listen=address))
        client = AdminClient({"bootstrap.servers": address})
        create(client, SOURCE, PARTITIONS)
        create(client, f"{APPLICATION}-{OUTPUT}", PARTITIONS)
        with closing(Counts(address)) as counts:
            write(address, 1000)
            with CountingStream(address, APPLICATION, SOURCE, state) as stream:
                counts.read(100)
                broker.process.kill()
                brokers.enter_context(served(logs, *OPTIONS, listen=address))
                counts.read(500)
                stream.kill()
            write(address, 100)
            with CountingStream(address, APPLICATION, SOURCE, state):
                counts.read(1100)
            assert counts.found == {each: list(range(1, 1101)) for each in WORDS}
