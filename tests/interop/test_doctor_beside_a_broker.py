"""`offsetfs doctor` on the directories of a real broker: healthy, running, and after what people do to them."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from fixtures.kafka.broker import KafkaBroker
from fixtures.kafka.transactional_clients import transactional

from offsetfs.answers.doctor.doctor import examine
from offsetfs.answers.report import Diagnosis
from offsetfs.cli import run

pytestmark = pytest.mark.interop

SECONDS_MAX = 60


def findings(log_dir: Path) -> list[Diagnosis]:
    report = examine([os.fspath(log_dir)], time.time_ns() // 1_000_000)
    disks = ("disk-full", "disk-fills")  # of this machine
    return [finding for finding in report.findings if finding.kind not in disks]


def kinds(log_dir: Path) -> list[tuple[str, str]]:
    return sorted((finding.kind, finding.place) for finding in findings(log_dir))


def test_doctor_finds_nothing_in_a_healthy_broker_and_what_was_done_to_it(tmp_path: Path) -> None:
    log_dir = tmp_path / "broker" / "log"
    broker = KafkaBroker(tmp_path / "broker", settings={"metadata.log.dir": os.fspath(log_dir)})
    with broker:
        for topic in ("orders", "gone", "ids"):
            broker.create_topic(topic)
            broker.produce(topic, b"one\ntwo\n")
        producer = transactional(broker.address, "payments")
        producer.begin_transaction()
        producer.produce("orders", b"in a transaction")
        producer.commit_transaction()
        deadline = time.monotonic() + SECONDS_MAX
        while findings(log_dir) and time.monotonic() < deadline:  # the marker of the commit follows the commit
            time.sleep(0.1)
        assert findings(log_dir) == [], "while it runs"
        broker.stop()
        assert findings(log_dir) == [], "stopped"
    os.unlink(log_dir / "ids-0" / "partition.metadata")
    shutil.copytree(log_dir / "gone-0", log_dir / "never-0")
    assert kinds(log_dir) == [("no-topic-id", "ids-0"), ("stray", "never-0")]
    (missing,) = (finding for finding in findings(log_dir) if finding.kind == "no-topic-id")
    assert os.system(missing.remedy.removeprefix("with the broker stopped: ")) == 0
    shutil.rmtree(log_dir / "never-0")
    assert run(["doctor", os.fspath(log_dir)]) == 0
    with broker:
        assert broker.complaints() == [], "the remedy is one that a broker accepts"
        assert broker.consume("ids") == b"one\ntwo\n"


def test_doctor_finds_a_lost_log_and_what_a_killed_broker_left(tmp_path: Path) -> None:
    log_dir = tmp_path / "broker" / "log"
    broker = KafkaBroker(tmp_path / "broker", settings={"metadata.log.dir": os.fspath(log_dir)})
    with broker:
        for topic in ("orders", "open"):
            broker.create_topic(topic)
            broker.produce(topic, b"one\ntwo\n")
        assert broker.console_consume("orders", "--group", "billing", "--from-beginning", count=2)
        producer = transactional(broker.address, "payments")
        producer.begin_transaction()
        producer.produce("open", b"in a transaction")
        producer.flush(60)
        broker.kill()
    found = {finding.kind: finding for finding in findings(log_dir)}
    assert "payments" in found.pop("open-transaction").evidence
    assert "verifies them, in about" in found.pop("not-closed").consequence
    assert not found
    for name in ("00000000000000000000.log", "00000000000000000000.index", "00000000000000000000.timeindex"):
        os.truncate(log_dir / "orders-0" / name, 0)
    lost = [finding for finding in findings(log_dir) if finding.kind == "commit-beyond-end"]
    assert [finding.place for finding in lost] == ["billing: orders-0"]
    assert "committed offset 2, and the partition ends at 0" in lost[0].evidence
