"""The exit codes of errors of the system, of disks and of object storage: the same cause has the same code."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from offsetfs.archive.store_libraries import MissingBucket
from offsetfs.cli import exit_codes, run
from offsetfs.cli.arguments.archives import exit_code
from offsetfs.fs.mounting import descriptor_limits

pytestmark = pytest.mark.unit

URL = "s3://backup/kafka"


@pytest.mark.parametrize(
    ("number", "about", "code"),
    [
        (errno.EACCES, URL, exit_codes.WRONG_CALL),
        (errno.ENOTEMPTY, URL, exit_codes.WRONG_CALL),
        (errno.ENOTSUP, URL, exit_codes.WRONG_CALL),
        (errno.EINVAL, URL, exit_codes.WRONG_CALL),
        (errno.ENOENT, URL, exit_codes.WRONG_CALL),
        (errno.ENOENT, "s3://backup", exit_codes.WRONG_CALL),
        (errno.ENOENT, f"{URL}/orders-0/7", exit_codes.FAILED),
        (errno.EINVAL, f"{URL}/orders-0/7", exit_codes.FAILED),
        (errno.EINVAL, "/restored/restore-journal", exit_codes.FAILED),
        (errno.EEXIST, "/restored/orders-0", exit_codes.FAILED),
        (errno.ESTALE, URL, exit_codes.FAILED),
        (errno.EIO, URL, exit_codes.SYSTEM),
        (errno.ENOSPC, "/restored", exit_codes.SYSTEM),
    ],
)
def test_an_error_of_an_archive_has_the_code_of_its_cause(number: int, about: str, code: int) -> None:
    for url in URL, f"{URL}/":
        assert exit_code(OSError(number, os.strerror(number), about), url) == code


def test_a_missing_bucket_is_a_wrong_call_whatever_object_was_asked_for() -> None:
    error = MissingBucket(errno.ENOENT, "there is no such bucket", f"{URL}/offsetfs-archive.json")
    assert exit_code(error, URL) == exit_codes.WRONG_CALL


def test_a_missing_permission_is_a_wrong_call_for_every_command() -> None:
    for number, code in (
        (errno.EACCES, exit_codes.WRONG_CALL),
        (errno.EPERM, exit_codes.WRONG_CALL),
        (errno.ENOSPC, exit_codes.SYSTEM),
        (errno.EIO, exit_codes.SYSTEM),
    ):
        assert exit_codes.of_os_error(OSError(number, os.strerror(number))) == code
        assert exit_codes.of_output(OSError(number, os.strerror(number))) == code
    assert exit_codes.of_output(FileNotFoundError(errno.ENOENT, "No such file or directory")) == exit_codes.WRONG_CALL


# --- short of what the system gives ----------------------------------------------------------------------------------


def test_a_command_that_runs_out_of_memory_ends_with_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    @click.command()
    def hungry() -> None:
        raise MemoryError

    assert run([], hungry, "hungry") == exit_codes.SYSTEM
    assert capsys.readouterr().err == (
        "hungry: out of memory: raise the limit of this process (ulimit -v, a container's memory), or ask for less\n"
    )


@pytest.mark.parametrize("verb", ["mount", "serve"])
def test_a_server_that_may_open_few_files_does_not_start(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(descriptor_limits, "raise_limit", lambda: 20)
    assert run(["create", str(tmp_path), "orders"]) == exit_codes.DONE
    arguments = {
        "mount": [str(tmp_path), str(tmp_path)],
        "serve": [str(tmp_path), "--listen", "127.0.0.1:0"],
    }
    assert run([verb, *arguments[verb]]) == exit_codes.SYSTEM
    cause = "20 open files are allowed, and at least 64 are needed; raise the limit, for example with ulimit -n 1024"
    assert capsys.readouterr().err == f"offsetfs {verb}: {cause}\n"


@pytest.mark.parametrize(
    "words",
    [
        "ls nope",
        "cat nope orders-0/0",
        "append nope orders",
        "config nope",
        "truncate nope orders-0 1",
        "clean nope",
        "dump nope",
        "status nope",
        "serve nope",
        "restore nope 127.0.0.1:1",
        "cat LOG nope-0/0",
        "follow LOG nope",
        "config LOG nope",
        "truncate LOG nope-0 1",
        "delete LOG nope",
        "dump LOG nope",
        "verify LOG nope",
        "restore LOG 127.0.0.1:1 --topic nope",
        "users LOG remove nope",
        "acls LOG remove --topic nope",
    ],
)
def test_a_path_or_name_that_is_not_there_is_a_wrong_call_of_each_command(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["create", "LOG", "orders"]) == exit_codes.DONE
    capsys.readouterr()
    assert run(words.split()) == exit_codes.WRONG_CALL
    printed = capsys.readouterr().err
    assert "nope" in printed or "has no " in printed
    assert printed.count("\n") == 1


@pytest.mark.parametrize("verb", ["verify", "repair"])
def test_a_command_whose_code_for_findings_is_1_has_2_for_a_missing_directory(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([verb, f"{tmp_path}/nope"]) == exit_codes.SYSTEM
    reason = "there is no such directory; give a log directory"
    assert capsys.readouterr().err == f"offsetfs {verb}: {tmp_path}/nope: {reason}\n"


@pytest.mark.long
def test_the_process_ends_after_its_threads_and_with_all_that_was_written() -> None:
    """`main` ends the process without taking Python's modules apart; nothing else of an end is left out."""
    program = (
        "import atexit, sys, threading\n"
        "from offsetfs import cli\n"
        "def later():\n"
        "    threading.main_thread().join()\n"
        "    sys.stdout.write('thread\\n'); sys.stdout.flush()\n"
        "def run(arguments):\n"
        "    atexit.register(lambda: print('atexit', flush=True))\n"
        "    threading.Thread(target=later).start()\n"
        "    sys.stdout.write('x' * 100_000 + '\\n')\n"
        "    return 32\n"
        "cli.run = run\n"
        "cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (32, "")
    assert done.stdout.splitlines() == ["x" * 100_000, "thread", "atexit"]
