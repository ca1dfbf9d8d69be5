"""Compaction beside readers and writers: removed records are gone for new readers, and nothing waits."""

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
USERS, ORDERS = TopicPartition("users", 0), TopicPartition("orders", 0)
TASK_OPTIONS = "log.cleaner.backoff.ms=50"
KEYS, ROUNDS = 20, 5
"""Five sealed segments; each holds every key once, so that only the last one stays."""

PAD = b"x" * 900


def errno_of(action: Callable[[], object]) -> str:
    with pytest.raises(OSError) as caught:
        action()
    return errno.errorcode[caught.value.errno or 0]


def value(offset: int) -> bytes:
    return b"value %06d " % offset + PAD


def lines(start: int, end: int) -> bytes:
    return b"".join(value(offset) + b"\n" for offset in range(start, end))


def fill(directory: LogDirectory, rounds: int, keys: int) -> None:
    users = directory.log(USERS)
    for _ in range(rounds):
        for key in range(keys):
            builder = BatchBuilder(1 << 16)
            assert builder.append(b"key %d" % key, value(users.next_offset), (), 1_000_000)
            users.append(builder.seal())
        users.roll()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.mkdir()
    directory = LogDirectory.open(str(path))
    directory.create_partition(USERS, {"retention.ms": "-1"})
    directory.create_partition(ORDERS, {"retention.ms": "-1"})
    fill(directory, ROUNDS, KEYS)
    directory.close()
    return path


def configure(log: Path, *settings: str) -> None:
    """Change settings as a user does, while the mount runs."""
    subprocess.run([sys.executable, "-m", "offsetfs", "config", log, "users", *settings], check=True)


def compact(log: Path, *settings: str) -> None:
    configure(log, "cleanup.policy=compact", *settings)


def segments_of(log: Path) -> list[str]:
    return sorted(name for name in os.listdir(log / "users-0") if name.endswith(".log"))


def is_compacted(log: Path) -> bool:
    return len(segments_of(log)) == 2


LATEST = (ROUNDS - 1) * KEYS
END = ROUNDS * KEYS


def test_what_was_compacted_away_is_found_by_no_name_and_the_rest_is_unchanged(mount: Mount, log: Path) -> None:
    mounted = mount(log, TASK_OPTIONS)
    partition = mounted.path / "users-0"
    for offset in (0, 42, LATEST):
        assert (partition / str(offset)).read_bytes() == value(offset)  # and the kernel knows them
    kept = (partition / str(LATEST)).stat()
    compact(log)
    assert soon(lambda: is_compacted(log))
    # The kernel keeps each name for a second from when it was looked up, and a busy machine looks them up far apart.
    assert soon(lambda: not any((partition / name).exists() for name in ("0", "42")))
    for name in ("0", f"{LATEST - 1:020d}"):
        assert errno_of((partition / name).stat) == "ENOENT"
        assert errno_of((partition / name).read_bytes) == "ENOENT"
    assert (partition / str(LATEST)).read_bytes() == value(LATEST)
    assert (partition / str(LATEST)).stat().st_ino == kept.st_ino
    assert os.getxattr(partition / str(LATEST), "user.kafka.key") == b"key 0"
    assert sorted(int(name) for name in os.listdir(partition) if name.isdigit()) == list(range(LATEST, END))
    assert os.readlink(partition / "first") == str(LATEST) and os.readlink(partition / "latest") == str(END - 1)
    assert (partition / "start").read_text() == "0\n" and (partition / "next").read_text() == f"{END}\n"
    assert (partition / "values").read_bytes() == lines(LATEST, END)
    assert "users 0 100\n" in (log / "cleaner-offset-checkpoint").read_text()


def test_readers_keep_what_they_opened_and_new_ones_see_the_new(mount: Mount, log: Path) -> None:
    mounted = mount(log, TASK_OPTIONS)
    partition = mounted.path / "users-0"
    name = f"{0:020d}.log"
    segment = partition / "segments" / name
    content = segment.read_bytes()
    values = os.open(partition / "values", os.O_RDONLY | os.O_DIRECT)  # past the page cache
    with (partition / "3").open("rb") as record, segment.open("rb", buffering=0) as file:
        before = segment.stat()
        assert os.fstat(values).st_size == END * (len(value(0)) + 1)
        compact(log, "file.delete.delay.ms=2000")
        assert soon(lambda: is_compacted(log))
        read = b"".join(iter(lambda: os.read(values, 1 << 16), b""))
        assert read == lines(0, END), "its numbering stays, and its bytes wait as .deleted"
        assert soon(lambda: segment.stat().st_ino != before.st_ino)
        assert segment.read_bytes() == (log / "users-0" / name).read_bytes() != content
        assert file.read() == content and record.read() == value(3)
        assert soon(lambda: not [each for each in os.listdir(log / "users-0") if each.endswith(".deleted")])
        assert file.seek(0) == 0 and file.read() == content
    os.close(values)
    assert (partition / "values").read_bytes() == lines(LATEST, END)


