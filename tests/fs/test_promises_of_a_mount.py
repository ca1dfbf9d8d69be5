"""The promises to writers, each tested on a real mount with common commands."""

import contextlib
import errno
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fixtures.machine.own_machine import OFFSETFS
from fixtures.machine.waiting import soon

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition

pytestmark = pytest.mark.mount

Mount = Callable[..., Any]
NEVER = "linger-ms=60000"
SECONDS_MAX = 240
"""So long takes only what hangs, also on a busy machine."""

SYNCS = re.compile(r"fsync\(\d+<([^>]*)>")


def sh(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command], cwd=cwd, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )


def values_on_disk(log: Path, partition: str = "orders-0") -> list[bytes | None]:
    """What the files hold, read past the daemon, which may be alive or dead."""
    reader = LogDirectory.open(str(log), read_only=True).log(TopicPartition.parse(partition))
    return [record.value for s in reader.snapshot() for batch in s.batches() for record in batch.records()]


def bytes_in(partition: Path) -> int:
    return sum((partition / name).stat().st_size for name in os.listdir(partition) if name.endswith(".log"))


def with_partition(mount: Mount, log: Path, options: str = "", **more: bool) -> Any:
    mounted = mount(log, ",".join(filter(None, ["create", options])), **more)
    (mounted.path / "orders-0").mkdir()
    return mounted


@pytest.mark.promise(
    "When `write()` has returned, a complete line is framed, validated, and in the open batch of the partition."
)
def test_written_is_accepted_and_not_yet_in_the_file(mount: Mount, log: Path) -> None:
    mounted = with_partition(mount, log, NEVER)
    with (mounted.path / "orders-0" / "append").open("ab", buffering=0) as append:
        assert append.write(b"one\ntwo\n") == 8
        assert values_on_disk(log) == []
    assert values_on_disk(log) == [b"one", b"two"]


@pytest.mark.promise(
    "When `linger-ms` or `batch-bytes` is reached, or the last `close()` has returned, records are "
    "in the segment file: visible in every view, and safe from a crash of the daemon."
)
@pytest.mark.parametrize("way", ["linger", "batch", "close"])
def test_handed_over_survives_kill_9(mount: Mount, log: Path, way: str) -> None:
    options = {"linger": "linger-ms=1", "batch": f"{NEVER},batch-bytes=4096", "close": NEVER}[way]
    mounted = with_partition(mount, log, options, faulty=True)
    path = mounted.path / "orders-0" / "append"
    lines = [b"%04d %s" % (number, b"x" * 90) for number in range(42)]  # 41 of them do not fit a batch of 4096
    append = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(append, b"".join(line + b"\n" for line in lines))
    if way == "close":
        os.close(append)
        assert (mounted.path / "orders-0" / "values").read_bytes() == b"".join(line + b"\n" for line in lines)
    expected = 38 if way == "batch" else 42
    assert soon(lambda: len(values_on_disk(log)) >= expected)
    kill_9(mounted)
    if way != "close":
        with pytest.raises(OSError, match=r"not connected|abort"):
            os.write(append, b"late\n")
        with contextlib.suppress(OSError):
            os.close(append)
    again = mount(log)
    assert (again.path / "orders-0" / "values").read_bytes().splitlines()[:expected] == lines[:expected]


def kill_9(mounted: Any) -> None:
    """Kill the daemon and take its dead mount away."""
    os.kill(mounted.process.pid, signal.SIGKILL)
    mounted.process.wait()
    with pytest.raises(OSError, match=r"not connected|abort"):
        (mounted.path / "orders-0" / "next").read_bytes()
    subprocess.run(["umount", "-l", mounted.path], check=True)


