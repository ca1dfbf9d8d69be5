"""A refusal is one line: the cause first, the remedy last, without names of errnos and files of mounts."""

from __future__ import annotations

import errno
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from offsetfs import cli
from offsetfs.cli import exit_codes, preflight, run
from offsetfs.cli.exit_codes import Failure
from offsetfs.cli.mounts.serving_daemon import UNMOUNT_FIRST, in_use
from offsetfs.storage.errors import LogDirectoryLocked

pytestmark = pytest.mark.unit


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "log"
    path.mkdir()
    assert run(["create", os.fspath(path), "orders"]) == exit_codes.DONE
    return os.fspath(path)


@pytest.mark.parametrize(
    ("file", "content", "line"),
    [
        (
            "append",
            b"a" * 2_000_000,
            "max.message.bytes allows 1048588 bytes with the batch header; raise `max.message.bytes` of the topic, or "
            "split the record\n",
        ),
        (
            "append.ndjson",
            b'{"val\n',
            "line 1, byte 6: the line ends before the object does; fix this line, then append",
        ),
    ],
)
def test_a_record_that_is_refused_is_one_line(
    log: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    file: str,
    content: bytes,
    line: str,
) -> None:
    (tmp_path / "input").write_bytes(content)
    with open(tmp_path / "input") as given:
        monkeypatch.setattr("sys.stdin", given)
        assert run(["append", log, f"orders-0/{file}"]) == exit_codes.WRONG_CALL
    printed = capsys.readouterr().err
    assert printed.startswith(f"offsetfs append: orders-0/{file}: ") and line in printed
    assert printed.count("\n") == 1 and "README" not in printed and "Errno" not in printed


def test_the_directory_of_a_partition_has_one_remedy(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ls", f"{log}/orders-0"]) == exit_codes.WRONG_CALL
    reason = f"is the directory of a partition; give its log directory, {log}"
    assert capsys.readouterr().err == f"offsetfs ls: {log}/orders-0: {reason}\n"


@pytest.mark.parametrize("words", [("-m", "offsetfs", "append"), ("/usr/bin/offsetfs", "append")])
def test_a_directory_in_use_by_another_command_names_it(words: tuple[str, ...], log: str) -> None:
    command = [sys.executable, "-c", "print(flush=True) or input()", *words[-2:]]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.readline()  # until then /proc may not have its command line
        failure = in_use(LogDirectoryLocked("in use", path=f"{log}/.lock", pid=process.pid), log, UNMOUNT_FIRST)
    number = process.pid
    assert failure.message == (
        f"{log} is in use by process {number} (offsetfs append): wait until it ends, or stop it (kill {number})"
    )


def test_a_directory_in_use_by_a_broker_has_the_remedy_of_kafka(log: str) -> None:
    failure = in_use(LogDirectoryLocked("in use by process 0", path=f"{log}/.lock", pid=0), log, UNMOUNT_FIRST)
    assert failure.message.endswith("stop it first, or use Kafka's own tools with the running broker")


def test_a_file_of_another_user_names_the_user(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{log}/.kafka_cleanshutdown"
    sentence = cli._os_sentence(PermissionError(errno.EACCES, "Permission denied", path))
    assert sentence == f"{path}: Permission denied"
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    name = cli._os_sentence(PermissionError(errno.EACCES, "Permission denied", path)).rpartition(" ")[2].rstrip(")")
    sentence = cli._os_sentence(PermissionError(errno.EACCES, "Permission denied", path))
    remedy = f"it belongs to user {name}: run the command as this user (sudo -u {name})"
    assert sentence == f"{path}: Permission denied; {remedy}"


@pytest.mark.parametrize(
    ("number", "mode", "remedy"),
    [
        (errno.EPERM, 0o666, "start the container with --device {device}, or work without a mount: offsetfs ls"),
        (errno.EACCES, 0o600, "let all users open it (chmod 666 {device}), or work without a mount: offsetfs ls"),
    ],
)
def test_a_device_that_cannot_be_opened_has_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, mode: int, remedy: str
) -> None:
    device = tmp_path / "fuse"
    device.touch(mode)

    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/fusermount3")
    with pytest.raises(Failure) as raised:
        preflight.check_fuse(os.fspath(device))
    start = f"{device}: {os.strerror(number)}; {remedy.format(device=device)}"
    assert raised.value.message.startswith(start)


def test_a_log_directory_is_no_mount_point(log: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert preflight.hidden_entries(os.fspath(tmp_path / "empty")) == []
    with pytest.raises(Failure, match="is a log directory, which the mount would hide; write offsetfs mount"):
        preflight.hidden_entries(log)


def test_a_missing_package_of_a_job_is_a_system_error_as_of_all_commands(
    log: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert run(["spark", "stats", log]) == exit_codes.SYSTEM
    assert "PySpark is not installed: " in capsys.readouterr().err


def test_a_missing_package_of_a_database_is_a_system_error_as_of_all_commands(
    log: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert run(["table", "sync", log, "postgresql://localhost/x"]) == exit_codes.SYSTEM
    assert "PostgreSQL needs psycopg 3: " in capsys.readouterr().err
