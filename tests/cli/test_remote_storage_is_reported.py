"""A log whose head is only in the remote storage of its broker: each command that shows it says what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.logs.remote_heads import NOTE, check_commands, make_log_with_remote_head

from offsetfs.cli import run

pytestmark = pytest.mark.unit


@pytest.fixture
def log(tmp_path: Path) -> str:
    return str(make_log_with_remote_head(tmp_path / "log"))


def test_each_command_names_what_is_only_in_remote_storage(log: str, capfd: pytest.CaptureFixture[str]) -> None:
    check_commands(log, capfd)


@pytest.mark.parametrize("options", [["--dry-run"], []])
def test_clean_names_the_records_that_its_broker_removes(
    log: str, options: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["clean", log, *options]) == 0
    assert capfd.readouterr().err == f"orders-0: {NOTE}; its broker removes its segments\n"
