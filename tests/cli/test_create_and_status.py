"""`offsetfs create` and `offsetfs status`, on directories without a mount."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from offsetfs.cli import exit_codes, run
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition

pytestmark = pytest.mark.unit


def status_of(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["status", os.fspath(path), "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_a_topic_is_created_in_an_empty_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["create", os.fspath(tmp_path), "orders", "--partitions", "3"]) == 0
    partitions = status_of(tmp_path, capsys)["partitions"]
    assert [(each["topic"], each["partition"], each["next_offset"]) for each in partitions] == [
        ("orders", 0, 0),
        ("orders", 1, 0),
        ("orders", 2, 0),
    ]


def test_settings_of_a_topic_stay_with_it(tmp_path: Path) -> None:
    settings = ["-o", "retention.ms=-1", "-o", "cleanup.policy=compact,delete"]
    assert run(["create", os.fspath(tmp_path), "orders", *settings]) == 0
    directory = LogDirectory.open(os.fspath(tmp_path), read_only=True)
    config = directory.config_of("orders")
    directory.close()
    assert (config.retention_ms, sorted(config.cleanup_policy)) == (-1, ["compact", "delete"])


def test_what_is_there_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = os.fspath(tmp_path)
    assert run(["create", log, "orders", "--partitions", "2"]) == 0
    assert run(["create", log, "orders", "--partitions", "4"]) == exit_codes.FAILED
    assert "orders-0 already exists" in capsys.readouterr().err
    assert run(["create", log, "orders", "--partitions", "4", "--if-not-exists"]) == 0
    assert len(status_of(tmp_path, capsys)["partitions"]) == 4


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["no/slash"], "holds a character other than"),
        ([".."], "is not a topic name"),
        (["orders", "-o", "retention.ms"], "-o retention.ms: write NAME=VALUE"),
        (["orders", "-o", "retention.msec=1"], "retention.ms"),
        (["orders", "-o", "retention.ms=soon"], "a whole number, -1 or greater, or a duration such as 7d"),
    ],
)
def test_a_topic_that_cannot_be_is_refused_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert run(["create", os.fspath(tmp_path), *arguments]) == exit_codes.WRONG_CALL
    assert sentence in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("present", "name", "remedy"),
    [
        ([], "x-0", "write offsetfs create LOG x; for a topic named x-0 add --partitions 1"),
        ([], "x-2", "write offsetfs create LOG x --partitions 3; for a topic"),
        ([], "sales-2026", "write offsetfs create LOG sales; for a topic"),
        (["x"], "x-1", "write offsetfs create LOG x --partitions 2 --if-not-exists; for a topic"),
    ],
)
def test_a_topic_named_like_a_partition_is_made_only_with_partitions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], present: list[str], name: str, remedy: str
) -> None:
    log = os.fspath(tmp_path / "log")
    for topic in present:
        assert run(["create", log, topic]) == 0
    before = os.path.exists(log) and os.listdir(log)
    assert run(["create", log, name]) == exit_codes.WRONG_CALL
    assert remedy.replace("LOG", log) in capsys.readouterr().err
    assert (os.path.exists(log) and os.listdir(log)) == before
    assert run(["create", log, name, "--partitions", "1"]) == 0
    assert os.path.isdir(os.path.join(log, f"{name}-0"))


def test_a_directory_of_another_user_is_not_made_a_log_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert run(["create", os.fspath(tmp_path), "orders"]) == exit_codes.WRONG_CALL
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_nothing_is_created_beside_another_writer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    holder = LogDirectory.open(os.fspath(tmp_path))
    try:
        assert run(["create", os.fspath(tmp_path), "orders"]) == exit_codes.FAILED
    finally:
        holder.close()
    said = capsys.readouterr().err
    assert f"in use by process {os.getpid()}" in said and not (tmp_path / "orders-0").exists()


def test_status_shows_what_kafka_wrote(golden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    partitions = status_of(golden, capsys)["partitions"]
    assert partitions and not any("error" in each for each in partitions)
    for each in partitions:
        path = golden / f"{each['topic']}-{each['partition']}"
        logs = list(path.glob("*.log"))
        assert (each["size_bytes"], each["segments"]) == (sum(log.stat().st_size for log in logs), len(logs))
        bounds = golden / f"{path.name}.bounds.json"
        if bounds.exists():
            reported = json.loads(bounds.read_text())
            assert (each["log_start_offset"], each["next_offset"]) == (
                reported["log_start_offset"],
                reported["high_watermark"],
            )


def test_status_in_words_has_a_line_for_each_partition(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["create", os.fspath(tmp_path), "orders", "--partitions", "2"])
    capsys.readouterr()
    assert run(["status", os.fspath(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{tmp_path} is not mounted"
    assert [line.split() for line in lines[2:]] == [["orders-0", "0", "0", "0", "1"], ["orders-1", "0", "0", "0", "1"]]


@pytest.mark.damages
def test_a_partition_that_cannot_be_opened_does_not_hide_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["create", os.fspath(tmp_path), "orders", "--partitions", "2"])
    bad = tmp_path / "orders-0" / "00000000000000000000.log"
    bad.unlink()
    os.mkfifo(bad)
    first, second = status_of(tmp_path, capsys)["partitions"]
    assert "error" in first and second["next_offset"] == 0


def test_a_partition_of_another_topic_is_parsed_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["create", os.fspath(tmp_path), "a-b.c_d-5", "--partitions", "1"])
    (partition,) = status_of(tmp_path, capsys)["partitions"]
    assert TopicPartition(partition["topic"], partition["partition"]) == TopicPartition("a-b.c_d-5", 0)


@pytest.mark.parametrize(
    "words",
    [
        ["create", "LOG", "orders"],
        ["append", "LOG", "orders", "-o", "create"],
        ["mirror", "127.0.0.1:1", "LOG"],
        ["table", "load", "DATABASE", "LOG"],
        ["spark", "import", "FILE", "LOG", "orders", "--partitions", "1"],
        ["serve", "LOG"],
        ["config", "LOG"],
    ],
    ids=" ".join,
)
def test_no_command_creates_the_parents_of_a_log_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    file = f"{tmp_path}/orders.db"
    places = {"LOG": f"{tmp_path}/no/such", "DATABASE": f"sqlite:///{file}", "FILE": file}
    fill_table(tmp_path)
    before = sorted(os.listdir(tmp_path))
    assert run([places.get(word, word) for word in words]) == exit_codes.WRONG_CALL
    assert "there is no such directory" in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == before


def fill_table(path: Path) -> None:
    """Make `orders.db`, with the rows of one topic."""
    log = os.fspath(path / "source")
    assert run(["create", log, "orders"]) == 0
    assert run(["table", "sync", log, f"sqlite:///{path}/orders.db", "--create"]) == 0


def test_a_directory_that_a_silent_command_creates_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["create", os.fspath(tmp_path / "new"), "orders"]) == 0
    assert capfd.readouterr().err == f"offsetfs create: {tmp_path}/new: is a new log directory\n"
    assert run(["create", os.fspath(tmp_path / "new"), "users"]) == 0
    assert capfd.readouterr().err == ""
