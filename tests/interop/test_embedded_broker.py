"""`offsetfs.serve` and the clients of Python: confluent-kafka, the fixture that the page gives."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import Consumer, Producer

import offsetfs

pytestmark = pytest.mark.interop

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "use" / "kafka-protocol.md"


def produce(servers: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for each in values:
        producer.produce("orders", each)
    assert producer.flush(30) == 0


def test_a_consumer_that_is_still_open_does_not_delay_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offsetfs.kafka.broker.broker.DRAIN_S", 50.0)
    with offsetfs.serve(tmp_path, settings={"group.min.session.timeout.ms": 1000}) as broker:
        produce(broker.bootstrap_servers, [b"one"])
        quick = {"session.timeout.ms": 1000, "heartbeat.interval.ms": 300}  # for the `close` without a broker
        consumer = Consumer(
            {**quick, "bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["orders"])
        while (record := consumer.poll(0.1)) is None or record.error() is not None:
            pass
        consumer.poll(0.3)  # now a Fetch waits at the broker
        began = time.monotonic()
    assert time.monotonic() - began < 30  # 50 s when the broker waits for its clients
    consumer.close()


def test_the_fixture_of_the_page_works_as_it_is_written_there(tmp_path: Path) -> None:
    """In two processes of pytest-xdist, each with its own brokers."""
    (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    copies = block + "".join(
        f"\n\ndef test_copy_{number}(broker):\n    test_orders_are_counted(broker)\n" for number in range(3)
    )
    (tmp_path / "test_page.py").write_text(copies)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [*command, "--basetemp", str(tmp_path / "t"), str(tmp_path)], capture_output=True, text=True, timeout=150
    )
    assert "4 passed" in done.stdout, done.stdout + done.stderr


def test_the_example_of_the_readme_produces(tmp_path: Path) -> None:
    (block,) = re.findall(r"`(with offsetfs\.serve\(.*?:)`", (ROOT / "README.md").read_text())
    sends = (
        '\n    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})'
        '\n    producer.produce("orders", b"one")\n    assert producer.flush(10) == 0\n    del producer\n'
    )
    exec(block + sends, {"offsetfs": offsetfs, "confluent_kafka": confluent_kafka, "tmp_path": tmp_path})
    with offsetfs.open(tmp_path) as data:
        assert [record.value for record in data.partition("orders-0").read()] == [b"one"]
