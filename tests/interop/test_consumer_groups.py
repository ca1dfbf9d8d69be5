"""Members of consumer groups (KIP-848) join, change their protocol and leave: the same with Kafka 4.4 and `serve`.

`serve` is also killed amid rebalances.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupType, Producer
from confluent_kafka.admin import AdminClient
from fixtures.broker.served import Cluster, Served, served
from fixtures.kafka.confluent_clients import create, poll_until, settled

pytestmark = pytest.mark.interop

PARTITIONS = 4
LIVES = 4
FAST = [
    word
    for each in ("group.consumer.heartbeat.interval.ms=100", "group.consumer.min.heartbeat.interval.ms=100")
    for word in ("-o", each)
]


@contextmanager
def closed_at_the_end() -> Iterator[list[Consumer]]:
    """Yield the list of the test's members. After a failure they are left alone: without a broker `close` hangs."""
    members: list[Consumer] = []
    yield members
    for each in members:
        each.close()


def member(address: str, group: str, protocol: str = "consumer", **settings: Any) -> Consumer:
    """Return a consumer of the topic that has the group's name."""
    given = {"bootstrap.servers": address, "group.id": group, "group.protocol": protocol, **settings}
    found = Consumer({**given, "auto.offset.reset": "earliest"})
    found.subscribe([group])
    return found


def sizes(members: Sequence[Consumer]) -> list[int]:
    """Return how many partitions each member reads; none is read by two."""
    partitions = [each.partition for found in members for each in found.assignment()]
    assert len(partitions) == len(set(partitions)), partitions
    return sorted(len(each.assignment()) for each in members)


def kind(client: AdminClient, group: str) -> ConsumerGroupType:
    listed = client.list_consumer_groups().result(60).valid
    found: ConsumerGroupType = next(each.type for each in listed if each.group_id == group)
    return found


def test_members_share_partitions_and_leave(cluster: Cluster) -> None:
    group, client = "newer-range", AdminClient({"bootstrap.servers": cluster.address})
    create(client, group, PARTITIONS)
    with closed_at_the_end() as members:
        members.append(member(cluster.address, group, **{"group.remote.assignor": "range"}))
        poll_until(lambda: sizes(members) == [4], *members)
        members.append(member(cluster.address, group, **{"group.remote.assignor": "range"}))
        poll_until(lambda: sizes(members) == [2, 2], *members)
        shares = {tuple(sorted(each.partition for each in found.assignment())) for found in members}
        assert shares == {(0, 1), (2, 3)}


def test_consumers_change_their_protocol_one_after_another(cluster: Cluster) -> None:
    group, client = "newer-rolling", AdminClient({"bootstrap.servers": cluster.address})
    create(client, group, PARTITIONS)
    with closed_at_the_end() as members:
        # Not cooperative-sticky: from its second generation on, assignments have data of their own, which is refused.
        classic = {"partition.assignment.strategy": "range", "heartbeat.interval.ms": 300}
        members += [member(cluster.address, group, "classic", **classic) for _ in range(2)]
        poll_until(lambda: sizes(members) == [2, 2], *members)
        assert kind(client, group) == ConsumerGroupType.CLASSIC
        for _ in range(2):
            members.pop(0).close()
            members.append(member(cluster.address, group))
            poll_until(lambda: sizes(members) == [2, 2], *members)
            assert kind(client, group) == ConsumerGroupType.CONSUMER
        for _ in range(2):
            members.pop(0).close()
            members.append(member(cluster.address, group, "classic", **classic))
            poll_until(lambda: sizes(members) == [2, 2], *members)
        assert settled(lambda: kind(client, group), lambda found: found == ConsumerGroupType.CLASSIC)
        assert kind(client, group) == ConsumerGroupType.CLASSIC


def test_a_group_goes_on_when_serve_is_killed_amid_its_rebalances(tmp_path: Path) -> None:
    group, random, members = "newer-killed", Random(848), list[Consumer]()
    listen = "127.0.0.1:0"
    for life in range(LIVES):
        with served(tmp_path, *FAST, listen=listen) as broker:
            listen = broker.address
            if not life:
                create(AdminClient({"bootstrap.servers": broker.address}), group, PARTITIONS)
                members.append(member(broker.address, group))
            _settle(broker, members)
            members.append(member(broker.address, group))
            for _ in range(random.randrange(12)):
                for each in members:
                    each.poll(0.01)
            broker.process.kill()
            broker.process.wait()
    with served(tmp_path, *FAST, listen=listen) as broker:
        _settle(broker, members)  # all are connected again: a member that leaves says so
        members.pop(0).close()
        _settle(broker, members)
        producer = Producer({"bootstrap.servers": broker.address})
        for partition in range(PARTITIONS):
            producer.produce(group, b"after", partition=partition)
        assert producer.flush(60) == 0
        seen: set[int | None] = set()
        while len(seen) < PARTITIONS:
            found = [each.poll(0.02) for each in members]
            seen |= {each.partition() for each in found if each is not None and each.error() is None}
        for each in members:
            each.close()


def _settle(broker: Served, members: Sequence[Consumer]) -> None:
    """Poll until the partitions are shared evenly, and the group has no members but these."""
    client = AdminClient({"bootstrap.servers": broker.address})
    expected = sorted(PARTITIONS // len(members) + (each < PARTITIONS % len(members)) for each in range(len(members)))

    def is_settled() -> bool:
        if sizes(members) != expected:
            return False
        group = client.describe_consumer_groups(["newer-killed"])["newer-killed"].result(60)
        return group.state.name == "STABLE" and len(group.members) == len(members)

    poll_until(is_settled, *members)
