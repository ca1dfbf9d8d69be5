"""`offsetfs serve --read-only` beside a running Kafka: the same groups and the same committed offsets, at any time."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from fixtures.broker.served import served
from fixtures.kafka.broker import KafkaBroker

import offsetfs

pytestmark = pytest.mark.interop

SECONDS_MAX = 60
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
UNSTABLE = "unstable"


def committed(address: str, group: str, isolation: str = "read_committed") -> int | str:
    """Return the offset of a group in the topic of its name; UNSTABLE while a transaction has one, or after 2 s."""
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
    while (found := look()) != wanted and time.monotonic() < deadline:
        time.sleep(0.05)
    assert found == wanted


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
        for each in addresses:
            eventually(partial(committed, each, group), 1)
        producer.begin_transaction()
        producer.produce(group, b"one")
        producer.send_offsets_to_transaction(
            [TopicPartition(group, 0, 5)], reader.consumer_group_metadata(), SECONDS_MAX
        )
        producer.flush(SECONDS_MAX)
        for each in addresses:
            eventually(partial(committed, each, group, "read_uncommitted"), 1)
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


def test_kafkas_tool_takes_the_plan_of_a_reset(kafka_module: KafkaBroker, tmp_path: Path) -> None:
    """A plan that `offsetfs groups --csv` makes beside a running broker goes through the broker's own tool."""
    kafka = kafka_module
    kafka.create_topic("planned", partitions=2)
    for partition in range(2):
        kafka.produce("planned", b"a\nb\nc\n", partition=partition)
    words = [sys.executable, "-m", "offsetfs", "groups", str(kafka.log_dir), "billing", "planned", "--reset-to", "2"]
    plan = subprocess.run([*words, "--csv"], capture_output=True, text=True, check=True).stdout
    assert plan == "planned,0,2\nplanned,1,2\n"
    (tmp_path / "plan.csv").write_text(plan)
    options = ("--group", "billing", "--reset-offsets", "--from-file", str(tmp_path / "plan.csv"), "--execute")
    kafka.tool(GROUPS, *options)
    with offsetfs.open(kafka.log_dir) as directory:
        (group,) = (each for each in directory.groups() if each.name == "billing")
    assert group.offsets == {"planned-0": 2, "planned-1": 2}
