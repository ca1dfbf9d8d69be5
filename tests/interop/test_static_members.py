"""Static members of a group restart, are replaced and expire: the same with Kafka 4.4 and `offsetfs serve`."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient
from fixtures.broker.served import Cluster
from fixtures.kafka.confluent_clients import create, describe, messages, poll_until, reader

pytestmark = pytest.mark.interop

PARTITIONS = 4
SHORT_MS = 6000
"""The shortest session that Kafka allows; members that restart have the longer one of clients."""


@pytest.fixture
def client(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.address})


class Member:
    """A static member of the group that has the name of its topic; it has the events of its assignments."""

    def __init__(self, cluster: Cluster, group: str, instance: str, session_ms: int = 45_000) -> None:
        self.events: list[str] = []
        settings = {"group.id": group, "group.instance.id": instance, "client.id": instance}
        self.consumer: Consumer = reader(cluster, **settings, **{"session.timeout.ms": session_ms})
        self.consumer.subscribe(
            [group],
            on_assign=lambda _, given: self.events.append(f"assigned {len(given)}"),
            on_revoke=lambda _, taken: self.events.append(f"revoked {len(taken)}"),
            on_lost=lambda _, taken: self.events.append(f"lost {len(taken)}"),
        )

    def partitions(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}


def members(cluster: Cluster, client: AdminClient, group: str, session_ms: int = 45_000) -> tuple[Member, Member]:
    """Return two members that share the partitions of a topic."""
    create(client, group, PARTITIONS)
    first, second = (Member(cluster, group, each, session_ms) for each in ("first", "second"))
    both = first.consumer, second.consumer
    poll_until(lambda: len(first.partitions()) == len(second.partitions()) == PARTITIONS // 2, *both)
    return first, second


def partitions_of(count: int, consumer: Consumer) -> set[int | None]:
    """Return the partitions of the next records."""
    return {each.partition() for each in messages(consumer, count)}


def test_a_member_that_restarts_has_its_partitions_again_without_a_rebalance(
    cluster: Cluster, client: AdminClient
) -> None:
    group = "static-restart"
    first, second = members(cluster, client, group)
    before, events = second.partitions(), list(first.events)
    described = describe(client, group)
    second.consumer.close()  # a static member does not leave
    while_away = describe(client, group)
    again = Member(cluster, group, "second")
    poll_until(lambda: bool(again.partitions()), first.consumer, again.consumer)
    producer = Producer({"bootstrap.servers": cluster.address})
    for partition in range(PARTITIONS):
        producer.produce(group, b"%d" % partition, partition=partition)
    assert producer.flush(60) == 0
    seen = {"first": partitions_of(2, first.consumer), "again": partitions_of(2, again.consumer)}
    assert {
        "described": described,
        "while away": while_away,
        "after the restart": describe(client, group),
        "partitions": again.partitions() == before,
        "read": seen == {"first": first.partitions(), "again": before},
        "events of the first": first.events == events,
        "events of the second": again.events,
    } == {
        "described": {
            "state": "STABLE",
            "protocol": "range",
            "members": [("first", "first", 2), ("second", "second", 2)],
        },
        "while away": described,
        "after the restart": described,
        "partitions": True,
        "read": True,
        "events of the first": True,
        "events of the second": ["assigned 2"],
    }
    first.consumer.close()
    again.consumer.close()


def test_a_member_is_fenced_by_another_one_of_its_id(cluster: Cluster, client: AdminClient) -> None:
    group = "static-fenced"
    first, second = members(cluster, client, group)
    before = second.partitions()
    other = Member(cluster, group, "second")
    poll_until(lambda: bool(other.partitions()), first.consumer, other.consumer)
    errors: list[KafkaError] = []

    def is_fenced() -> bool:
        found = second.consumer.poll(0.05)
        errors.extend([] if found is None or (error := found.error()) is None else [error])
        return bool(errors)

    poll_until(is_fenced, first.consumer, other.consumer)
    assert [each.name() for each in errors] == ["_FATAL"]
    assert "fenced by other consumer with same group.instance.id" in str(errors[0])
    assert (other.partitions(), len(first.partitions())) == (before, PARTITIONS // 2)
    for each in (first, second, other):
        each.consumer.close()


def test_a_member_that_does_not_come_back_expires(cluster: Cluster, client: AdminClient) -> None:
    group = "static-expired"
    first, second = members(cluster, client, group, SHORT_MS)
    second.consumer.close()
    poll_until(lambda: len(first.partitions()) == PARTITIONS, first.consumer)
    assert describe(client, group) == {
        "state": "STABLE",
        "protocol": "range",
        "members": [("first", "first", PARTITIONS)],
    }
    first.consumer.close()
