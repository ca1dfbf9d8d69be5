"""The commands on a real mount: going to the background, naming its users, ending with everything on disk."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from offsetfs.cli.commands import umount as umount_command
from offsetfs.cli.mounts import daemon_registry
from offsetfs.cli.mounts.holders import Holder
from offsetfs.fs.mounting.mount_table import Mount
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition

pytestmark = pytest.mark.mount

OFFSETFS = [sys.executable, "-m", "offsetfs"]


def offsetfs(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [*OFFSETFS, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def values(log: Path, partition: str = "orders-0") -> list[bytes | None]:
    directory = LogDirectory.open(os.fspath(log), read_only=True)
    segments = directory.log(TopicPartition.parse(partition)).snapshot()
    return [record.value for segment in segments for batch in segment.batches() for record in batch.records()]


def status(place: Path) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(offsetfs("status", place, "--json").stdout)
    return answer


def test_mount_returns_with_its_answer_and_umount_with_its_daemons_end(log: Path, mnt: Path) -> None:
    mounted = offsetfs("mount", log, mnt, "-o", "linger-ms=60000,flush-ms=off")
    assert (mounted.returncode, mounted.stderr) == (0, "")
    (mount,) = status(mnt)["mounts"]
    assert (mount["log_directory"], mount["is_alive"], mount["options"]["linger-ms"]) == (str(log), True, "60000")
    with open(mnt / "orders-0" / "append", "ab", buffering=0) as append:
        append.write(b"whole\nunfinished")
    assert offsetfs("umount", mnt).returncode == 0
    assert daemon_registry.started(mount["pid"]) is None
    assert values(log) == [b"whole", b"unfinished"] and (log / ".kafka_cleanshutdown").exists()
    assert offsetfs("umount", mnt).returncode == 1


def test_umount_names_the_processes_that_use_the_mount_and_leaves_it(log: Path, mnt: Path) -> None:
    offsetfs("mount", log, mnt)
    with subprocess.Popen(["sleep", "60"], cwd=mnt) as holder:
        try:
            refused = offsetfs("umount", mnt)
            assert refused.returncode == 32
            assert f"is busy: held by sleep (pid {holder.pid}, {mnt})" in refused.stderr
            assert (mnt / "orders-0").is_dir()
        finally:
            holder.kill()
    assert offsetfs("umount", mnt).returncode == 0


def test_umount_waits_for_a_process_that_holds_the_mount_for_a_moment(log: Path, mnt: Path) -> None:
    offsetfs("mount", log, mnt)
    tried = mnt.parent / "tried"
    # The umount(8) that is found first. After its first refusal, the process that holds the mount ends within 0.5 s.
    unmount = "umount" if os.geteuid() == 0 else "fusermount3"
    script = mnt.parent / "bin" / unmount
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\n{shutil.which(unmount)} "$@"\ncode=$?\necho $code >> {tried}\nexit $code\n')
    script.chmod(0o755)
    with subprocess.Popen(["sleep", "60"], cwd=mnt) as holder:
        path = f"{script.parent}:{os.environ['PATH']}"
        with subprocess.Popen([*OFFSETFS, "umount", mnt], env={**os.environ, "PATH": path}) as umount:
            deadline = time.monotonic() + 30
            while not (tried.exists() and tried.read_text()) and time.monotonic() < deadline:
                time.sleep(0.01)
            assert tried.read_text().splitlines()[0] == ("32" if os.geteuid() == 0 else "1")
            time.sleep(0.5)
            holder.kill()
            assert umount.wait(timeout=60) == 0
    assert not os.path.ismount(mnt)


def test_umount_names_only_processes_that_keep_holding_the_mount(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = [[Holder(7, "ls", "/mnt"), Holder(8, "sleep", "/mnt")], [Holder(8, "sleep", "/mnt"), Holder(9, "df", "/")]]
    monkeypatch.setattr(umount_command, "holders", lambda *_: looks.pop(0))
    refused = umount_command._busy(Mount(1, "/mnt", "fuse.offsetfs", "/log", ""))
    assert "held by sleep (pid 8, /mnt): end" in str(refused)


def test_the_mount_of_a_killed_daemon_is_removed_and_reported(log: Path, mnt: Path) -> None:
    offsetfs("mount", log, mnt)
    (mount,) = status(mnt)["mounts"]
    descriptor = os.pidfd_open(mount["pid"])
    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    assert select.select([descriptor], [], [], 30)[0]  # readable when the process has ended
    os.close(descriptor)
    reported = offsetfs("umount", mnt)
    assert reported.returncode == 2 and "died before it closed" in reported.stderr
    assert not os.path.ismount(mnt)
    assert offsetfs("mount", log, mnt).returncode == 0


def test_a_second_writer_is_refused_with_the_pid_of_the_first(log: Path, mnt: Path, tmp_path: Path) -> None:
    offsetfs("mount", log, mnt)
    (mount,) = status(mnt)["mounts"]
    (tmp_path / "other").mkdir()
    refused = offsetfs("mount", log, tmp_path / "other")
    assert refused.returncode == 32 and f"is mounted at {mnt} by process {mount['pid']}" in refused.stderr
    again = offsetfs("mount", log, mnt)
    assert again.returncode == 32 and "is already mounted there, by process" in again.stderr


def test_create_goes_through_a_mount_that_allows_it(log: Path, mnt: Path) -> None:
    offsetfs("mount", log, mnt, "-o", "create")
    assert offsetfs("create", log, "users", "--partitions", 2).returncode == 0
    assert (mnt / "users-1" / "append").exists()
    assert (
        offsetfs("create", log, "users", "-o", "retention.ms=1", "--if-not-exists", "--partitions", 3).returncode == 32
    )
    offsetfs("umount", mnt)
    offsetfs("mount", log, mnt)
    refused = offsetfs("create", log, "more")
    assert refused.returncode == 32 and "without -o create" in refused.stderr


@pytest.mark.parametrize("second", ["SIGTERM", "SIGINT"])
def test_a_second_signal_does_not_break_the_drain(log: Path, mnt: Path, second: str) -> None:
    offsetfs("mount", log, mnt, "-o", "linger-ms=60000,flush-ms=off")
    (mount,) = status(mnt)["mounts"]
    lines = b"".join(b"%d\n" % number for number in range(100_000))
    append = os.open(mnt / "orders-0" / "append", os.O_WRONLY)
    position = 0
    while position < len(lines):
        position += os.write(append, lines[position:])
    daemon = os.pidfd_open(mount["pid"])
    for name in ("SIGTERM", second, second):
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(daemon, getattr(signal, name))
    assert select.select([daemon], [], [], 30)[0]
    os.close(daemon)
    with pytest.raises(OSError, match="not connected"):  # the daemon is gone
        os.close(append)
    assert values(log) == lines.split()
    assert (log / ".kafka_cleanshutdown").exists() and not os.path.ismount(mnt)
