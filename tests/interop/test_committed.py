"""A mount for committed records, and its `groups`, beside a running broker: the same answers as the broker's."""

import functools
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from fixtures.kafka.broker import KafkaBroker
from fixtures.machine.waiting import soon
from fixtures.mounts.left_mounts import unmount

from offsetfs import cli

pytestmark = pytest.mark.interop

SECONDS_MAX = 60

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
UNCOMMITTED, COMMITTED = [("-X", f"isolation.level=read_{level}") for level in ("uncommitted", "committed")]


def says(path: Path, text: str) -> bool:
    """Whether a file is there and has this text."""
    return path.exists() and path.read_text() == text


def test_open_committed_and_aborted_transactions_are_followed(
    new_kafka: Callable[..., KafkaBroker], tmp_path: Path
) -> None:
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
    with new_kafka(settings=settings) as kafka:
        kafka.create_topic("orders", configs={"segment.bytes": "1048576"})
        kafka.produce("orders", b"plain\n")
        (tmp_path / "mnt").mkdir()
        options = "ro,isolation=read_committed"
        assert cli.run(["mount", str(kafka.log_dir), str(tmp_path / "mnt"), "-o", options]) == 0
        try:
            orders = tmp_path / "mnt" / "orders-0"
            values, following = orders / "values", orders / "next"

            def log_end() -> int:
                return int(json.loads((orders / "info").read_text())["next_offset"])

            kafka.produce("orders", b"committed\n", "-X", "transactional.id=one")
            assert soon(lambda: values.read_bytes() == b"plain\ncommitted\n")
            command = ["kcat", "-b", kafka.address, "-P", "-t", "orders", "-p", "0", "-X", "linger.ms=0"]
            doomed = [
                "-X",
                "transactional.id=two",
                "-X",
                "transaction.timeout.ms=12000",
            ]  # longer than the checks below take
            end = int(following.read_text())
            with subprocess.Popen([*command, *doomed], stdin=subprocess.PIPE) as writer:
                assert writer.stdin is not None
                writer.stdin.write(b"never\n" * 1000)  # kcat reads a block before it sends
                writer.stdin.flush()
                assert soon(lambda: log_end() > end)
                writer.kill()
            kafka.produce("orders", b"behind\n")
            assert soon(lambda: kafka.consume("orders", *UNCOMMITTED).endswith(b"never\nbehind\n"))
            assert soon(lambda: log_end() > end + 1) and int(following.read_text()) == end
            assert values.read_bytes() == b"plain\ncommitted\n" == kafka.consume("orders", *COMMITTED)
            assert soon(lambda: values.stat().st_size == len(b"plain\ncommitted\nbehind\n"))
            assert values.read_bytes() == kafka.consume("orders", *COMMITTED) == b"plain\ncommitted\nbehind\n"
            assert int(following.read_text()) == log_end() > end
            assert not (orders / str(end)).exists() and (orders / "latest").read_bytes() == b"behind"
        finally:
            unmount(tmp_path / "mnt")


def test_groups_show_what_the_broker_answers(kafka: KafkaBroker, tmp_path: Path) -> None:
    kafka.create_topic("orders", partitions=2)
    kafka.produce("orders", b"".join(b"%d\n" % number for number in range(20)))
    (tmp_path / "mnt").mkdir()
    assert cli.run(["mount", str(kafka.log_dir), str(tmp_path / "mnt"), "-o", "ro"]) == 0
    try:
        billing = tmp_path / "mnt" / "groups" / "billing"
        for offset in ("7", "12"):
            to = ("--reset-offsets", "--to-offset", offset, "--execute", "--topic", "orders:0")
            kafka.tool(GROUPS, "--group", "billing", *to)
            wanted = f"{offset}\n"
            assert soon(functools.partial(says, billing / "orders-0", wanted))
        described = kafka.tool(GROUPS, "--group", "billing", "--describe").stdout
        rows = [line.split() for line in described.splitlines() if line.startswith("billing")]
        shown = [line.split()[:4] for line in (billing / "lag").read_text().splitlines()[1:]]
        assert shown == [[f"{row[1]}-{row[2]}", *row[3:6]] for row in rows] == [["orders-0", "12", "20", "8"]]
        kafka.tool(GROUPS, "--group", "billing", "--delete")
        assert soon(lambda: not billing.exists())
    finally:
        unmount(tmp_path / "mnt")
