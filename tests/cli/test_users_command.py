"""`offsetfs users`: who can log in, without a server and through one."""

from __future__ import annotations

import fcntl
import io
import json
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from offsetfs.cli import exit_codes, run
from offsetfs.cli.commands import users
from offsetfs.common.security.scram_keys import ScramMechanism
from offsetfs.kafka.broker.sasl.scram_credentials import is_password
from offsetfs.storage.security import SecurityStore

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
BOTH = {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096}

Typed = Callable[[bytes], None]
Said = Callable[..., tuple[int, str, str]]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Gives standard input its content."""
    return lambda content: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """Runs `offsetfs users`; returns its exit code and output."""

    def said(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        return run(["users", *map(str, words)]), *capsys.readouterr()

    return said


def listed(logs: Path, capsys: pytest.CaptureFixture[str]) -> object:
    capsys.readouterr()
    assert run(["users", str(logs), "--json"]) == exit_codes.DONE
    return json.loads(capsys.readouterr().out)


def has_password(logs: Path, name: str, mechanism: ScramMechanism, password: bytes) -> bool:
    found = SecurityStore(str(logs), read_only=True).image.credentials
    return is_password(mechanism, password, found[name, mechanism.value])


@pytest.mark.unit
def test_a_user_is_added_changed_and_removed(logs: Path, typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(logs, capsys) == {}
    typed(b"one secret\n")
    assert run(["users", str(logs), "add", "alice"]) == exit_codes.DONE
    typed("zwölf".encode())
    assert run(["users", str(logs), "add", "b\nb"]) == exit_codes.DONE
    assert listed(logs, capsys) == {"alice": BOTH, "b\nb": BOTH}
    assert all(has_password(logs, "alice", each, b"one secret") for each in ScramMechanism)
    assert all(has_password(logs, "b\nb", each, "zwölf".encode()) for each in ScramMechanism)

    typed(b"another\r\n")
    assert run(["users", str(logs), "add", "alice", "--mechanism", "SCRAM-SHA-512", "--iterations", "5000"]) == 0
    warning = "offsetfs users: warning: alice keeps its earlier password for SCRAM-SHA-256\n"
    assert capsys.readouterr() == ("", warning)
    assert has_password(logs, "alice", SHA_256, b"one secret") and has_password(logs, "alice", SHA_512, b"another")

    assert run(["users", str(logs), "remove", "alice", "--mechanism", "SCRAM-SHA-256"]) == exit_codes.DONE
    assert run(["users", str(logs), "remove", "alice", "--mechanism", "SCRAM-SHA-256"]) == exit_codes.WRONG_CALL
    assert "has no password of alice (SCRAM-SHA-256); offsetfs users " in capsys.readouterr().err
    assert run(["users", str(logs), "remove", "alicia"]) == exit_codes.WRONG_CALL
    assert capsys.readouterr().err.endswith("; did you mean alice?\n")
    assert run(["users", str(logs)]) == exit_codes.DONE
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "alice  SCRAM-SHA-512 (5000 iterations)",
        "b\\nb   SCRAM-SHA-256 (4096 iterations), SCRAM-SHA-512 (4096 iterations)",
    ]
    assert run(["users", str(logs), "remove", "alice"]) == exit_codes.DONE
    assert listed(logs, capsys) == {"b\nb": BOTH}


@pytest.mark.unit
@pytest.mark.parametrize(
    ("words", "content", "sentence"),
    [
        (["add"], b"", "give the name of the user: offsetfs users "),
        (["add", ""], b"", "the name of a user has 1 to 1024 bytes"),
        (["add", "a" * 1025], b"", "the name of a user has 1 to 1024 bytes"),
        (["remove", "a\udcff"], b"", "the name is not UTF-8"),
        (["add", "a"], b"", "a password has 1 to 1024 bytes"),
        (["add", "a"], b"\n", "a password has 1 to 1024 bytes"),
        (["add", "a"], b"x" * 1025, "a password has 1 to 1024 bytes"),
        (["add", "a"], b"one\ntwo\n", "standard input has more than one line; give the password alone"),
        (["add", "a"], b"\xff\n", "the password is not UTF-8"),
        (["add", "a", "--iterations", "4095"], b"x", "must be from 4096 to 16384"),
        (["add", "a", "--mechanism", "PLAIN"], b"x", "is not one of 'SCRAM-SHA-256', 'SCRAM-SHA-512'"),
        (["change", "a"], b"x", "'change' is not one of 'add', 'remove'"),
    ],
)
def test_a_wrong_call_changes_nothing(
    logs: Path, typed: Typed, said: Said, words: list[str], content: bytes, sentence: str
) -> None:
    typed(content)
    code, out, err = said(logs, *words)
    assert (code, out) == (exit_codes.WRONG_CALL, "")
    assert sentence in err
    assert os.listdir(logs) == []


@pytest.mark.unit
@pytest.mark.security("A password is never an argument of a command.")
def test_there_is_no_argument_for_a_password(logs: Path, said: Said) -> None:
    names = [each.name or "" for each in users.command.params]
    assert names and not [each for each in names if "password" in each]
    code, _, err = said(logs, "add", "alice", "secret")
    assert code == exit_codes.WRONG_CALL
    assert "unexpected extra argument" in err


@pytest.mark.unit
def test_a_broker_of_the_directory_is_mentioned(logs: Path, typed: Typed, said: Said) -> None:
    (logs / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=abc\n")
    typed(b"secret")
    code, _, err = said(logs, "add", "alice")
    assert code == exit_codes.DONE
    assert "belongs to a broker, which does not read this change; only offsetfs uses it" in err


@pytest.mark.mount
def test_a_terminal_is_asked_twice_and_does_not_show_the_password(logs: Path) -> None:
    ours, terminal = os.openpty()
    command = [sys.executable, "-m", "offsetfs", "users", str(logs), "add", "alice"]

    def begin() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    with subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True, preexec_fn=begin
    ) as process:
        os.close(terminal)
        shown = b""
        for answer in (b"one secret\n", b"one secret\n"):
            while not shown.endswith((b"Password: ", b"The same again: ")):
                shown += os.read(ours, 1 << 10)
            os.write(ours, answer)
            shown += os.read(ours, 1 << 10)  # the end of the line
        assert process.wait(60) == 0
    os.close(ours)
    assert b"secret" not in shown
    assert has_password(logs, "alice", SHA_256, b"one secret")


@pytest.fixture
def server(logs: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "offsetfs", "serve", str(logs), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "is served at" in process.stdout.readline()
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@pytest.mark.mount
def test_users_are_changed_through_the_process_that_serves_the_directory(
    logs: Path, server: subprocess.Popen[str], typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(b"one secret\n")
    assert run(["users", str(logs), "add", "alice"]) == exit_codes.DONE
    assert listed(logs, capsys) == {"alice": BOTH}
    assert has_password(logs, "alice", SHA_512, b"one secret")
    assert run(["users", str(logs), "remove", "alice", "--mechanism", "SCRAM-SHA-512"]) == exit_codes.DONE
    assert run(["users", str(logs), "remove", "bob"]) == exit_codes.WRONG_CALL
    assert listed(logs, capsys) == {"alice": {"SCRAM-SHA-256": 4096}}
