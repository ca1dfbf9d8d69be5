"""A group of the newer protocol (KIP-848) of a Kafka broker: `serve` deletes it, and Kafka loads what that wrote."""

from __future__ import annotations

import time
from contextlib import closing

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka_broker import KafkaBroker

import offsetfs
from offsetfs.broker import group_table
from offsetfs.storage.coordinators import partition_of

pytestmark = pytest.mark.interop

SECONDS_MAX = 30
GROUP = "newer"


def test_kafka_loads_the_deletion_of_a_group(kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka.create_topic("orders", partitions=2)
    member = Consumer({"bootstrap.servers": kafka.address, "group.id": GROUP, "group.protocol": "consumer"})
    member.subscribe(["orders"])
    deadline = time.monotonic() + SECONDS_MAX
    while not member.assignment() and time.monotonic() < deadline:
        member.poll(0.1)
    assert member.assignment()
    member.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    kafka.stop()  # the member has not left: its records stay
    monkeypatch.setattr(group_table, "NEWER_SESSION_S", -1)
    with offsetfs.serve(kafka.log_dir) as broker:
        client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        client.delete_consumer_groups([GROUP])[GROUP].result(SECONDS_MAX)
    kafka.start()
    neighbor = next(f"{number}" for number in range(100) if partition_of(f"{number}", 2) == partition_of(GROUP, 2))
    with closing(Consumer({"bootstrap.servers": kafka.address, "group.id": neighbor})) as other:
        other.commit(offsets=[TopicPartition("orders", 0, 2)], asynchronous=False)
    member.close()
    assert "Failed to load" not in kafka.log_text()