def traced(mount: Mount, log: Path, tmp_path: Path, options: str) -> tuple[Any, Callable[[], list[str]]]:
    """A mount under strace; the callable gives the files that were synced so far."""
    mounted = with_partition(mount, log, options)
    out = tmp_path / "strace"
    strace = subprocess.Popen(
        ["strace", "-f", "-y", "-e", "trace=fsync,fdatasync", "-o", out, "-p", str(mounted.process.pid)],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert strace.stderr is not None and "attached" in strace.stderr.readline()
    mounted.strace = strace
    return mounted, lambda: SYNCS.findall(out.read_text())


def end_trace(mounted: Any) -> None:
    mounted.strace.send_signal(signal.SIGINT)
    mounted.strace.communicate(timeout=SECONDS_MAX)


@pytest.mark.promise("Records are on disk when `fsync` or a write with `O_SYNC` has returned.")
@pytest.mark.parametrize("how", ["dd conv=fsync,notrunc oflag=append", "dd oflag=sync,append", "dd oflag=dsync,append"])
def test_fsync_returns_when_the_segment_file_was_synced(mount: Mount, log: Path, tmp_path: Path, how: str) -> None:
    mounted, synced = traced(mount, log, tmp_path, f"{NEVER},flush-ms=off")
    result = sh(f"echo hello | {how} of=orders-0/append", mounted.path)
    assert result.returncode == 0, result.stderr
    end_trace(mounted)
    assert any(name.endswith("/orders-0/00000000000000000000.log") for name in synced())


@pytest.mark.promise("In a mount, records are on disk after `flush-messages` records or `flush-ms` milliseconds.")
@pytest.mark.parametrize("options", ["flush-ms=50", "flush-ms=off,flush-messages=3"])
def test_the_flush_interval_syncs_by_itself(mount: Mount, log: Path, tmp_path: Path, options: str) -> None:
    mounted, synced = traced(mount, log, tmp_path, options)
    assert sh("seq 3 >> orders-0/append", mounted.path).returncode == 0
    assert soon(lambda: any(name.endswith(".log") for name in synced()))
    end_trace(mounted)


@pytest.mark.promise(
    "After `offsetfs umount`, SIGTERM or SIGINT all accepted records are on disk before the process ends."
)
@pytest.mark.parametrize("way", ["umount", "SIGTERM", "SIGINT"])
def test_the_end_of_the_mount_drains_everything(mount: Mount, log: Path, way: str) -> None:
    mounted = with_partition(mount, log, f"{NEVER},flush-ms=off")
    assert sh("seq 1000 >> orders-0/append", mounted.path).returncode == 0
    if way == "umount":
        assert subprocess.run([*OFFSETFS, "umount", mounted.path], check=False).returncode == 0
    else:
        append = os.open(mounted.path / "orders-0" / "append", os.O_WRONLY | os.O_APPEND)
        os.write(append, b"accepted\n")
        os.kill(mounted.process.pid, getattr(signal, way))
        assert mounted.process.wait(timeout=SECONDS_MAX) == 0
        with contextlib.suppress(OSError):
            os.close(append)
    expected = [b"%d" % n for n in range(1, 1001)] + ([] if way == "umount" else [b"accepted"])
    assert values_on_disk(log) == expected
    assert (log / ".kafka_cleanshutdown").exists()
    assert not os.path.ismount(mounted.path)


@pytest.mark.promise("`write()` refuses a record above `max.message.bytes` with EMSGSIZE.")
def test_a_record_that_is_too_large_is_refused_where_the_shell_reports_it(mount: Mount, log: Path) -> None:
    mounted = with_partition(mount, log, "max.message.bytes=1000")
    result = sh("printf 'before\\n%02000d\\n' 7 | cat >> orders-0/append", mounted.path)
    assert result.returncode == 1 and "Message too long" in result.stderr
    assert sh("cat orders-0/values", mounted.path).stdout == "before\n"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of eight megabytes."""
    path = tmp_path / "small"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", path], check=True)
    yield path
    subprocess.run(["umount", path], check=True)


@pytest.mark.promise(
    "On a full disk, writers get ENOSPC, no record is torn, everything stays readable, and appends "
    "continue once there is free space."
)
def test_a_full_disk_is_reported_and_survived(mount: Mount, small_disk: Path) -> None:
    (small_disk / "log").mkdir()
    mounted = with_partition(mount, small_disk / "log", faulty=True)
    assert sh("seq 1000 >> orders-0/append", mounted.path).returncode == 0
    subprocess.run(["dd", "if=/dev/zero", f"of={small_disk}/fill", "bs=64k"], capture_output=True, check=False)
    for command in ("echo no space >> orders-0/append", "seq 1000000 | cat >> orders-0/append"):
        result = sh(command, mounted.path)
        assert result.returncode == 1 and "No space left on device" in result.stderr
    values = (mounted.path / "orders-0" / "values").read_bytes().split()
    assert values[:1000] == [b"%d" % n for n in range(1, 1001)]
    assert "ENOSPC" in mounted.errors()
    (small_disk / "fill").unlink()
    assert sh("echo space again >> orders-0/append", mounted.path).returncode == 0
    assert sh("cat orders-0/latest", mounted.path).stdout == "space again"
    assert mounted.unmount() == 0
    directory = LogDirectory.open(str(small_disk / "log"), read_only=True)
    directory.log(TopicPartition("orders", 0)).check()
    assert directory.log(TopicPartition("orders", 0)).damage == ()
    directory.close()


def fill(disk: Path) -> None:
    subprocess.run(["dd", "if=/dev/zero", f"of={disk}/fill", "bs=4k"], capture_output=True, check=False)


@pytest.mark.promise(
    "A mount that starts on a full disk shows every record; partitions that it could not recover "
    "accept writes once there is free space."
)
@pytest.mark.parametrize("tail", [b"", b"torn"], ids=["unmounted on a full disk", "a torn tail to be kept"])
def test_a_mount_that_starts_on_a_full_disk_writes_when_there_is_space(
    mount: Mount, small_disk: Path, tail: bytes
) -> None:
    log = small_disk / "log"
    log.mkdir()
    first = with_partition(mount, log, faulty=True)
    assert sh("seq 1000 >> orders-0/append; sync orders-0/append", first.path).returncode == 0
    fill(small_disk)
    first.unmount()
    with (log / "orders-0" / f"{0:020d}.log").open("ab") as stream, contextlib.suppress(OSError):
        stream.write(tail)
    fill(small_disk)

    mounted = mount(log, "create", faulty=True)
    said = b"".join(mounted.lines).decode()
    assert "orders-0: recovery failed, the partition is read only: " in said
    assert (mounted.path / "orders-0" / "values").read_text().split() == [str(n) for n in range(1, 1001)]
    assert sh("cat orders-0/999 orders-0/start", mounted.path).stdout == "10000\n"
    info = json.loads((mounted.path / "orders-0" / "info").read_text())
    assert info["read_only"] and "No space left on device" in info["damage"][-1]["reason"]
    assert "ENOSPC recovery orders-0: " in mounted.errors()
    assert (
        "1 partition not recovered"
        in subprocess.run([*OFFSETFS, "status", mounted.path], capture_output=True, text=True, check=True).stdout
    )
    refused = sh("echo no space >> orders-0/append", mounted.path)
    assert refused.returncode == 1 and "No space left on device" in refused.stderr

    with (mounted.path / "orders-0" / "values").open() as reader:
        (small_disk / "fill").unlink()
        assert sh("echo space again >> orders-0/append", mounted.path).stderr == ""
        assert reader.readline() == "1\n"
    assert sh("cat orders-0/latest", mounted.path).stdout == "space again"
    assert (
        "not recovered"
        not in subprocess.run([*OFFSETFS, "status", mounted.path], capture_output=True, text=True, check=True).stdout
    )
    info = json.loads((mounted.path / "orders-0" / "info").read_text())
    assert not info["read_only"] and len(info["damage"]) == bool(tail)
    assert mounted.unmount() == 0
    assert (log / ".kafka_cleanshutdown").exists()


def test_a_partition_unrecovered_for_a_full_disk_recovers_without_a_writer(mount: Mount, small_disk: Path) -> None:
    log = small_disk / "log"
    log.mkdir()
    first = with_partition(mount, log, faulty=True)
    assert sh("seq 1000 >> orders-0/append", first.path).returncode == 0
    fill(small_disk)
    first.unmount()
    mounted = mount(log, "create", faulty=True)
    metrics = mounted.path / ".offsetfs" / "metrics"
    gauge = f'offsetfs_unrecovered_partitions{{mount="{mounted.path}"}} '
    assert gauge + "1.0" in metrics.read_text()
    (small_disk / "fill").unlink()
    assert soon(lambda: gauge + "0.0" in metrics.read_text())
    assert mounted.unmount() == 0


@pytest.mark.promise("Offsets increase strictly, and records of one writer stay in order.")
def test_eight_writers_keep_each_their_order(mount: Mount, log: Path) -> None:
    mounted = with_partition(mount, log, "batch-bytes=8192,segment.bytes=100000")
    writers = " ".join(
        f"(for i in {{1..40}}; do seq -f {w}:%g $((i*50-49)) $((i*50)); done >> orders-0/append) &" for w in range(8)
    )
    assert sh(f"{writers} wait", mounted.path).returncode == 0
    lines = (mounted.path / "orders-0" / "values").read_text().split()
    for writer in range(8):
        mine = [int(line.partition(":")[2]) for line in lines if line.startswith(f"{writer}:")]
        assert mine == list(range(1, 2001))
    assert len(lines) == 16000 and (mounted.path / "orders-0" / "next").read_text().strip() == "16000"


@pytest.mark.promise("A mount with `-o ro` writes nothing into the log directory, not even a lock.")
@pytest.mark.promise(
    "Every listed file is finite, has its exact size, never blocks, and changes nothing when it is read."
)
def test_a_read_only_mount_of_a_read_only_directory_changes_nothing(
    mount: Mount, golden_copy: Path, tmp_path: Path
) -> None:
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in golden_copy.rglob("*") if p.is_file()}
    bind = tmp_path / "bind"
    bind.mkdir()
    subprocess.run(["mount", "--bind", golden_copy, bind], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", bind], check=True)
        mounted = mount(bind, "ro")
        result = sh(
            "tar -cf - . | wc -c; cd keyed-1; grep -rc . . | wc -l; find . -size +0; cp -r . ../../copy", mounted.path
        )
        assert result.returncode == 0 and result.stderr == "", result.stderr
        sizes = {p.name: p.stat().st_size for p in (mounted.path / "keyed-1").iterdir() if p.is_file()}
        assert all(len((mounted.path / "keyed-1" / name).read_bytes()) == size for name, size in sizes.items())
        assert mounted.unmount() == 0
    finally:
        subprocess.run(["umount", bind], check=True)
    assert {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in golden_copy.rglob("*") if p.is_file()} == before


@pytest.mark.promise(
    "After a crash, a partition is an exact prefix of the appended batches, and contains everything "
    "that was in the segment file when the daemon was killed."
)
@pytest.mark.parametrize("after_kib", [0, 300, 900, 1700])
def test_kill_9_under_load_leaves_an_exact_prefix(mount: Mount, log: Path, after_kib: int) -> None:
    mounted = with_partition(mount, log, "batch-bytes=65536,segment.bytes=500000", faulty=True)
    writer = subprocess.Popen(
        ["bash", "-c", "seq 1000000 | cat >> orders-0/append"], cwd=mounted.path, stderr=subprocess.DEVNULL
    )
    assert soon(lambda: bytes_in(log / "orders-0") >= after_kib << 10)
    kill_9(mounted)
    assert writer.wait(timeout=SECONDS_MAX) != 0
    in_the_file = values_on_disk(log)
    again = mount(log)
    values = (again.path / "orders-0" / "values").read_bytes().split()
    assert values == [b"%d" % n for n in range(1, len(values) + 1)]
    assert len(values) >= len(in_the_file)
    assert sh("echo later >> orders-0/append && cat orders-0/latest", again.path).stdout == "later"


@pytest.mark.damages
@pytest.mark.promise("The checksum of a batch is verified each time its records are read from the disk.")
@pytest.mark.promise(
    "A damaged batch affects only itself: the batches around it stay readable, and `info` or the "
    "error has path, position and offset."
)
def test_a_flipped_bit_is_an_error_for_its_batch_alone(mount: Mount, golden_copy: Path) -> None:
    partition = TopicPartition("java", 0)
    reader = LogDirectory.open(str(golden_copy), read_only=True).log(partition)
    batches = [batch for s in reader.snapshot() for batch in s.batches()]
    hurt = batches[1]
    path, position = Path(reader.snapshot().first.log_path), hurt.position or 0
    data = bytearray(path.read_bytes())
    data[position + 80] ^= 1
    path.write_bytes(data)
    mounted = mount(golden_copy, "ro", faulty=True)
    for batch in batches:
        for offset in (batch.header.base_offset, batch.header.last_offset):
            file = mounted.path / "java-0" / str(offset)
            if batch is hurt:
                with pytest.raises(OSError, match="Bad message") as caught:
                    file.read_bytes()
                assert caught.value.errno == errno.EBADMSG
            else:
                record = batch.record(offset)
                assert record is not None and file.read_bytes() == (record.value or b"")
    reported = mounted.errors()
    assert str(path.name) in reported and f"position {position}" in reported


@pytest.mark.promise("A log directory never has two writers, whether the other one is a broker or another mount.")
def test_a_second_mount_is_refused_with_the_pid_of_the_first(mount: Mount, log: Path, tmp_path: Path) -> None:
    mounted = with_partition(mount, log)
    (tmp_path / "other").mkdir()
    result = subprocess.run([*OFFSETFS, "mount", log, tmp_path / "other"], capture_output=True, text=True, check=False)
    assert result.returncode == 32 and str(mounted.process.pid) in result.stderr
    assert not os.path.ismount(tmp_path / "other")


@pytest.mark.parametrize(
    ("partition", "reported"),
    [
        ("__consumer_offsets-1", "Operation not permitted"),
        ("__transaction_state-0", "Operation not permitted"),
        ("compacted-0", "Invalid argument"),
    ],
)
def test_lines_are_kept_out_of_logs_that_they_would_break(
    mount: Mount, golden_copy: Path, partition: str, reported: str
) -> None:
    mounted = mount(golden_copy)
    result = sh(f"echo line >> {partition}/append", mounted.path)
    assert result.returncode == 1 and reported in result.stderr
    assert f" {partition}/append: " in mounted.errors()
    assert sh(f"cat {partition}/append", mounted.path).returncode == 0


def test_recovery_points_are_written_while_the_mount_lives(mount: Mount, log: Path) -> None:
    task_options = "log.initial.task.delay.ms=0,log.flush.offset.checkpoint.interval.ms=50"
    mounted = with_partition(mount, log, f"flush-ms=20,{task_options}")
    assert sh("seq 500 >> orders-0/append", mounted.path).returncode == 0
    checkpoint = log / "recovery-point-offset-checkpoint"
    assert soon(lambda: checkpoint.exists() and "orders 0 500" in checkpoint.read_text())
