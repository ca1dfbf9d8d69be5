"""`start` and rmdir on a real mount: what they delete, what they refuse, and what is no longer shown."""

import errno
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition

pytestmark = pytest.mark.mount

Mount = Callable[..., Any]


def sh(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", command], cwd=cwd, capture_output=True, text=True, timeout=60, check=False)


def errno_of(action: Callable[[], object]) -> str:
    with pytest.raises(OSError) as caught:
        action()
    return errno.errorcode[caught.value.errno or 0]


def orders(mount: Mount, log: Path, options: str, records: int = 10) -> Any:
    mounted = mount(log, f"create,{options}")
    (mounted.path / "orders-0").mkdir()
    with (mounted.path / "orders-0" / "append").open("wb") as append:
        append.write(b"".join(b"value %d\n" % number for number in range(records)))
    return mounted


# --- start -----------------------------------------------------------------------------------------------------------


@pytest.mark.promise(
    "When a write of an offset to `start` has returned, the log begins there, on disk, and no record "
    "below it can be found."
)
def test_records_below_an_offset_written_to_start_are_gone_at_once(mount: Mount, log: Path) -> None:
    mounted = orders(mount, log, "delete-records")
    partition = mounted.path / "orders-0"
    assert (partition / "3").read_bytes() == b"value 3" and (partition / "3").stat().st_size == 7
    assert sh("echo 5 > start", partition).returncode == 0
    for name in ("3", "00000000000000000004"):
        assert errno_of((partition / name).stat) == "ENOENT"
        assert errno_of((partition / name).read_bytes) == "ENOENT"
    assert (partition / "start").read_text() == "5\n" and os.readlink(partition / "first") == "5"
    assert (partition / "values").read_bytes() == b"".join(b"value %d\n" % number for number in range(5, 10))
    assert sorted(int(name) for name in os.listdir(partition) if name.isdigit()) == [5, 6, 7, 8, 9]
    assert "orders 0 5\n" in (log / "log-start-offset-checkpoint").read_text()


def test_an_open_record_is_readable_after_its_deletion(mount: Mount, log: Path) -> None:
    partition = orders(mount, log, "delete-records").path / "orders-0"
    with (partition / "3").open("rb") as record, (partition / "values").open("rb") as values:
        assert sh("echo 5 > start", partition).returncode == 0
        assert record.read() == b"value 3"
        assert os.fstat(record.fileno()).st_size == 7
        assert values.read(8) == b"value 0\n"


def test_minus_one_deletes_everything_that_was_accepted(mount: Mount, log: Path) -> None:
    partition = orders(mount, log, "delete-records,linger-ms=60000").path / "orders-0"
    with (partition / "append").open("ab", buffering=0) as append:
        append.write(b"the last one\n")
        assert sh("echo -1 > start", partition).returncode == 0
    assert (partition / "start").read_text() == (partition / "next").read_text() == "11\n"
    assert (partition / "values").read_bytes() == b"" and not (partition / "first").is_symlink()


def test_what_is_deleted_stays_deleted_over_a_remount(mount: Mount, log: Path) -> None:
    first = orders(mount, log, "delete-records")
    assert sh("echo 5 > start", first.path / "orders-0").returncode == 0
    assert first.unmount() == 0
    assert (mount(log).path / "orders-0" / "start").read_text() == "5\n"


@pytest.mark.parametrize(
    ("written", "answer"),
    [
        ("", None),
        ("x", "EINVAL"),
        ("5x", "EINVAL"),
        ("5 6", "EINVAL"),
        ("-2", "EINVAL"),
        ("1.5", "EINVAL"),
        ("٣", "EINVAL"),
        ("99999999999999999999", "EINVAL"),
        ("11", "ERANGE"),
        ("9223372036854775807", "ERANGE"),
    ],
)
def test_what_is_no_offset_of_the_log_is_refused_in_write(
    mount: Mount, log: Path, written: str, answer: str | None
) -> None:
    mounted = orders(mount, log, "delete-records")
    fd = os.open(mounted.path / "orders-0" / "start", os.O_WRONLY | os.O_TRUNC)
    try:
        if answer is None:
            assert os.write(fd, written.encode()) == 0
        else:
            assert errno_of(lambda: os.write(fd, written.encode() + b"\n")) == answer
    finally:
        os.close(fd)
    assert (mounted.path / "orders-0" / "start").read_text() == "0\n"
    assert ("ERANGE" in mounted.errors()) == (answer == "ERANGE")


def test_a_topic_that_only_compacts_deletes_no_records_and_reports_it(mount: Mount, log: Path) -> None:
    mounted = orders(mount, log, "delete-records,cleanup.policy=compact", records=0)
    fd = os.open(mounted.path / "orders-0" / "start", os.O_WRONLY)
    try:
        assert errno_of(lambda: os.write(fd, b"0\n")) == "EPERM"
    finally:
        os.close(fd)
    assert "records are not deleted where cleanup.policy is compact" in mounted.errors()


def test_without_the_option_start_is_only_read(mount: Mount, log: Path) -> None:
    mounted = orders(mount, log, "list=all")
    start = mounted.path / "orders-0" / "start"
    assert start.stat().st_mode & 0o222 == 0
    assert errno_of(lambda: os.open(start, os.O_WRONLY)) in ("EPERM", "EACCES")
    assert errno_of(lambda: os.truncate(start, 0)) in ("EPERM", "EACCES")
    mounted.unmount()
    readers = mount(log, "ro")
    assert errno_of(lambda: os.open(readers.path / "orders-0" / "start", os.O_WRONLY)) == "EROFS"


OPTIONS = {
    "delete-records": lambda mnt: (mnt / "orders-0" / "start").write_text("1"),
    "delete": lambda mnt: (mnt / "orders-0").rmdir(),
    "create": lambda mnt: (mnt / "payments-0").mkdir(),
}


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_that_is_missing_is_named(option: str, mount: Mount, log: Path) -> None:
    orders(mount, log, "create").unmount()
    mounted = mount(log)
    with pytest.raises(PermissionError):
        OPTIONS[option](mounted.path)
    assert f"use -o {option}\n" in mounted.errors()


# --- rmdir -----------------------------------------------------------------------------------------------------------


@pytest.mark.promise(
    "When `rmdir` of a partition has returned, its name is free, on disk; files that are open stay readable."
)
def test_rmdir_removes_a_partition_and_its_name_is_free(mount: Mount, log: Path) -> None:
    mounted = orders(mount, log, "delete")
    partition = mounted.path / "orders-0"
    with (partition / "values").open("rb") as values, (partition / "3").open("rb") as record:
        partition.rmdir()
        assert not partition.exists() and "orders-0" not in os.listdir(mounted.path)
        assert values.read() == b"".join(b"value %d\n" % number for number in range(10))
        assert record.read() == b"value 3"
    [leaving] = [name for name in os.listdir(log) if name.startswith("orders-0")]
    assert leaving.startswith("orders-0.") and leaving.endswith("-delete")
    partition.mkdir()
    assert (partition / "next").read_text() == "0\n"
    assert sh("echo again >> append; cat values", partition).stdout == "again\n"
    assert mounted.unmount() == 0
    assert sorted(name for name in os.listdir(log) if "orders" in name) == ["orders-0"]


def test_rmdir_deletes_the_committed_offsets_of_the_partition(mount: Mount, log: Path) -> None:
    """Once a partition of the same name began with the commits of the removed one, until they expired."""
    mounted = orders(mount, log, "delete")
    commits = "mkdir keeps-0 groups/billing; echo 7 > groups/billing/orders-0; echo 0 > groups/billing/keeps-0"
    done = sh(f"{commits}; rmdir orders-0; mkdir orders-0; ls groups/billing", mounted.path)
    assert (done.stderr, done.stdout.split()) == ("", ["keeps-0", "lag"])


def test_a_writer_of_a_partition_that_was_removed_hears_of_it(mount: Mount, log: Path) -> None:
    mounted = orders(mount, log, "delete,linger-ms=60000")
    partition = mounted.path / "orders-0"
    with (partition / "append").open("ab", buffering=0) as append:
        append.write(b"taken\n")
        partition.rmdir()
        assert errno_of(lambda: append.write(b"too late\n")) == "ESTALE"


def test_without_the_option_and_elsewhere_nothing_is_removed(mount: Mount, log: Path) -> None:
    mounted = orders(mount, log, "list=all")
    assert errno_of((mounted.path / "orders-0").rmdir) in ("EPERM", "EACCES")
    mounted.unmount()
    readers = mount(log, "ro")
    assert errno_of((readers.path / "orders-0").rmdir) == "EROFS"
    readers.unmount()
    removing = mount(log, "delete")
    for path in ("orders-0/segments", "orders-0/by-time", ".offsetfs"):
        assert errno_of((removing.path / path).rmdir) in ("EPERM", "EACCES"), path
    assert errno_of((removing.path / "README").rmdir) == "ENOTDIR"
    assert errno_of((removing.path / "payments-0").rmdir) == "ENOENT"
    removing.unmount()
    assert LogDirectory.open(str(log), read_only=True).has(TopicPartition("orders", 0))


def test_a_partition_removed_before_its_sync_is_no_failed_sync(mount: Mount, log: Path) -> None:
    mounted = orders(mount, log, "delete,flush-ms=200")
    (mounted.path / "orders-0").rmdir()
    other = mounted.path / "other-0"
    other.mkdir()
    (other / "append").write_bytes(b"a line\n")

    def counted(metric: str) -> int:
        text = (mounted.path / ".offsetfs" / "metrics").read_text()
        return sum(
            int(float(line.split()[-1])) for line in text.splitlines() if line.startswith(f"offsetfs_{metric}{{")
        )

    deadline = time.monotonic() + 20
    while not counted("sync_duration_seconds_count") and time.monotonic() < deadline:
        time.sleep(0.05)  # the daemon syncs the later one by itself, and the deadline of the removed one is over then
    assert (counted("sync_duration_seconds_count"), counted("sync_failures_total")) == (1, 0)
    assert "sync" not in mounted.errors()
    mounted.unmount()
    assert "sync failed" not in b"".join(mounted.lines).decode()
