"""A mount that may have few files open takes appends to any number of partitions, and loses none at its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from offsetfs.fs.mounting.descriptor_limits import Reserve, partitions_max, reserve_size, segments_max, threads_max
from offsetfs.fs.mounting.mount_table import MountTable, mount_at
from offsetfs.storage.directory.directory import LogDirectory

pytestmark = pytest.mark.mount

Mount = Callable[..., Any]
DESCRIPTORS = 64
PARTITIONS = 60


def limited(mount: Mount, log: Path, options: str) -> Any:
    return mount(log, options, prefix=("prlimit", f"--nofile={DESCRIPTORS}"))


def stored(log: Path) -> dict[str, int]:
    directory = LogDirectory.open(str(log), read_only=True)
    return {str(each): directory.log(each).next_offset for each in directory.partitions()}


@pytest.mark.promise(
    "After `offsetfs umount`, SIGTERM or SIGINT all accepted records are on disk before the process ends."
)
@pytest.mark.parametrize("signal_number", [signal.SIGTERM, None])
def test_all_that_was_accepted_at_the_limit_is_on_disk_when_the_mount_has_ended(
    mount: Mount, tmp_path: Path, signal_number: int | None
) -> None:
    log = tmp_path / "log"
    log.mkdir()
    mounted = limited(mount, log, "create,linger-ms=60000,flush-ms=60000")
    appends = []
    for number in range(PARTITIONS):
        (mounted.path / f"t-{number}").mkdir()
        appends.append(os.open(mounted.path / f"t-{number}" / "append", os.O_WRONLY))
        assert os.write(appends[-1], b"a line\n") == 7
    if signal_number is not None:
        mounted.process.send_signal(signal_number)
        mounted.process.wait(timeout=30)
    for append in appends:
        with contextlib.suppress(OSError):  # where the mount is gone
            os.close(append)
    assert mounted.unmount() == 0
    assert stored(log) == {f"t-{number}": 1 for number in range(PARTITIONS)}
    assert (log / ".kafka_cleanshutdown").exists()


def test_more_partitions_than_stay_open_are_appended_to_in_turn(mount: Mount, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.mkdir()
    mounted = limited(mount, log, "create,flush-ms=100")
    for number in range(PARTITIONS):
        (mounted.path / f"t-{number}").mkdir()
    for round_number in range(3):
        for number in range(PARTITIONS):
            with open(mounted.path / f"t-{number}" / "append", "wb", buffering=0) as stream:
                stream.write(b"line %d\n" % round_number)
                if number % 7 == 0:
                    os.fsync(stream.fileno())
    assert len(os.listdir(f"/proc/{mounted.process.pid}/fd")) <= DESCRIPTORS
    values = [(mounted.path / f"t-{number}" / "values").read_bytes() for number in range(PARTITIONS)]
    assert values == [b"line 0\nline 1\nline 2\n"] * PARTITIONS
    assert mounted.unmount() == 0
    assert set(stored(log).values()) == {3}


def test_the_log_states_for_how_many_partitions_the_limit_is_enough(mount: Mount, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.mkdir()
    mounted = mount(log, "create")
    said = b"".join(mounted.lines).decode()
    soft = int(subprocess.check_output(["prlimit", f"--pid={mounted.process.pid}", "-n", "-o", "SOFT", "--noheadings"]))
    hard = int(subprocess.check_output(["prlimit", f"--pid={mounted.process.pid}", "-n", "-o", "HARD", "--noheadings"]))
    assert soft == hard
    assert f"{soft} open files are allowed: {partitions_max(soft)} partitions stay open for appends" in said


def test_the_parts_of_a_limit_are_no_more_than_the_limit() -> None:
    for limit in (40, 64, 256, 1024, 1 << 20):
        assert reserve_size(limit) + 3 * segments_max(limit) < limit
        assert reserve_size(limit) + 3 * partitions_max(limit) <= limit
        assert threads_max(limit) >= 1
    assert partitions_max(1024) == 322


def test_the_table_of_mounts_is_read_without_a_reserved_descriptor(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    reserve, table = Reserve(8), MountTable()
    assert len(os.listdir("/proc/self/fd")) == before + 9
    reserve.release()
    reserve.release()
    assert len(os.listdir("/proc/self/fd")) == before + 1
    for _ in range(2):
        assert table.mount_at("/proc") == mount_at("/proc") is not None
        assert table.mount_at(os.fspath(tmp_path)) is None
    table.close()
    table.close()
