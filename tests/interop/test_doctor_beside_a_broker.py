"""`offsetfs doctor` on the directory of a real broker: healthy, running, and after what happens to brokers.

The tests share one broker on a small disk, and take it as it is: running or stopped. Each takes topics of its own,
and types the remedies.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from fixtures.broker.transaction_requests import Remote, TransactionalProducer, granted
from fixtures.kafka import programs
from fixtures.kafka.broker import KafkaBroker
from fixtures.kafka.tools import JavaTools
from fixtures.kafka.transactional_clients import committed, transactional
from fixtures.kafka.typed_remedies import commands, typed
from fixtures.machine.waiting import soon

from offsetfs.answers.doctor.doctor import examine
from offsetfs.answers.report import Diagnosis, Report
from offsetfs.cli import run

pytestmark = pytest.mark.interop

DISK_BYTES = 112 << 20
BALLAST_BYTES = 8 << 20
DAY_MS = 86_400_000
SETTINGS = {
    "transaction.partition.verification.enable": "false",  # as before 3.6: a lost request leaves a hanging transaction
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "3600000",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker whose log directory is the whole of a small disk, with the metadata log in it."""
    assert os.geteuid() == 0, "only root can mount a small disk"
    folder = tmp_path_factory.mktemp("doctor")
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", disk], check=True)
    log_dir = disk / "log"
    broker = KafkaBroker(folder / "broker", log_dir=log_dir, settings=SETTINGS | {"metadata.log.dir": str(log_dir)})
    try:
        yield broker
    finally:
        broker.close()
        subprocess.run(["umount", "-l", disk], check=True)


@pytest.fixture
def running(broker: KafkaBroker) -> KafkaBroker:
    return broker if broker.is_running else broker.start()


@pytest.fixture
def stopped(broker: KafkaBroker) -> KafkaBroker:
    """The broker, stopped, with records in `heartbeat` and `gone`."""
    if not (broker.log_dir / "heartbeat-0").exists():
        if not broker.is_running:
            broker.start()
        for topic in ("heartbeat", "gone"):
            broker.create_topic(topic)
            broker.produce(topic, b"one\ntwo\n")
    if broker.is_running:
        broker.stop()
    return broker


