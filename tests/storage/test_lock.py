"""The lock file of a log directory belongs to the owner of the directory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import offsetfs
from offsetfs.cli import run
from offsetfs.storage.errors import LogDirectoryLocked
from offsetfs.storage.lock import NAME, DirectoryLock, writer_of

pytestmark = pytest.mark.unit

KAFKA = 64123
"""The user and group id of a broker; no such user has to exist."""

_LOCK_AS_A_BROKER = """
import fcntl, os, sys
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
with open(sys.argv[1], "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
"""


def opens_as_kafka(log: Path) -> bool:
    command = [sys.executable, "-c", _LOCK_AS_A_BROKER, str(log / NAME), str(KAFKA)]
    return subprocess.run(command, check=False, cwd="/").returncode == 0


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log directory of another user, below directories that this user may pass."""
    path = tmp_path / "log"
    path.mkdir()
    os.chown(path, KAFKA, KAFKA)
    for parent in (tmp_path, *tmp_path.parents):
        if not parent.stat().st_mode & 0o001:
            parent.chmod(0o755)
    return path


@pytest.mark.parametrize("was_there", [False, True], ids=["made now", "left behind as root's"])
def test_a_lock_file_that_root_makes_belongs_to_the_owner_of_the_directory(log: Path, was_there: bool) -> None:
    if was_there:
        (log / NAME).touch(0o640)
        assert not opens_as_kafka(log)
    lock = DirectoryLock(str(log))
    lock.acquire()
    status = (log / NAME).stat()
    assert (status.st_uid, status.st_gid) == (KAFKA, KAFKA)
    assert not opens_as_kafka(log), "the lock is held"
    lock.release()
    assert opens_as_kafka(log)


def test_what_root_hands_over_can_be_locked_and_opened_by_the_broker(
    log: Path, tmp_path: Path, golden_copy: Path
) -> None:
    shutil.copytree(golden_copy, log, dirs_exist_ok=True)
    for path in (log, *log.rglob("*")):
        os.chown(path, KAFKA, KAFKA)
    ours = tmp_path / "ours"
    ours.mkdir()
    assert run(["create", str(ours), "empty"]) == 0
    with offsetfs.open(ours, "a") as directory:
        directory.partition("empty-0").append(b"one")
    assert run(["hand-over", str(ours), "empty-0", str(log)]) == 0
    assert {path.stat().st_uid for path in log.rglob("*")} == {KAFKA}
    assert opens_as_kafka(log)


def test_commands_of_root_leave_a_directory_that_its_owner_can_lock(log: Path) -> None:
    for command in (
        ["create", str(log), "orders"],
        ["config", str(log), "orders", "retention.ms=-1"],
        ["clean", str(log)],
    ):
        assert run(command) == 0
        owners = {path.name: path.stat().st_uid for path in log.rglob("*")}
        assert set(owners.values()) == {KAFKA}, owners
    assert opens_as_kafka(log)


_LOCK_AS_KAFKA = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
"""


def a_broker_gets(lock_file: Path) -> bool:
    command = [sys.executable, "-c", _LOCK_AS_KAFKA, str(lock_file)]
    return subprocess.run(command, check=False, cwd="/", stderr=subprocess.DEVNULL).returncode == 0


def test_a_second_opening_in_the_same_process_leaves_the_lock_against_a_broker(tmp_path: Path) -> None:
    """The kernel drops the POSIX locks of a process when the process closes any descriptor of the file."""
    first, second = DirectoryLock(str(tmp_path)), DirectoryLock(str(tmp_path))
    first.acquire()
    with pytest.raises(LogDirectoryLocked) as refused:
        second.acquire()
    assert refused.value.pid == os.getpid()
    assert not a_broker_gets(tmp_path / NAME)
    first.release()
    second.acquire()
    assert not a_broker_gets(tmp_path / NAME)
    second.release()
    assert a_broker_gets(tmp_path / NAME)


def test_asking_for_the_holder_in_its_own_process_keeps_the_lock(tmp_path: Path) -> None:
    lock = DirectoryLock(str(tmp_path))
    lock.acquire()
    assert writer_of(str(tmp_path)) == os.getpid()
    assert not a_broker_gets(tmp_path / NAME)
    lock.release()
    assert writer_of(str(tmp_path)) is None