def test_tail_goes_on_over_a_compaction(mount: Mount, log: Path) -> None:
    mounted = mount(log, f"{TASK_OPTIONS},linger-ms=1")
    partition = mounted.path / "users-0"
    out = log.parent / "followed"
    with out.open("wb") as sink:
        follower = subprocess.Popen(["tail", "-c", "+1", "-f", partition / "values"], stdout=sink)
        try:
            assert soon(lambda: out.stat().st_size == len(lines(0, END)))
            compact(log)
            assert soon(lambda: is_compacted(log))
            configure(log, "cleanup.policy=delete")  # so that lines are taken again
            with (partition / "append").open("ab") as append:
                append.write(lines(END, END + 3))
            assert soon(lambda: out.stat().st_size == len(lines(0, END + 3)))
            assert follower.poll() is None
        finally:
            follower.terminate()
            follower.wait()
    assert out.read_bytes() == lines(0, END + 3)


@pytest.mark.promise(
    "`write()` refuses a record without a key for a compacted topic with EINVAL, also if the topic "
    "becomes compacted while it is mounted; `.offsetfs/errors` has the reason."
)
@pytest.mark.parametrize("written", [b"a line\n", b"the beginning of a line"])
def test_a_compacted_topic_takes_no_lines_from_the_moment_it_is_one(mount: Mount, log: Path, written: bytes) -> None:
    mounted = mount(log, "linger-ms=1")
    partition = mounted.path / "users-0"
    with (partition / "append").open("ab", buffering=0) as append:
        assert append.write(b"taken\n") == 6
        compact(log)
        assert errno_of(lambda: append.write(written)) == "EINVAL"
    assert "append to users-0: the topic is compacted and takes no record without a key" in mounted.errors()
    assert (partition / "next").read_text() == f"{END + 1}\n"
    with (partition / "append").open("ab", buffering=0) as append:
        assert errno_of(lambda: append.write(written)) == "EINVAL"


# --- while it runs ---------------------------------------------------------------------------------------------------

SLOW = f"{TASK_OPTIONS},log.cleaner.io.max.bytes.per.second=200000,linger-ms=1"
"""Slow enough for a compaction of 100 KB of log, read twice and written once, to be met at work."""


def is_at_work(log: Path) -> bool:
    return any(name.endswith(".cleaned") for name in os.listdir(log / "users-0"))


def test_no_reader_or_writer_waits_for_a_compaction(mount: Mount, log: Path) -> None:
    mounted = mount(log, SLOW)
    compact(log)
    assert soon(lambda: is_at_work(log) or is_compacted(log))
    looked = 0
    while not is_compacted(log):
        assert (mounted.path / "users-0" / str(LATEST)).read_bytes() == value(LATEST)
        with (mounted.path / "orders-0" / "append").open("ab") as append:
            append.write(b"a line\n")
        looked += 1
    assert looked > 3, "each look waited for the compaction, which takes seconds"
    assert int((mounted.path / "orders-0" / "next").read_text()) == looked


def test_an_unmount_ends_a_compaction_at_once_and_the_log_is_whole(mount: Mount, log: Path) -> None:
    mounted = mount(log, f"{TASK_OPTIONS},log.cleaner.io.max.bytes.per.second=1000")
    compact(log)
    assert soon(lambda: "users" in (log / ".offsetfs-topics.json").read_text())
    time.sleep(0.5)  # it sleeps in its throttle now: at this rate for minutes
    begun = time.monotonic()
    assert mounted.unmount() == 0
    assert time.monotonic() - begun < 30
    assert not [name for name in os.listdir(log / "users-0") if name.endswith((".cleaned", ".swap", ".deleted"))]
    again = mount(log, TASK_OPTIONS)
    assert soon(lambda: is_compacted(log))
    assert soon(lambda: (again.path / "users-0" / "values").read_bytes() == lines(LATEST, END))


def test_a_partition_may_be_removed_while_it_is_compacted(mount: Mount, log: Path) -> None:
    mounted = mount(log, f"{SLOW},delete,create")
    compact(log)
    assert soon(lambda: is_at_work(log))
    (mounted.path / "users-0").rmdir()
    assert not (mounted.path / "users-0").exists()
    (mounted.path / "users-0").mkdir()
    assert (mounted.path / "users-0" / "next").read_text() == "0\n"
    assert mounted.unmount() == 0
    assert not [name for name in os.listdir(log) if name.endswith("-delete")]


@pytest.mark.damages
def test_damage_stops_the_compaction_of_one_partition_and_is_reported(mount: Mount, log: Path) -> None:
    path = log / "users-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    mounted = mount(log, TASK_OPTIONS, faulty=True)
    compact(log)
    assert soon(lambda: "EBADMSG compaction users-0: " in mounted.errors() and str(path) in mounted.errors())
    assert len(segments_of(log)) == ROUNDS + 1
    assert (mounted.path / "users-0" / "50").read_bytes() == value(50)
