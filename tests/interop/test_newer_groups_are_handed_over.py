"""Groups of the newer protocol (KIP-848) go from a Kafka broker to `serve` and back, with their members and offsets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from fixtures.kafka.broker import KafkaBroker
from fixtures.kafka.confluent_clients import poll_until, settled

import offsetfs
from offsetfs.storage.coordinators import partition_of

pytestmark = pytest.mark.interop

SECONDS_MAX = 30
GROUP = "newer"
RECONCILING = "UNKNOWN"  # librdkafka has no name for this state


def member(address: str, group: str = GROUP, **settings: Any) -> Consumer:
    given: dict[str, Any] = {"bootstrap.servers": address, "group.id": group, "group.protocol": "consumer"}
    given |= {"enable.auto.commit": False, **settings}  # on a slow machine it commits behind what a test commits
    return Consumer({**given, "auto.offset.reset": "earliest"})


def state_of(client: AdminClient, group: str) -> tuple[str, int]:
    """Return state and number of members. A broker that has just started is not the coordinator yet."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            found = client.describe_consumer_groups([group])[group].result(SECONDS_MAX)
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return found.state.name, len(found.members)


def commits(consumer: Consumer, offset: TopicPartition) -> bool:
    try:
        consumer.commit(offsets=[offset], asynchronous=False)
    except KafkaException:
        return False
    return True


def test_kafka_loads_the_deletion_of_a_group(kafka: KafkaBroker) -> None:
    kafka.create_topic("orders", partitions=2)
    first = member(kafka.address)
    first.subscribe(["orders"])
    poll_until(lambda: len(first.assignment()) == 2, first)
    first.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    kafka.stop()  # the member has not left: its records stay
    short = {f"group.consumer.{each}session.timeout.ms": "500" for each in ("min.", "")}
    with offsetfs.serve(kafka.log_dir, settings=short) as broker:
        client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        assert state_of(client, GROUP) == ("STABLE", 1)
        assert settled(lambda: state_of(client, GROUP), lambda found: found[1] == 0) == ("EMPTY", 0)
        client.delete_consumer_groups([GROUP])[GROUP].result(SECONDS_MAX)
    kafka.start()
    neighbor = next(f"{number}" for number in range(100) if partition_of(f"{number}", 2) == partition_of(GROUP, 2))
    with closing(Consumer({"bootstrap.servers": kafka.address, "group.id": neighbor})) as other:
        assert settled(lambda: commits(other, TopicPartition("orders", 0, 2)), bool)  # when it is the coordinator
    first.close()
    assert "Failed to load" not in kafka.log_text()


@pytest.fixture
def rare_heartbeats(tmp_path: Path) -> Iterator[KafkaBroker]:
    """A broker that no member sends a heartbeat to while it stops.

    A member of librdkafka whose heartbeat was due at that moment has sent none to the broker that started again, for
    the 45 s of its session (once in some hundred runs).
    """
    with KafkaBroker(tmp_path / "kafka", settings={"group.consumer.heartbeat.interval.ms": "15000"}) as broker:
        yield broker


def test_members_go_on_with_the_other_broker(rare_heartbeats: KafkaBroker) -> None:
    """Ours reads what Kafka left, and Kafka what ours left, with a member of each that has not left."""
    kafka = rare_heartbeats
    kafka.create_topic("orders", partitions=4)
    kafka.produce("orders", b"one\ntwo\n")
    first = member(kafka.address, **{"group.instance.id": "one"})
    first.subscribe(["^or.*"])
    poll_until(lambda: len(first.assignment()) == 4, first)
    first.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    kafka.stop()
    with offsetfs.serve(kafka.log_dir) as broker:
        client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        assert state_of(client, GROUP) == ("STABLE", 1)
        second = member(broker.bootstrap_servers)
        second.subscribe(["orders"])
        deadline = time.monotonic() + SECONDS_MAX
        while state_of(client, GROUP)[1] < 2 and time.monotonic() < deadline:
            second.poll(0.05)
        # The first one keeps its partitions: it cannot be asked.
        assert state_of(client, GROUP) == (RECONCILING, 2)
    kafka.start()
    client = AdminClient({"bootstrap.servers": kafka.address})
    assert state_of(client, GROUP) == (RECONCILING, 2)
    assert "Failed to load" not in kafka.log_text()
    poll_until(lambda: len(first.assignment()) == 2, first)
    committed = first.committed([TopicPartition("orders", 0)], timeout=SECONDS_MAX)
    assert committed[0].offset == 1
    first.close()
    second.close()
    assert "Failed to load" not in kafka.log_text()
