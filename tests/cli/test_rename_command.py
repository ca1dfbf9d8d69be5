"""`offsetfs rename`: what it prints, its exit codes, and the remedy of a mount for `mv`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from offsetfs import NewRecord
from offsetfs import open as open_log
from offsetfs.cli import exit_codes, run
from offsetfs.storage.directory.directory import LogDirectory

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("fast_disk")]


@pytest.fixture
def log(tmp_path: Path) -> str:
    with open_log(str(tmp_path), "a") as data:
        data.create("orders", 2, {"retention.ms": "-1"})[1].extend([NewRecord(b"value")])
    return str(tmp_path)


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_topic_is_renamed_also_after_a_recovery(log: str, capsys: pytest.CaptureFixture[str], is_clean: bool) -> None:
    if not is_clean:
        os.unlink(f"{log}/.kafka_cleanshutdown")
    assert run(["rename", log, "orders", "sold"]) == exit_codes.DONE
    assert capsys.readouterr().out == "renamed 2 partitions of orders to sold\n"
    with open_log(log) as data:
        assert [record.value for record in data.partition("sold-1").read()] == [b"value"]
    assert sorted(name for name in os.listdir(log) if name[0] != ".") == [
        "log-start-offset-checkpoint", "recovery-point-offset-checkpoint", "replication-offset-checkpoint",
        "sold-0", "sold-1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("names", "code", "message"),
    [
        (("none", "sold"), exit_codes.WRONG_CALL, "no topic none"),
        (("orders", "a/b"), exit_codes.WRONG_CALL, "topic 'a/b' holds a character other than a-z"),
        (("orders", "orders"), exit_codes.WRONG_CALL, "the topic orders exists already"),
        (("orders", "__consumer_offsets"), exit_codes.FAILED, "whose name is fixed"),
    ],
)
def test_a_wrong_call_changes_nothing(
    log: str, capsys: pytest.CaptureFixture[str], names: tuple[str, str], code: int, message: str
) -> None:
    assert run(["rename", log, *names]) == code
    assert message in capsys.readouterr().err
    with open_log(log) as data:
        assert [each.name for each in data.partitions()] == ["orders-0", "orders-1"]


def test_a_directory_that_is_in_use_is_refused(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    directory = LogDirectory.open(log)
    assert run(["rename", log, "orders", "sold"]) != exit_codes.DONE
    assert log in capsys.readouterr().err
    directory.close()
