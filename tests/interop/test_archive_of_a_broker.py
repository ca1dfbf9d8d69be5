"""A running Kafka is archived, and what is restored is handed to another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from fixtures.kafka.broker import KafkaBroker
from fixtures.stores import s3_server
from fixtures.stores.s3_server import S3Server

from offsetfs import cli

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    """An S3 server with an empty bucket."""
    with s3_server.running() as found:
        yield found


def test_a_running_broker_is_archived_and_another_one_serves_what_is_restored(
    new_kafka: Callable[..., KafkaBroker],
    server: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    url, restored = f"s3://{s3_server.BUCKET}/broker", tmp_path / "restored"
    lines = [b"k%d=%s" % (number % 50, Random(number).randbytes(750).hex().encode()) for number in range(3000)]
    first = new_kafka().start()
    first.create_topic("orders", configs={"segment.bytes": str(1 << 20)})
    first.produce("orders", b"\n".join(lines[:2000]) + b"\n", "-K", "=")
    assert cli.run(["archive", str(first.log_dir), url]) == 0
    first.produce("orders", b"\n".join(lines[2000:]) + b"\n", "-K", "=")
    assert cli.run(["archive", str(first.log_dir), url]) == 0
    assert cli.run(["verify", url]) == 0
    assert cli.run(["restore", url, str(restored), "--topic", "orders"]) == 0
    segments = sorted(first.log_dir.glob("orders-0/*.log"))
    assert len(segments) > 2
    for path in segments[:-1]:
        assert (restored / "orders-0" / path.name).read_bytes() == path.read_bytes(), path.name
    expected = first.consume("orders", "-f", "%o %k=%s\\n")
    first.stop()
    second = new_kafka().start()
    second.create_topic("orders")
    second.stop()
    assert cli.run(["hand-over", str(restored), "orders-0", str(second.log_dir)]) == 0
    second.start()
    assert second.complaints() == []
    assert second.consume("orders", "-f", "%o %k=%s\\n") == expected
    assert expected.count(b"\n") == 3000
    assert capsys.readouterr().err == ""
