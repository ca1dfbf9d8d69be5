"""Retention beside readers: removed records are gone for new readers, and stay readable through open files."""

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixtures.machine.waiting import soon

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.format.batch_builder import BatchBuilder

pytestmark = pytest.mark.mount

Mount = Callable[..., Any]
ORDERS = TopicPartition("orders", 0)
TASK_OPTIONS = "log.initial.task.delay.ms=0,log.retention.check.interval.ms=50"
RECORDS, SEGMENT_RECORDS = 100, 20
HOUR_MS = 3_600_000


def errno_of(action: Callable[[], object]) -> str:
    with pytest.raises(OSError) as caught:
        action()
    return errno.errorcode[caught.value.errno or 0]


def value(number: int) -> bytes:
    return b"value %03d " % number + b"x" * 990


def lines(start: int, end: int = RECORDS) -> bytes:
    return b"".join(value(number) + b"\n" for number in range(start, end))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A hundred records in five sealed segments, a day old, and an empty active segment; nothing expires yet."""
    path = tmp_path / "log"
    path.mkdir()
    directory = LogDirectory.open(str(path))
    orders = directory.create_partition(ORDERS, {"retention.ms": "-1"})
    yesterday = time.time_ns() // 1_000_000 - 24 * HOUR_MS
    for number in range(RECORDS):
        builder = BatchBuilder(1 << 16)
        assert builder.append(None, value(number), (), yesterday + number)
        orders.append(builder.seal())
        if (number + 1) % SEGMENT_RECORDS == 0:
            orders.roll()
    directory.close()
    return path


def configure(log: Path, *settings: str) -> None:
    """Change settings as a user does, while the mount runs."""
    subprocess.run([sys.executable, "-m", "offsetfs", "config", log, "orders", *settings], check=True)


def start_of(partition: Path) -> int:
    return int((partition / "start").read_text())


def two_segments(log: Path) -> str:
    """Return the retention.bytes that leaves the last two of five segments."""
    return f"retention.bytes={(log / 'orders-0' / f'{0:020d}.log').stat().st_size * 2}"


@pytest.mark.promise(
    "Retention and compaction remove what the settings of the topic say and nothing else, on a mount "
    "as in a broker; within one second, removed records can no longer be found by name."
)
def test_what_expired_is_found_by_no_name_any_more(mount: Mount, log: Path) -> None:
    mounted = mount(log, TASK_OPTIONS)
    partition = mounted.path / "orders-0"
    for number in (0, 42, 59, 60, 99):
        assert (partition / str(number)).read_bytes() == value(number)  # and the kernel knows them
    before = {name: (partition / name).stat().st_ino for name in ("60", "99")}
    assert len(os.listdir(partition / "by-time")) >= 1
    configure(log, two_segments(log))
    assert soon(lambda: start_of(partition) == 60)
    # The kernel keeps each name for a second from when it was looked up, and a busy machine looks them up far apart.
    assert soon(lambda: not any((partition / name).exists() for name in ("0", "42", "59")))
    for name in ("0", "59", f"{42:020d}"):
        assert errno_of((partition / name).stat) == "ENOENT"
        assert errno_of((partition / name).read_bytes) == "ENOENT"
    assert os.readlink(partition / "first") == "60"
    assert sorted(int(name) for name in os.listdir(partition) if name.isdigit()) == list(range(60, RECORDS))
    assert (partition / "values").read_bytes() == lines(60)
    [oldest, *_] = sorted(name for name in os.listdir(partition / "segments") if name.endswith(".log"))
    assert oldest == f"{60:020d}.log"
    assert errno_of(lambda: (partition / "segments" / f"{0:020d}.log").stat()) == "ENOENT"
    assert {name: (partition / name).stat().st_ino for name in before} == before, "an inode never changes meaning"
    assert os.path.basename(os.readlink(partition / "by-time" / "@1")) == "60"


@pytest.mark.promise(
    "An open record, `values` or file of `segments/` stays readable for at least "
    "`file.delete.delay.ms` after its removal; later, reads of removed data fail with ESTALE and "
    "never return the bytes of another record."
)
def test_what_is_open_is_read_on_and_then_stale(mount: Mount, log: Path) -> None:
    mounted = mount(log, TASK_OPTIONS)
    partition = mounted.path / "orders-0"
    segment, real = partition / "segments" / f"{20:020d}.log", log / "orders-0"
    content, all_values = segment.read_bytes(), lines(0)
    values = os.open(partition / "values", os.O_RDONLY | os.O_DIRECT)  # past the page cache, which knows too much
    with (partition / "3").open("rb") as record, segment.open("rb", buffering=0) as file:
        assert os.fstat(values).st_size == len(all_values)
        configure(log, two_segments(log), "file.delete.delay.ms=2000")
        assert soon(lambda: start_of(partition) == 60)
        assert os.pread(values, 10, 25_000) == all_values[25_000:25_010], "it waits as .deleted"
        assert soon(lambda: not any(name.startswith((f"{0:020d}.", f"{20:020d}.")) for name in os.listdir(real)))
        assert record.read() == value(3)
        assert file.read() == content
        assert os.fstat(values).st_size == len(all_values), "the size of an open view never shrinks"
        assert os.pread(values, 10, 30_000) == all_values[30_000:30_010], "the segment that it is at stays open"
        assert os.pread(values, 10, 90_000) == all_values[90_000:90_010]
        assert errno_of(lambda: os.pread(values, 10, 5_000)) == "ESTALE"
    os.close(values)
    assert start_of(partition) == 60 and (partition / "60").read_bytes() == value(60)


def test_a_follower_of_values_misses_nothing_when_the_head_is_cut(mount: Mount, log: Path) -> None:
    mounted = mount(log, f"{TASK_OPTIONS},linger-ms=1")
    partition = mounted.path / "orders-0"
    out = log.parent / "followed"
    with out.open("wb") as sink:
        follower = subprocess.Popen(["tail", "-c", "+1", "-f", partition / "values"], stdout=sink)
        try:
            assert soon(lambda: out.stat().st_size == len(lines(0)))
            configure(log, two_segments(log))
            assert soon(lambda: start_of(partition) == 60)
            with (partition / "append").open("ab") as append:
                append.write(lines(RECORDS, RECORDS + 5))
            assert soon(lambda: out.stat().st_size == len(lines(0, RECORDS + 5)))
            assert follower.poll() is None
        finally:
            follower.terminate()
            follower.wait()
    assert out.read_bytes() == lines(0, RECORDS + 5)


def test_the_name_of_the_view_stands_for_another_file_when_its_head_is_cut(mount: Mount, log: Path) -> None:
    partition = mount(log, TASK_OPTIONS).path / "orders-0"
    before = (partition / "values").stat()
    configure(log, two_segments(log))
    assert soon(lambda: start_of(partition) == 60)
    after = (partition / "values").stat()
    assert after.st_ino != before.st_ino and after.st_size == len(lines(60))


def test_settings_are_seen_while_mounted_by_appends_and_info(mount: Mount, log: Path) -> None:
    mounted = mount(log, f"{TASK_OPTIONS},linger-ms=1")
    partition = mounted.path / "orders-0"
    with (partition / "append").open("ab", buffering=0) as append:
        assert append.write(b"x" * 5000 + b"\n") == 5001
        configure(log, "max.message.bytes=1000", "compression.type=zstd")
        assert errno_of(lambda: append.write(b"x" * 5000 + b"\n")) == "EMSGSIZE"
    assert '"max.message.bytes": "1000"' in (partition / "info").read_text()
    configure(log, "max.message.bytes=")
    with (partition / "append").open("ab", buffering=0) as append:
        assert append.write(b"x" * 5000 + b"\n") == 5001
    assert os.getxattr(partition / str(RECORDS), "user.kafka.codec") == b"none"
    assert os.getxattr(partition / str(RECORDS + 1), "user.kafka.codec") == b"zstd"


def test_a_setting_that_was_broken_by_hand_is_reported_and_the_old_ones_hold(mount: Mount, log: Path) -> None:
    mounted = mount(log, TASK_OPTIONS)
    settings = log / ".offsetfs-topics.json"
    good = settings.read_text()
    settings.write_text(good.replace('"-1"', '"never"'))
    assert soon(lambda: (mounted.path / "orders-0" / "start").exists() and "retention.ms" in mounted.errors())
    assert start_of(mounted.path / "orders-0") == 0
    settings.write_text(good)
    configure(log, two_segments(log))
    assert soon(lambda: start_of(mounted.path / "orders-0") == 60)


def test_a_background_task_that_fails_is_reported_and_stops_nothing(mount: Mount, log: Path) -> None:
    blocked = log / "log-start-offset-checkpoint.tmp"
    mounted = mount(log, TASK_OPTIONS, faulty=True)
    blocked.mkdir()
    configure(log, two_segments(log))
    assert soon(lambda: f"EISDIR retention -: {blocked}" in mounted.errors())
    assert start_of(mounted.path / "orders-0") == 0, "no file goes before the new start is on disk"
    assert (mounted.path / "orders-0" / "0").read_bytes() == value(0)
    blocked.rmdir()
    assert soon(lambda: start_of(mounted.path / "orders-0") == 60)


def test_an_idle_mount_sleeps(mount: Mount, log: Path) -> None:
    mounted = mount(log)
    (mounted.path / "orders-0" / "info").read_text()
    stat = Path(f"/proc/{mounted.process.pid}/stat")

    def ticks() -> int:
        fields = stat.read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    def sleeps() -> bool:
        before = ticks()
        time.sleep(1)
        return ticks() - before <= 2  # hundredths of a second

    assert soon(sleeps)  # not at once: threads of the start may have something left to do


def test_in_a_brokers_directory_nothing_goes_whose_settings_are_not_known(mount: Mount, golden_copy: Path) -> None:
    before = sorted(str(path.relative_to(golden_copy)) for path in golden_copy.rglob("*.log"))
    mounted = mount(golden_copy, f"{TASK_OPTIONS},log.cleaner.backoff.ms=50")
    (mounted.path / "segments-0" / "info").read_text()
    time.sleep(0.5)  # ten passes
    assert mounted.unmount() == 0
    assert sorted(str(path.relative_to(golden_copy)) for path in golden_copy.rglob("*.log")) == before
