"""Two real brokers: while a follower lags, a reader of the leader's directory ends where a consumer does."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from fixtures.kafka.broker import KafkaBroker
from fixtures.machine.waiting import soon

from offsetfs.storage.directory.directory import DirectoryAccess, LogDirectory
from offsetfs.storage.names import TopicPartition

pytestmark = pytest.mark.interop

SECONDS_MAX = 60

ORDERS = TopicPartition("orders", 0)
PATIENT = {
    # A follower that stands still is neither fenced nor taken out of the in-sync replicas while the test looks.
    "broker.session.timeout.ms": "120000",
    "replica.lag.time.max.ms": "120000",
    "replica.high.watermark.checkpoint.interval.ms": "200",
}


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[tuple[KafkaBroker, KafkaBroker]]:
    """A leader, which is the controller too and has the metadata log beside its data, and a follower."""
    leader = KafkaBroker(
        tmp_path / "leader", settings={**PATIENT, "metadata.log.dir": str(tmp_path / "leader" / "log")}
    )
    follower = KafkaBroker(tmp_path / "follower", settings=PATIENT, follows=leader)
    with ExitStack() as started:
        yield started.enter_context(leader), started.enter_context(follower)


def test_a_follower_shows_records_it_lacks_once_consumers_see_them(
    brokers: tuple[KafkaBroker, KafkaBroker],
) -> None:
    leader, follower = brokers
    words = ("--create", "--topic", "orders", "--replica-assignment", "1:2")
    leader.tool("org.apache.kafka.tools.TopicCommand", *words)
    leader.produce("orders", b"".join(b"%d\n" % number for number in range(100)), "-X", "acks=all")
    directory = LogDirectory.open(os.fspath(leader.log_dir), read_only=True)
    log = directory.log(ORDERS)

    def ends_at(offset: int) -> bool:
        log.refresh()
        return log.next_offset == offset

    assert soon(lambda: ends_at(100)) and log.is_bounded
    os.kill(follower.pid, signal.SIGSTOP)
    try:
        leader.produce("orders", b"".join(b"%d\n" % number for number in range(100, 150)), "-X", "acks=1")
        assert soon(lambda: log.log_end_offset() == 150)
        assert len(leader.consume("orders").splitlines()) == 100
        assert ends_at(100)
        everything = LogDirectory.open(
            os.fspath(leader.log_dir), read_only=True, access=DirectoryAccess(shows_log_end=True)
        )
        assert everything.log(ORDERS).next_offset == 150
    finally:
        os.kill(follower.pid, signal.SIGCONT)
    assert soon(lambda: ends_at(150))
    assert len(leader.consume("orders").splitlines()) == 150
