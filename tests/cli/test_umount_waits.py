"""`offsetfs umount` and systemd while a drain takes long: a disk that takes seconds for a sync, by strace."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fixtures.mounts.left_mounts import take_away

pytestmark = pytest.mark.mount

OFFSETFS = [sys.executable, "-m", "offsetfs"]
SYNC_SECONDS = 3

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.mkdir()
    subprocess.run([*OFFSETFS, "create", path, "orders"], check=True)
    return path


@pytest.fixture
def mnt(tmp_path: Path) -> Path:
    (tmp_path / "mnt").mkdir()
    return tmp_path / "mnt"


@pytest.fixture
def slow_mount(log: Path, mnt: Path) -> Iterator[Start]:
    """Mount in the foreground; once it answers the first sync of each thread takes seconds."""
    if shutil.which("strace") is None:
        pytest.skip("strace makes the disk slow, and is not there")
    with contextlib.ExitStack() as stack:

        def start(**environment: str) -> subprocess.Popen[bytes]:
            command = [*OFFSETFS, "mount", "-f", str(log), str(mnt), "-o", "linger-ms=60000,flush-ms=off"]
            daemon = subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, **environment})
            stack.callback(_end, daemon, mnt)
            assert _reads(daemon, b" is mounted at ")
            slow = ["strace", "-f", "-p", str(daemon.pid), "-o", os.devnull, "-e", "trace=fsync"]
            slow += ["-e", f"inject=fsync:delay_enter={SYNC_SECONDS}s:when=1"]
            tracer = subprocess.Popen(slow, stderr=subprocess.PIPE)
            stack.callback(_end, tracer, mnt)
            if not _reads(tracer, b" attached"):
                pytest.skip("strace may not attach to processes here")
            return daemon

        yield start


def _reads(process: subprocess.Popen[bytes], word: bytes) -> bool:
    """Read what a process says until `word` comes; False when it ends before."""
    assert process.stderr is not None
    return any(word in line for line in process.stderr)


def _end(process: subprocess.Popen[bytes], mnt: Path) -> None:
    if os.path.ismount(mnt):
        subprocess.run(["umount" if os.geteuid() == 0 else "fusermount3", "-l", mnt], check=False)
    assert process.stderr is not None
    process.stderr.read()
    process.wait(timeout=60)
    process.stderr.close()


def append(mnt: Path) -> None:
    with open(mnt / "orders-0" / "append", "ab", buffering=0) as file:
        file.write(b"one\ntwo\n")


def test_a_script_sees_the_remaining_work_and_that_all_records_are_on_disk(slow_mount: Start, mnt: Path) -> None:
    slow_mount()
    append(mnt)
    result = subprocess.run([*OFFSETFS, "umount", mnt], capture_output=True, text=True, check=False, timeout=60)
    said = result.stderr.splitlines()
    assert result.returncode == 0
    assert said[0].startswith("offsetfs umount: waiting for process ")
    assert said[0].endswith(("not on disk yet", "closing the logs"))
    assert said[-1] == f"offsetfs umount: {mnt} is unmounted, everything is on disk"


def test_on_a_terminal_the_line_is_rewritten(slow_mount: Start, mnt: Path) -> None:
    slow_mount()
    append(mnt)
    ours, terminal = pty.openpty()
    with subprocess.Popen([*OFFSETFS, "umount", mnt], stderr=terminal) as process:
        os.close(terminal)
        said = b""
        with contextlib.suppress(OSError):  # EIO: the other end is closed
            while data := os.read(ours, 4096):
                said += data
        assert process.wait(timeout=60) == 0
    os.close(ours)
    assert said.count(b"\n") == 1 and said.count(b"\r\x1b[Koffsetfs umount: waiting") > 2
    assert said.endswith(f"\r\x1b[Koffsetfs umount: {mnt} is unmounted, everything is on disk\r\n".encode())


def test_a_mount_that_is_quickly_gone_is_taken_away_without_a_word(log: Path, mnt: Path) -> None:
    subprocess.run([*OFFSETFS, "mount", log, mnt], check=True)
    result = subprocess.run([*OFFSETFS, "umount", mnt], capture_output=True, text=True, check=False, timeout=60)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_systemd_is_notified_when_the_mount_answers_and_for_how_long_it_drains(
    slow_mount: Start, mnt: Path, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"{tmp_path}/notify")
        manager.settimeout(60)
        process = slow_mount(NOTIFY_SOCKET=f"{tmp_path}/notify")
        opening = manager.recv(4096).decode().split("\n")
        assert opening[0] == f"STATUS=opening {tmp_path}/log" and opening[1].startswith("EXTEND_TIMEOUT_USEC=")
        heard = opening
        while "READY=1" not in heard:
            heard = manager.recv(4096).decode().split("\n")
        assert heard == ["READY=1", f"STATUS={tmp_path}/log is mounted at {mnt}"]
        assert (mnt / "orders-0").is_dir(), "ready is when it answers"
        append(mnt)
        (daemon,) = _status(mnt)
        os.kill(daemon["pid"], 15)
        stopping = manager.recv(4096).decode().split("\n")
        assert stopping[0] == "STOPPING=1"
        assert re.fullmatch(r"STATUS=ending \(SIGTERM\): 1 batch, [0-9]+ B, not on disk yet", stopping[1])
        draining = manager.recv(4096).decode().split("\n")
        assert draining[0].startswith("STATUS=ending: ") and draining[1] == "EXTEND_TIMEOUT_USEC=60000000"
        assert process.wait(timeout=60) == 0


def _status(mount_point: Path) -> list[dict[str, Any]]:
    said = subprocess.run(
        [*OFFSETFS, "status", mount_point, "--json"], capture_output=True, text=True, check=True
    ).stdout
    mounts: list[dict[str, Any]] = json.loads(said)["mounts"]
    return mounts


def test_umount_names_the_namespace_and_the_bind_mount_that_keep_the_daemon(
    log: Path, mnt: Path, tmp_path: Path
) -> None:
    """It claimed to write everything to disk, for minutes: the daemon serves every mount of its file system."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a mount namespace of its own takes root and unshare")
    bound = tmp_path / "bound"
    bound.mkdir()
    subprocess.run([*OFFSETFS, "mount", log, mnt], check=True)
    apart = ["unshare", "--mount", "--propagation", "private", "--", "sh", "-c", "echo; exec cat"]
    with contextlib.ExitStack() as stack:
        stack.callback(take_away, [str(mnt), str(bound)])
        holder = stack.enter_context(subprocess.Popen(apart, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        assert holder.stdin is not None and holder.stdout is not None
        if holder.stdout.read(1) != b"\n":
            pytest.skip("this place allows no mount namespaces")
        subprocess.run(["mount", "--bind", mnt, bound], check=True)
        umount = stack.enter_context(subprocess.Popen([*OFFSETFS, "umount", mnt], stderr=subprocess.PIPE))
        stack.callback(take_away, [str(bound)])
        stack.callback(holder.stdin.close)
        assert umount.stderr is not None
        namespace = f"the mount namespace of cat (pid {holder.pid}, {mnt})"
        assert f"still mounted in {bound}, {namespace}; unmount it there".encode() in umount.stderr.readline()
        subprocess.run(["umount", bound], check=True)
        assert _reads(umount, f"still mounted in {namespace}; unmount it there".encode())
        holder.stdin.close()
        assert _reads(umount, b" is unmounted, everything is on disk")
        assert umount.wait() == 0
