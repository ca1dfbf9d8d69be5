"""The commands under "Common tasks" of docs/use/mirror.md, run against a real Kafka."""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from fixtures.kafka.broker import KafkaBroker
from fixtures.kafka.confluent_clients import SECONDS_MAX, messages

import offsetfs

pytestmark = pytest.mark.interop

PAGE = Path(__file__).parents[2] / "docs" / "use" / "mirror.md"
GROUP = "billing"
ORDERS = TopicPartition("orders", 0)


def commands() -> list[str]:
    """Return the commands of the section, in their order."""
    section = PAGE.read_text().partition("## Common tasks\n")[2].partition("\n## ")[0]
    return re.findall(r"^    (offsetfs .*)$", section, re.MULTILINE)


def words(command: str, replaced: Mapping[str, str]) -> list[str]:
    for text, by in replaced.items():
        command = command.replace(text, by)
    return [sys.executable, "-m", *shlex.split(command)]


def run(command: str, replaced: Mapping[str, str]) -> str:
    done = subprocess.run(
        words(command, replaced),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextlib.contextmanager
def served(command: str, replaced: Mapping[str, str]) -> Iterator[str]:
    """Run `offsetfs serve` on a free port; yield its address."""
    listen = [*words(command, replaced), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(listen, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r" is served at (\S+):", process.stdout.readline())
        assert found is not None
        try:
            yield found[1]
        finally:
            process.terminate()
            assert process.wait(SECONDS_MAX) == 0


def values(address: str, count: int, *, group: str | None = None) -> list[bytes]:
    """Return the next records of orders-0: from its beginning, or where the group continues."""
    settings = {"auto.offset.reset": "error", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": address, "group.id": group or "none", **settings})
    try:
        if group is None:
            consumer.assign([TopicPartition("orders", 0, 0)])
        else:
            consumer.subscribe(["orders"])
        return [each.value() or b"" for each in messages(consumer, count)]
    finally:
        consumer.close()


@pytest.mark.long
def test_the_tasks_of_the_page(kafka_module: KafkaBroker, tmp_path: Path) -> None:
    backup, restore, move, to_other, serve, to_test, copy = (
        next(each for each in commands() if each.startswith(begin))
        for begin in (
            "offsetfs mirror broker1:9092 /backup/kafka",
            "offsetfs restore /backup/kafka broker1:9092",
            "offsetfs mirror broker1:9092 ~/move",
            "offsetfs restore ~/move",
            "offsetfs serve /backup/kafka",
            "offsetfs serve ~/test-broker",
            "offsetfs restore /backup/kafka 127.0.0.1:9092",
        )
    )
    assert len(commands()) == 7
    kafka, at = kafka_module, datetime.now(UTC).replace(hour=14, minute=0, second=0, microsecond=0) - timedelta(days=1)
    replaced = {
        "broker1:9092": kafka.address,
        "/backup/": f"{tmp_path}/",
        "~/": f"{tmp_path}/",
        "2026-11-20T14:00": at.strftime("%Y-%m-%dT%H:%M"),
    }
    kafka.create_topic("orders", 1)
    kafka.create_topic("users.eu", 1)
    producer = Producer({"bootstrap.servers": kafka.address})
    for number in range(5):
        minutes = timedelta(minutes=number - 3)  # three before 14:00, two from then on
        producer.produce("orders", b"%d" % number, partition=0, timestamp=int((at + minutes).timestamp() * 1000))
    producer.produce("users.eu", b"ann", partition=0)
    assert producer.flush(SECONDS_MAX) == 0
    reader = Consumer({"bootstrap.servers": kafka.address, "group.id": GROUP})
    reader.commit(offsets=[TopicPartition("orders", 0, 2)], asynchronous=False)
    reader.close()

    run(backup, replaced)
    with served(serve, replaced) as address:
        assert values(address, 3, group=GROUP) == [b"2", b"3", b"4"]
    (tmp_path / "test-broker").mkdir()
    with served(to_test, replaced) as address:
        assert "users.eu: 1 partition, 1 record" in run(copy, {**replaced, "127.0.0.1:9092": address})
    run(move, replaced)
    with offsetfs.serve(tmp_path / "other") as other:
        run(to_other, {**replaced, "other1:9092": other.bootstrap_servers})
        assert values(other.bootstrap_servers, 3, group=GROUP) == [b"2", b"3", b"4"]
    admin = AdminClient({"bootstrap.servers": kafka.address})
    admin.delete_topics(["orders"], operation_timeout=30)["orders"].result(SECONDS_MAX)
    deadline = time.monotonic() + SECONDS_MAX
    while "orders" in admin.list_topics().topics:
        assert time.monotonic() < deadline
    assert "orders: 1 partition, 3 records" in run(restore, replaced)
    assert values(kafka.address, 3) == [b"0", b"1", b"2"]
