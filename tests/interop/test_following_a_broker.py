"""A read-only mount of a running broker's directory shows what the broker writes, as it writes it."""

import errno
import functools
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from fixtures.kafka.broker import KafkaBroker
from fixtures.machine.waiting import soon
from fixtures.mounts.left_mounts import unmount

from offsetfs import cli

pytestmark = pytest.mark.interop

SECONDS_MAX = 60


def is_number(path: Path, number: int) -> bool:
    """Whether a file shows the number."""
    return int(path.read_text()) == number


@contextmanager
def followed(kafka: KafkaBroker, point: Path) -> Iterator[Path]:
    point.mkdir(exist_ok=True)
    assert cli.run(["mount", str(kafka.log_dir), str(point), "-o", "ro,list=all"]) == 0
    try:
        yield point
    finally:
        unmount(point)


def daemon_of(mnt: Path, capsys: pytest.CaptureFixture[str]) -> int:
    """Return the process that serves a mount."""
    assert cli.run(["status", str(mnt), "--json"]) == 0
    pid: int = json.loads(capsys.readouterr().out)["mounts"][0]["pid"]
    return pid


@contextmanager
def ahead_of_other_work(pid: int) -> Iterator[None]:
    """Run a process and this thread before others, if that is permitted: a wait for a core is not the mount's."""
    threads = [*(int(each) for each in os.listdir(f"/proc/{pid}/task")), threading.get_native_id()]
    with suppress(PermissionError):
        for each in threads:
            os.setpriority(os.PRIO_PROCESS, each, -20)
    try:
        yield
    finally:
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 0)