def report(*log_dirs: Path, later_ms: int = 0) -> Report:
    """Return what doctor says, now or later."""
    return examine([os.fspath(path) for path in log_dirs], time.time_ns() // 1_000_000 + later_ms)


def found(log_dir: Path, *names: str, later_ms: int = 0) -> dict[str, Diagnosis]:
    """Return the findings by kind; with `names`, those whose place has one of them."""
    findings = report(log_dir, later_ms=later_ms).findings
    mine = [each for each in findings if not names or any(name in each.place for name in names)]
    assert len({each.kind for each in mine}) == len(mine), mine
    return {each.kind: each for each in mine}


def nothing(log_dir: Path, *names: str, later_ms: int = 0) -> bool:
    """Whether doctor finds nothing within a minute: markers follow the commit, and a broker renames while it starts."""
    return soon(lambda: not found(log_dir, *names, later_ms=later_ms))


def test_a_healthy_broker_has_no_findings(running: KafkaBroker) -> None:
    running.create_topic("orders")
    running.produce("orders", b"one\ntwo\n")
    producer = transactional(running.address, "committed")
    producer.begin_transaction()
    producer.produce("orders", b"in a transaction")
    producer.commit_transaction()
    assert nothing(running.log_dir)


def test_a_hanging_transaction_ends_by_the_command_of_the_remedy(running: KafkaBroker, java: JavaTools) -> None:
    running.create_topic("hanging")
    transactional(running.address, "first").flush()  # the broker makes __transaction_state
    producer = TransactionalProducer(Remote(running.address), "lost")

    async def leave_open() -> None:
        assert await granted(producer.init)
        assert not await producer.send(b"in a transaction that its coordinator was not told of", "hanging")

    trio.run(leave_open)
    assert not found(running.log_dir, "hanging"), "it may be new"
    finding = found(running.log_dir, "hanging", later_ms=120_000)["hanging-transaction"]
    assert f"producer {producer.producer_id}, of which no coordinator knows: open from offset 0" in finding.evidence
    (command,) = commands(finding.remedy)
    typed(command, java, running.address)
    assert nothing(running.log_dir, "hanging", later_ms=120_000)
    running.produce("hanging", b"after it\n")
    assert committed(running.address, "hanging", 1) == [b"after it"]


def test_a_partition_that_the_cleaner_gave_up_is_found_and_restored(running: KafkaBroker) -> None:
    running.create_topic(
        "state",
        configs={
            "cleanup.policy": "compact",
            "segment.bytes": "1048576",
            "min.cleanable.dirty.ratio": "0.01",
            "min.compaction.lag.ms": str(DAY_MS),
            "file.delete.delay.ms": "0",
        },
    )
    assert not produce(running, "state", [(b"key", bytes(400_000), None)] * 6)
    first = running.log_dir / "state-0" / f"{0:020}.log"
    backup = first.read_bytes()
    with first.open("r+b") as file:  # a disk changes the length of the second batch
        file.seek(8)
        file.seek(12 + int.from_bytes(file.read(4)) + 8)
        file.write(bytes(4))
    configure(running, "state", "min.compaction.lag.ms", "0")
    assert soon(lambda: "Marking its partition (state-0) as uncleanable" in running.log_text())
    assert not found(running.log_dir, "state"), "the cleaner may be busy"
    finding = found(running.log_dir, "state", later_ms=2 * 3_600_000)["cleaning-stopped"]
    assert "the cleaner should have, for 2 h" in finding.evidence
    assert "verify" in finding.remedy and run(["verify", str(running.log_dir), "state-0"]) == 1
    running.stop()
    first.write_bytes(backup)
    running.start()
    assert nothing(running.log_dir, "state", later_ms=2 * 3_600_000)


def test_timestamps_in_the_future_are_removed_by_the_remedy(running: KafkaBroker, java: JavaTools) -> None:
    running.create_topic("future", configs={"message.timestamp.after.max.ms": str(1 << 60)})
    ahead = time.time_ns() // 1_000_000 + 30 * DAY_MS
    assert not produce(running, "future", [(None, bytes(5_000), ahead)] * 3)
    finding = found(running.log_dir, "future")["future-timestamp"]
    assert "29 d 23 h" in finding.evidence
    setting, removal = commands(finding.remedy, OFFSET="-1")
    typed(setting, java, running.address)
    assert produce(running, "future", [(None, b"v", ahead)]) == ["INVALID_TIMESTAMP"]
    running.stop()
    typed(f"{removal} --yes", java)
    assert not found(running.log_dir, "future")


def test_a_deleted_topic_id_is_restored_by_the_remedy(stopped: KafkaBroker, java: JavaTools) -> None:
    (stopped.log_dir / "heartbeat-0" / "partition.metadata").unlink()
    finding = found(stopped.log_dir)["no-topic-id"]
    (command,) = commands(finding.remedy)
    typed(command, java)
    assert not found(stopped.log_dir)


def test_a_partition_that_was_moved_is_missing_where_it_was(stopped: KafkaBroker) -> None:
    other = stopped.log_dir.parent / "other"
    other.mkdir()
    for name in (".kafka_cleanshutdown", "meta.properties"):
        shutil.copy(stopped.log_dir / name, other)
    without_id(other / "meta.properties")
    shutil.move(stopped.log_dir / "heartbeat-0", other)
    finding = found(stopped.log_dir)["missing-partition"]
    assert finding.place == "heartbeat" and "1 partition in this directory: heartbeat-0" in finding.evidence
    assert not report(stopped.log_dir, other).findings, "it is in the other one"
    shutil.move(other / "heartbeat-0", stopped.log_dir)
    shutil.rmtree(other)
    assert not found(stopped.log_dir)


def test_a_broker_does_not_start_with_a_partition_in_two_directories(stopped: KafkaBroker, java: JavaTools) -> None:
    copy = stopped.folder / "copy"
    shutil.copytree(stopped.log_dir / "heartbeat-0", copy / "heartbeat-0")
    os.truncate(copy / "heartbeat-0" / f"{0:020}.log", 0)
    properties = stopped.folder / "server.properties"
    one = properties.read_text()
    properties.write_text(one.replace(f"log.dirs={stopped.log_dir}", f"log.dirs={stopped.log_dir},{copy}"))
    two = report(stopped.log_dir, copy)
    assert not {fact.key: fact.value for fact in two.facts}["starts"]
    by_kind = {each.kind: each for each in two.findings}
    assert by_kind["meta-properties"].place == str(copy / "meta.properties")
    (command,) = commands(by_kind["meta-properties"].remedy, SERVER_PROPERTIES=str(properties))
    typed(command, java)
    finding = {each.kind: each for each in report(stopped.log_dir, copy).findings}["duplicate-partition"]
    with pytest.raises(programs.KafkaError, match="uplicate log directories"):
        stopped.start()
    properties.write_text(one)
    (command,) = commands(finding.remedy, DIRECTORY_ELSEWHERE=str(stopped.folder))
    typed(command, java)
    assert not (copy / "heartbeat-0").exists(), "the shorter one"
    assert set(found(stopped.log_dir)) == {"not-closed"}, "a broker that does not start has begun to write"


def test_a_topic_that_was_deleted_while_its_directory_was_away_is_a_stray(
    stopped: KafkaBroker, java: JavaTools
) -> None:
    away = stopped.log_dir.parent / "gone-0"
    shutil.move(stopped.log_dir / "gone-0", away)
    stopped.start()
    assert "marked stray" not in stopped.log_text(), "it accepts what remedies have mended"
    client = AdminClient({"bootstrap.servers": stopped.address})
    client.delete_topics(["gone"])["gone"].result(60)
    assert soon(lambda: not (stopped.log_dir / "gone-0").exists())
    stopped.stop()
    shutil.move(away, stopped.log_dir / "gone-0")
    finding = found(stopped.log_dir)["stray"]
    assert finding.place == "gone-0" and "it was deleted while the broker was down" in finding.evidence
    stopped.start()
    assert soon(lambda: "set-aside" in found(stopped.log_dir))
    (command,) = commands(found(stopped.log_dir)["set-aside"].remedy)
    typed(command, java)
    assert nothing(stopped.log_dir)


def test_commits_beyond_the_end_of_a_lost_log_are_reset_by_the_remedy(running: KafkaBroker, java: JavaTools) -> None:
    running.create_topic("lost")
    running.produce("lost", b"one\ntwo\n")
    commit(running, "billing", "lost", 2)
    running.stop()
    shutil.rmtree(running.log_dir / "lost-0")
    assert "lost" in found(running.log_dir)["missing-partition"].place
    running.start()
    assert soon(lambda: "commit-beyond-end" in found(running.log_dir))
    finding = found(running.log_dir)["commit-beyond-end"]
    assert "committed offset 2, and the partition ends at 0" in finding.evidence
    (command,) = commands(finding.remedy)
    typed(command, java, running.address)
    assert nothing(running.log_dir)


def test_a_broker_that_filled_its_disk_starts_again_after_the_remedy(running: KafkaBroker, java: JavaTools) -> None:
    ballast = running.log_dir.parent / "ballast"
    ballast.write_bytes(bytes(BALLAST_BYTES))
    for topic, configs in (("open", {}), ("large", {"segment.bytes": "10485760", "retention.ms": str(DAY_MS)})):
        running.create_topic(topic, configs=configs)
    producer = transactional(running.address, "payments")
    producer.begin_transaction()
    producer.produce("open", b"in a transaction")
    producer.flush(60)
    assert nothing(running.log_dir), "its free space is not low yet"
    long_ago = time.time_ns() // 1_000_000 - 10 * DAY_MS
    errors = produce(running, "large", [(None, bytes(900_000), long_ago)] * (DISK_BYTES // 900_000))
    assert errors and soon(lambda: not running.is_running), "a broker whose only disk is full ends"
    findings = found(running.log_dir)
    assert "payments" in findings.pop("open-transaction").evidence
    assert "verifies them, in about" in findings.pop("not-closed").consequence
    full = findings.pop("disk-full")
    assert "0 B of" in full.evidence and "(large " in full.evidence
    ballast.unlink()
    plan, *_ = commands(full.remedy)
    typed(plan, java)
    typed(plan.replace(" --dry-run", ""), java)
    assert "disk-full" not in found(running.log_dir)
    running.start()
    assert nothing(running.log_dir)


def without_id(properties: Path) -> None:
    """Remove what tells a directory from the one that its file was copied from."""
    lines = properties.read_text().splitlines(keepends=True)
    properties.write_text("".join(line for line in lines if not line.startswith("directory.id=")))


def commit(broker: KafkaBroker, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def produce(broker: KafkaBroker, topic: str, records: list[tuple[bytes | None, bytes, int | None]]) -> list[str]:
    """Write keys, values and times, a batch each; return the names of the broker's errors."""
    producer = Producer({"bootstrap.servers": broker.address, "batch.num.messages": 1, "retries": 0})
    errors: list[str] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        errors.extend([] if error is None else [error.name()])

    for key, value, time_ms in records:
        producer.produce(topic, value, key, on_delivery=delivered, timestamp=time_ms or 0)
    assert soon(lambda: not producer.flush(0.1) or not broker.is_running)
    producer.purge()
    producer.flush(60)
    return errors


def configure(broker: KafkaBroker, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    client = AdminClient({"bootstrap.servers": broker.address})
    client.incremental_alter_configs([resource])[resource].result(60)
