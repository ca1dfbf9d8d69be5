"""`offsetfs restore` against a broker in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import offsetfs
from offsetfs import cli
from offsetfs.storage import BatchBuilder, LogDirectory, LogReader, TopicPartition

pytestmark = pytest.mark.unit


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    path = tmp_path / "backup"
    path.mkdir()
    directory = LogDirectory.open(str(path))
    log = directory.create_partition(TopicPartition("orders", 0))
    builder = BatchBuilder(1 << 20, log.config.compression)
    for number in range(5):
        builder.append(None, b"%d" % number, (), 1_795_000_000_000 + number * 1000)
    log.append(builder.seal())
    directory.close()
    return path


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "broker").mkdir()
    with offsetfs.serve(tmp_path / "broker") as running:
        yield running.bootstrap_servers


def test_a_topic_is_restored_once(
    backup: Path, broker: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["restore", str(backup), broker, "--dry-run"]) == 0
    assert "orders: would be created with 1 partition\n" in capsys.readouterr().out
    assert cli.run(["restore", str(backup), broker, "--to", "@1795000003"]) == 0
    assert capsys.readouterr().out.startswith("orders: 1 partition, 3 records, ")
    assert cli.run(["restore", str(backup), broker]) == 32
    assert "the cluster has records in orders; delete them there, or append to them" in capsys.readouterr().err
    log = LogDirectory.open(str(tmp_path / "broker"), read_only=True).log(TopicPartition("orders", 0))
    assert b"".join(LogReader(log).values()) == b"0\n1\n2\n"


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["--topic", "("], 1, "--topic: '(' is not a regular expression"),
        (["--to", "tomorrow"], 1, "--to: 'tomorrow' is not a time"),
        (["-o", "retention.ms"], 1, "-o retention.ms: write NAME=VALUE, such as retention.ms=7d"),
        (
            ["--groups", "biling"],
            1,
            "has no consumer group that matches 'biling'; offsetfs ls shows them below groups/",
        ),
        (["--topic", "users"], 1, "has no topic of these names"),
    ],
)
def test_wrong_calls(
    backup: Path, broker: str, words: list[str], code: int, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["restore", str(backup), broker, *words]) == code
    assert reason in capsys.readouterr().err


def test_no_broker_answers(backup: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "client.properties").write_text("default.api.timeout.ms=500\n")  # by default, a minute
    assert cli.run(["restore", str(backup), "127.0.0.1:1", "--config", str(tmp_path / "client.properties")]) == 32
    assert "127.0.0.1:1: Connection refused" in capsys.readouterr().err


def test_while_no_broker_answers_a_line_names_the_address(
    backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("offsetfs.cli.terminal.progress.QUIET_SECONDS", 0.0)
    (tmp_path / "client.properties").write_text("default.api.timeout.ms=500\n")
    assert cli.run(["restore", str(backup), "127.0.0.1:1", "--config", str(tmp_path / "client.properties")]) == 32
    line, last = capsys.readouterr().err.splitlines()
    reason = "offsetfs restore: no broker answers: 127.0.0.1:1: Connection refused; "
    assert line.startswith(reason) and line.endswith("; tried for up to 0.5 s (default.api.timeout.ms)")
    assert last.startswith(reason)