@pytest.mark.promise(
    "A read-only mount of a running broker's directory shows a record of a partition with one "
    "replica within 100 ms of its acknowledgment, and is idle while no process reads it."
)
def test_a_record_is_seen_within_a_tenth_of_a_second_of_its_acknowledgement(
    kafka_module: KafkaBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kafka = kafka_module
    kafka.create_topic("seen")
    with followed(kafka, tmp_path / "mnt") as mnt, ahead_of_other_work(daemon_of(mnt, capsys)):
        next_file, latest = mnt / "seen-0" / "next", mnt / "seen-0" / "latest"
        waited: list[float] = []
        for number in range(5):
            kafka.produce("seen", b"line %d\n" % number)
            acknowledged = time.monotonic()
            assert soon(functools.partial(is_number, next_file, number + 1))
            waited.append(time.monotonic() - acknowledged)
            assert latest.read_bytes() == b"line %d" % number
            assert (mnt / "seen-0" / "values").read_bytes().count(b"\n") == number + 1
        assert sorted(waited)[2] <= 0.1, waited  # on a busy machine some of them wait for a processor


@pytest.mark.promise(
    "A follower of `values` misses no record and sees none twice, across rolls, retention, deletion "
    "and a restart of the broker."
)
def test_a_producer_at_full_speed_over_rolls_and_tail_misses_nothing(kafka_module: KafkaBroker, tmp_path: Path) -> None:
    kafka = kafka_module
    kafka.create_topic("tailed", configs={"segment.bytes": "1048576"})
    lines = b"".join(b"line %07d of a producer in a hurry\n" % number for number in range(200_000))
    kafka.produce("tailed", b"begin\n")
    with followed(kafka, tmp_path / "mnt") as mnt, (tmp_path / "seen").open("wb") as seen:
        values = mnt / "tailed-0" / "values"
        with subprocess.Popen(["tail", "-c", "+1", "-s", "0.05", "-f", values], stdout=seen) as tail:
            kafka.produce("tailed", lines)
            size = len(b"begin\n" + lines)
            assert soon(lambda: (tmp_path / "seen").stat().st_size >= size)
            tail.terminate()
        assert (tmp_path / "seen").read_bytes() == b"begin\n" + lines == values.read_bytes()
        assert len(list((mnt / "tailed-0" / "segments").glob("*.log"))) > 5
    assert kafka.consume("tailed") == b"begin\n" + lines


def test_records_are_found_while_the_broker_cuts_indexes_of_rolled_segments(
    kafka_module: KafkaBroker, tmp_path: Path
) -> None:
    kafka = kafka_module
    configs = {"segment.bytes": "1048576", "index.interval.bytes": "64", "message.timestamp.type": "LogAppendTime"}
    kafka.create_topic("cut", configs=configs)
    lines = [b"line %07d of a producer in a hurry\n" % number for number in range(200_000)]
    kafka.produce("cut", lines[0])
    with followed(kafka, tmp_path / "mnt") as mnt, ThreadPoolExecutor(1) as pool:
        partition, found = mnt / "cut-0", 0
        producing = pool.submit(kafka.produce, "cut", b"".join(lines[1:]), "-X", "batch.size=2000")
        while not producing.done() or not found:
            end = int((partition / "next").read_text())
            for offset in {0, end // 3, end // 2, max(end - 100, 0), end - 1}:
                assert (partition / str(offset)).read_bytes() + b"\n" == lines[offset]
                assert (partition / "by-time" / f"@{(partition / str(offset)).stat().st_mtime:.3f}").read_bytes()
                found += 1
        producing.result()
        assert len(list((partition / "segments").glob("*.log"))) > 5
        assert (partition / "values").read_bytes() == b"".join(lines)


def test_cat_follow_prints_a_fast_producer_once_and_in_order(kafka_module: KafkaBroker, tmp_path: Path) -> None:
    kafka = kafka_module
    kafka.create_topic("catted", configs={"segment.bytes": "1048576"})
    lines = b"".join(b"line %07d of a producer in a hurry\n" % number for number in range(200_000))
    kafka.produce("catted", b"before\n")
    with followed(kafka, tmp_path / "mnt") as mnt, (tmp_path / "seen").open("wb") as seen:
        command = ["timeout", "120", "cat", str(mnt / "catted-0" / "follow@0")]
        with subprocess.Popen(command, stdout=seen) as cat:
            kafka.produce("catted", lines)
            assert soon(lambda: (tmp_path / "seen").stat().st_size >= len(b"before\n" + lines))
            cat.terminate()
    assert (tmp_path / "seen").read_bytes() == b"before\n" + lines


def test_topics_come_and_go_and_come_again(kafka_module: KafkaBroker, tmp_path: Path) -> None:
    kafka = kafka_module
    kafka.create_topic("gone")
    kafka.produce("gone", b"old\n")
    with followed(kafka, tmp_path / "mnt") as mnt:
        assert (mnt / "gone-0" / "values").read_bytes() == b"old\n"
        kafka.create_topic("payments")
        kafka.produce("payments", b"new topic\n")
        assert (mnt / "payments-0" / "values").read_bytes() == b"new topic\n"
        kafka.tool("org.apache.kafka.tools.TopicCommand", "--delete", "--topic", "gone")
        assert soon(lambda: not (mnt / "gone-0").exists())
        kafka.create_topic("gone")
        kafka.produce("gone", b"another\n")
        assert soon(lambda: (mnt / "gone-0" / "values").read_bytes() == b"another\n")


def test_retention_and_a_restart_are_followed(kafka: KafkaBroker, tmp_path: Path) -> None:
    kafka.create_topic("orders", configs={"segment.bytes": "1048576", "file.delete.delay.ms": "100"})
    lines = b"".join(b"line %07d\n" % number for number in range(100_000))
    kafka.produce("orders", lines, "-X", "batch.size=10000")
    with followed(kafka, tmp_path / "mnt") as mnt:
        partition = mnt / "orders-0"
        assert (partition / "values").read_bytes() == lines
        delete = tmp_path / "delete.json"
        delete.write_text('{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "offset": 50000}]}')
        kafka.tool("org.apache.kafka.tools.DeleteRecordsCommand", "--offset-json-file", str(delete))
        kafka.stop()  # writes the log start
        kafka.start()
        kafka.produce("orders", b"after the restart\n")
        assert soon(lambda: int((partition / "start").read_text()) == 50_000)
        assert soon(lambda: (partition / "latest").read_bytes() == b"after the restart")
        assert (partition / "first").read_bytes() == b"line 0050000"
        assert (partition / "values").read_bytes().startswith(b"line 0050000\n")
        assert not (partition / "49999").exists()


def test_a_killed_broker_that_recovers_is_followed(kafka: KafkaBroker, tmp_path: Path) -> None:
    kafka.create_topic("orders")
    kafka.produce("orders", b"one\n")
    with followed(kafka, tmp_path / "mnt") as mnt:
        assert (mnt / "orders-0" / "latest").read_bytes() == b"one"
        kafka.kill()
        assert (mnt / "orders-0" / "latest").read_bytes() == b"one"
        kafka.start()
        kafka.produce("orders", b"two\n")
        assert soon(lambda: (mnt / "orders-0" / "latest").read_bytes() == b"two")
        assert (mnt / "orders-0" / "values").read_bytes() == b"one\ntwo\n"


def test_no_wrong_byte_is_read_while_the_cleaner_swaps_segments(
    new_kafka: Callable[..., KafkaBroker], tmp_path: Path
) -> None:
    kafka = new_kafka(settings={"log.cleaner.backoff.ms": "50", "log.retention.check.interval.ms": "1000"}).start()
    compact = {
        "cleanup.policy": "compact",
        "segment.bytes": "1048576",
        "min.cleanable.dirty.ratio": "0.01",
        "file.delete.delay.ms": "100",
    }
    kafka.create_topic("users", configs=compact)
    rounds, keys = 12, 3000
    expected = [b"%d round %d %s" % (key, turn, b"." * 80) for turn in range(rounds) for key in range(keys)]
    with followed(kafka, tmp_path / "mnt") as mnt:
        partition = mnt / "users-0"
        for turn in range(rounds):
            lines = b"".join(b"%d=%s\n" % (k, expected[turn * keys + k]) for k in range(keys))
            kafka.produce("users", lines, "-K", "=")
            for offset in range(0, (turn + 1) * keys, 97):
                assert read_record(partition / str(offset)) in (None, expected[offset])
        assert soon(lambda: len(kept(partition)) < len(expected) // 2)
        assert [expected[offset] for offset in kept(partition)] == (partition / "values").read_bytes().splitlines()
        assert (partition / "values").read_bytes() == kafka.consume("users")
        assert (partition / "latest").read_bytes() == expected[-1]


def read_record(path: Path) -> bytes | None:
    """The value; None where compaction took the record, or its file under our hands."""
    try:
        return path.read_bytes()
    except OSError as error:
        assert error.errno in (errno.ENOENT, errno.ESTALE)
        return None


def kept(partition: Path) -> list[int]:
    return sorted(int(name) for name in os.listdir(partition) if name.isdecimal())


def test_an_idle_mount_of_a_running_broker_costs_next_to_nothing(
    kafka_module: KafkaBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kafka = kafka_module
    kafka.create_topic("idle")
    kafka.produce("idle", b"one\n")
    with followed(kafka, tmp_path / "mnt") as mnt:
        assert (mnt / "idle-0" / "latest").read_bytes() == b"one"
        pid = daemon_of(mnt, capsys)
        before, begun = cpu_ticks(pid), time.monotonic()
        kafka.console_consume("idle", count=1)  # something to wait for that is no sleep
        kafka.console_consume("idle", count=1)
        seconds = time.monotonic() - begun
        assert (cpu_ticks(pid) - before) / os.sysconf("SC_CLK_TCK") <= max(0.01 * seconds, 0.02)


def cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def test_verify_beside_a_broker_that_writes_finds_nothing(kafka_module: KafkaBroker, tmp_path: Path) -> None:
    kafka = kafka_module
    kafka.create_topic("verified", configs={"segment.bytes": "1048576"})
    lines = b"".join(b"line %07d\n" % number for number in range(300_000))
    with ThreadPoolExecutor(1) as pool:
        producing = pool.submit(kafka.produce, "verified", lines)
        codes = [cli.run(["verify", str(kafka.log_dir)])]
        while not producing.done():
            codes.append(cli.run(["verify", str(kafka.log_dir)]))
        producing.result()
    assert set(codes) == {0}
    assert kafka.consume("verified") == lines
