"""A mount and a broker in one process, on the same logs: `-o listen=`. Each side sees what the other one does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from fixtures.machine.waiting import soon

pytestmark = pytest.mark.mount

LONG_MS = 20_000
"""How long a fetch waits for records, unless an append wakes it."""

SECONDS_MAX = 30


class Both:
    """A mount and the broker in its process. There is a topic `t` with one partition."""

    def __init__(self, mounted: Any) -> None:
        self.mounted = mounted
        self.root: Path = mounted.path
        found = re.search(rb"is served at (127\.0\.0\.1:\d+)", b"".join(mounted.lines))
        assert found is not None
        self.address = found[1].decode()
        self.admin = AdminClient({"bootstrap.servers": self.address})
        os.mkdir(self.root / "t-0")

    def consumer(self, topic: str = "t") -> Consumer:
        waiting = {"group.id": "g", "fetch.wait.max.ms": LONG_MS, "enable.auto.commit": False}
        found = Consumer({"bootstrap.servers": self.address, **waiting})
        found.assign([TopicPartition(topic, 0, 0)])
        return found

    def produce(self, *texts: bytes, topic: str = "t") -> None:
        producer = Producer({"bootstrap.servers": self.address, "linger.ms": 0})
        for text in texts:
            producer.produce(topic, text, partition=0)
        assert producer.flush(SECONDS_MAX) == 0


@pytest.fixture
def both(mount: Any, tmp_path: Path) -> Both:
    (tmp_path / "logs").mkdir()
    return Both(mount(tmp_path / "logs", "create,delete,listen=127.0.0.1:0"))


@pytest.fixture
def consumer(both: Both) -> Iterator[Consumer]:
    found = both.consumer()
    yield found
    found.close()


def values(consumer: Consumer, count: int) -> list[bytes]:
    received: list[bytes] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(received) < count and time.monotonic() < deadline:
        for each in consumer.consume(count - len(received), 0.2):
            assert each.error() is None
            received.append(each.value() or b"")
    return received


@pytest.mark.parametrize(
    ("file", "text"),
    [("t-0/append", "one\n"), ("t-0/append.ndjson", '{"value": "one"}\n'), ("topics/t/append", "one\n")],
)
def test_an_append_to_a_file_wakes_a_fetch(both: Both, consumer: Consumer, file: str, text: str) -> None:
    (both.root / "t-0/append").write_text("zero\n")
    assert values(consumer, 1) == [b"zero"]
    threading.Timer(0.2, (both.root / file).write_text, (text,)).start()
    begun = time.monotonic()
    assert values(consumer, 1) == [b"one"] and time.monotonic() - begun < LONG_MS / 2000


def test_a_produced_record_wakes_a_follower_and_is_in_all_files(both: Both) -> None:
    (both.root / "t-0/append").write_text("one\n")
    with open(both.root / "t-0/follow", "rb", buffering=0) as follow:
        threading.Timer(0.2, both.produce, (b"two",)).start()
        assert follow.read(100) == b"two\n"
    part = both.root / "t-0"
    assert (part / "values").read_bytes() == b"one\ntwo\n" and os.stat(part / "values").st_size == 8
    assert (part / "records.ndjson").read_text().count('"value"') == 2
    assert (part / "1").read_bytes() == b"two" and "1" in os.listdir(part) and (part / "next").read_text() == "2\n"
    both.produce(b"three")
    assert (part / "values").read_bytes() == b"one\ntwo\nthree\n"
    assert (part / "last/1").read_bytes() == b"three\n"


def test_settings_of_a_broker_among_the_options_are_those_of_the_broker(mount: Any, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    both = Both(mount(tmp_path / "logs", "create,num.partitions=3,listen=127.0.0.1:0"))
    both.produce(b"one", topic="made")
    assert {"made-0", "made-1", "made-2"} <= set(os.listdir(both.root))


def test_topics_of_one_side_are_those_of_the_other(both: Both, consumer: Consumer) -> None:
    both.admin.create_topics([NewTopic("made", 2, config={"retention.ms": "-1"})])["made"].result(SECONDS_MAX)
    assert {"made-0", "made-1", "t-0"} <= set(os.listdir(both.root))
    assert "retention.ms=-1" in (both.root / "made-0/info").read_text().replace('": "', "=").replace('"', "")
    (both.root / "made-0/append").write_text("first\n")
    both.admin.delete_topics(["made"])["made"].result(SECONDS_MAX)
    assert not {"made-0", "made-1"} & set(os.listdir(both.root))
    os.mkdir(both.root / "made-0")
    both.produce(b"second", topic="made")
    assert (both.root / "made-0/values").read_bytes() == b"second\n"
    os.rmdir(both.root / "made-0")
    assert "made" not in both.admin.list_topics(timeout=SECONDS_MAX).topics


def test_a_removed_topic_takes_its_committed_offsets_with_it(both: Both, consumer: Consumer) -> None:
    consumer.commit(offsets=[TopicPartition("t", 0, 10)], asynchronous=False)
    assert consumer.committed([TopicPartition("t", 0)], SECONDS_MAX)[0].offset == 10
    os.rmdir(both.root / "t-0")
    os.mkdir(both.root / "t-0")
    assert consumer.committed([TopicPartition("t", 0)], SECONDS_MAX)[0].offset < 0


def test_the_metrics_of_the_mount_have_those_of_its_broker(both: Both) -> None:
    both.produce(b"one", b"two")
    text = (both.root / ".offsetfs/metrics").read_text()
    assert f'offsetfs_broker_produced_records_total{{mount="{both.root}",topic="t"}} 2.0\n' in text
    assert "\nbroker      " in (both.root / ".offsetfs/stats").read_text()
    command = [sys.executable, "-m", "offsetfs", "top", str(both.root), "--once", "--interval", "0.1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert re.search(r"^Produce +0 ", done.stdout, re.MULTILINE)


def test_writers_of_both_sides_share_dense_offsets_and_keep_their_order(both: Both, consumer: Consumer) -> None:
    """Two producers and two files, at the same time; read over the protocol and from the files."""
    count, failures = 300, list[object]()

    def by_protocol(name: str) -> None:
        producer = Producer({"bootstrap.servers": both.address, "linger.ms": 1, "enable.idempotence": name == "p0"})
        for number in range(count):
            on_delivery = lambda error, _: failures.append(error) if error else None  # noqa: E731
            producer.produce("t", f"{name} {number}", partition=0, on_delivery=on_delivery)
            producer.poll(0)
        failures.extend([] if producer.flush(SECONDS_MAX) == 0 else [name])

    def by_file(name: str) -> None:
        with open(both.root / "t-0/append", "w", buffering=1) as file:
            for number in range(count):
                file.write(f"{name} {number}\n")

    writers = [threading.Thread(target=by_protocol, args=(f"p{n}",)) for n in range(2)]
    writers += [threading.Thread(target=by_file, args=(f"f{n}",)) for n in range(2)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    assert failures == []
    fetched = values(consumer, 4 * count)
    assert (both.root / "t-0/values").read_bytes() == b"".join(each + b"\n" for each in fetched)
    assert (both.root / "t-0/next").read_text() == f"{4 * count}\n"
    for name in ("p0", "p1", "f0", "f1"):
        own = [each for each in fetched if each.startswith(name.encode())]
        assert own == [f"{name} {number}".encode() for number in range(count)]


def test_the_tree_of_groups_shows_members_and_commits_of_the_broker(both: Both) -> None:
    (both.root / "t-0/append").write_text("one\ntwo\n")
    member = Consumer(
        {
            "bootstrap.servers": both.address,
            "group.id": "live",
            "client.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    member.subscribe(["t"])
    try:
        assert values(member, 2) == [b"one", b"two"]
        member.commit(asynchronous=False)
        group = both.root / "groups/live"
        assert (group / "t-0").read_text() == "2\n"
        state = json.loads((group / "state").read_text())
        assert state["state"] == "Stable" and [each["client_id"] for each in state["members"]] == ["reader"]
    finally:
        member.close()
    assert soon(lambda: json.loads((group / "state").read_text())["state"] == "Empty")


def test_an_unmount_with_clients_ends_the_broker_first(both: Both, consumer: Consumer) -> None:
    (both.root / "t-0/append").write_text("one\n")
    assert values(consumer, 1) == [b"one"]
    begun = time.monotonic()
    assert both.mounted.unmount() == 0 and time.monotonic() - begun < LONG_MS / 2000, (
        "a waiting fetch is answered at once"
    )
    assert (both.mounted.log / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("listen=127.0.0.1:0,segment.bytes=1", "segment.bytes"),
        ("listen=127.0.0.1:0,num.partitions=0", "num.partitions"),
        ("listen=0.0.0.0:0", "each client that reaches it could read and write"),
    ],
)
def test_a_mount_that_fails_ends_with_one_sentence(options: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "point").mkdir()
    command = [sys.executable, "-m", "offsetfs", "mount", str(tmp_path / "other"), str(tmp_path / "point")]
    done = subprocess.run([*command, "-o", options], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and sentence in done.stderr and done.stderr.count("\n") == 1


def test_a_port_in_use_is_reported_by_the_command(both: Both, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "point").mkdir()
    command = [sys.executable, "-m", "offsetfs", "mount", str(tmp_path / "other"), str(tmp_path / "point")]
    done = subprocess.run([*command, "-o", f"create,listen={both.address}"], capture_output=True, text=True, timeout=60)
    reason = f"listen={both.address}: another process listens on this port; choose one with -o listen=HOST:PORT"
    assert (done.returncode, done.stderr) == (32, f"offsetfs mount: {reason}\n")
