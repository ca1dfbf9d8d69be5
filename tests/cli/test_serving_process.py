"""Commands reach the process of `offsetfs serve`: it does the same as they would do in the directory."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from offsetfs.cli import exit_codes, run
from offsetfs.cli.mounts import daemon_registry, serving_process
from offsetfs.storage import BatchBuilder, LogDirectory, TopicPartition

pytestmark = pytest.mark.mount

RECORDS = 10


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    path = tmp_path / "logs"
    path.mkdir()
    directory = LogDirectory.open(str(path))
    log = directory.create_partition(TopicPartition("old", 0))
    for _ in range(RECORDS):
        builder = BatchBuilder(1 << 10)
        builder.append(None, b"one", (), 1_795_266_300_000)
        log.append(builder.seal())
    directory.close()
    return path


@pytest.fixture
def server(logs: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "offsetfs", "serve", str(logs), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "is served at" in process.stdout.readline()
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_commands_work_through_the_process_that_serves_the_directory(
    logs: Path, server: subprocess.Popen[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["create", str(logs), "new", "--partitions", "2", "-o", "retention.ms=-1"]) == exit_codes.DONE
    assert {"new-0", "new-1", "old-0"} <= set(os.listdir(logs))
    assert json.loads((logs / ".offsetfs-topics.json").read_text())
    assert run(["create", str(logs), "new", "--partitions", "3", "--if-not-exists"]) == exit_codes.DONE
    assert (logs / "new-2").is_dir()
    assert run(["config", str(logs), "new", "segment.ms=1000"]) == exit_codes.DONE
    capsys.readouterr()

    assert run(["delete-records", str(logs), "old-0=4", "--yes"]) == exit_codes.DONE
    expected = "old-0: deletes offsets 0 to 3; 6 records remain\nold-0: begins at 4\n"
    assert capsys.readouterr().out == expected

    assert run(["delete", str(logs), "new", "--yes"]) == exit_codes.DONE
    assert not any(each in os.listdir(logs) for each in ("new-0", "new-1", "new-2"))
    capsys.readouterr()

    assert run(["status", str(logs)]) == exit_codes.DONE
    assert f"by process {server.pid}" in capsys.readouterr().out
    assert run(["truncate", str(logs), "old-0", "5", "--yes"]) != exit_codes.DONE
    assert f"stop it first (kill {server.pid})" in capsys.readouterr().err


def test_a_failure_in_the_process_is_that_of_the_command(
    logs: Path, server: subprocess.Popen[str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = serving_process.serving_process(str(logs))
    assert found is not None and found.pid == server.pid
    assert run(["delete-records", str(logs), "old-0=11", "--yes"]) == exit_codes.FAILED
    assert "old-0=11: the partition contains offsets 0 to 9" in capsys.readouterr().err
    for request in (b"\n", b"[]\n", b'{"action": "x"}\n', b'{"action": "create"}\n', b"\xff\n"):
        with socket.socket(socket.AF_UNIX) as stream:
            stream.connect(serving_process.socket_path(found.pid, found.registry))
            stream.sendall(request)
            assert "does not know the request" in stream.recv(1 << 16).decode()


def test_a_process_that_does_not_answer_ends_the_command_with_its_pid(
    logs: Path, server: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serving_process, "ANSWER_S", 0.5)
    server.send_signal(signal.SIGSTOP)
    try:
        assert run(["create", str(logs), "new"]) == exit_codes.FAILED
    finally:
        server.send_signal(signal.SIGCONT)
    expected = f"no answer of process {server.pid} within 0.5 s; it may carry out the command later"
    assert expected in capsys.readouterr().err


def test_the_record_of_a_process_that_was_killed_misleads_no_command(
    logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    serving_process.register(str(logs), ("127.0.0.1:1",))
    try:
        assert serving_process.serving_process(str(logs)) is None, "this process does not hold the lock"
        directory = LogDirectory.open(str(logs))
        assert serving_process.serving_process(str(logs)) is not None
        path = Path(daemon_registry.own_directory()) / f"serve-{os.getpid()}.json"
        path.write_text(path.read_text().replace('"started": ', '"started": 1'))
        assert serving_process.serving_process(str(logs)) is None, "another process had this pid"
        directory.close()
    finally:
        serving_process.unregister()
    assert run(["create", str(logs), "new"]) == exit_codes.DONE
