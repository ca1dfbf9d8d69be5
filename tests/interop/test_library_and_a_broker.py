"""A program and the commands without a mount, beside a running broker and between its lives."""

from __future__ import annotations

import subprocess
import sys

import pytest
from fixtures.kafka.broker import KafkaBroker

import offsetfs

pytestmark = pytest.mark.interop


def command(*arguments: str, lines: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "offsetfs", *arguments], input=lines, capture_output=True, check=False)


def test_a_program_reads_beside_a_broker_and_appends_between_its_lives(kafka: KafkaBroker) -> None:
    kafka.create_topic("orders")
    kafka.produce("orders", b"one\ntwo\n")
    log = str(kafka.log_dir)
    with offsetfs.open(log) as data:
        orders = data.partition("orders-0")
        follower = orders.follow(0, timeout=10)
        assert [next(follower).value for _ in range(2)] == [b"one", b"two"]
        kafka.produce("orders", b"three\n")
        assert next(follower).value == b"three"
    assert command("cat", log, "orders-0/values").stdout == b"one\ntwo\nthree\n"
    with pytest.raises(offsetfs.errors.LogDirectoryLocked) as reported:
        offsetfs.open(log, "a")
    assert reported.value.pid == kafka.pid
    refused = command("append", log, "orders-0", lines=b"x\n")
    assert refused.returncode == 32 and f"process {kafka.pid}".encode() in refused.stderr

    kafka.stop()
    with offsetfs.open(log, "a") as data:
        orders = data.partition("orders-0")
        assert orders.append(b"four", key=b"k", headers=[("from", b"a program")]) == 3
        assert orders.append_lines(b"five\nsix\n") == range(4, 6)
    assert command("append", log, "orders-0/append", lines=b"seven").returncode == 0
    kafka.start()
    assert kafka.complaints() == []
    kafka.produce("orders", b"eight\n")
    assert kafka.consume("orders") == b"one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n"
    shown = kafka.consume("orders", "-o", "3", "-c", "1", "-f", "%o %k %h %s\n")
    assert shown == b"3 k from=a program four\n"
