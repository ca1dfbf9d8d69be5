"""A log whose head is only in the remote storage of its broker: each command that shows it says what is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from remote_heads import NOTE, make_log_with_remote_head

from offsetfs.cli import run

pytestmark = pytest.mark.unit


@pytest.fixture
def log(tmp_path: Path) -> str:
    return str(make_log_with_remote_head(tmp_path / "log"))


def test_each_command_names_what_is_only_in_remote_storage(log: str, capfd: pytest.CaptureFixture[str]) -> None:
    def said(*arguments: str) -> tuple[str, str]:
        assert run(arguments) == 0
        shown = capfd.readouterr()
        return shown.out, shown.err

    assert f"orders-0: {NOTE}\n" in said("verify", log)[0]
    assert json.loads(said("verify", log, "--json")[0].splitlines()[-1])["remote_storage"] == {"orders-0": NOTE}
    assert NOTE in said("status", log)[0]
    assert json.loads(said("cat", log, "orders-0/info")[0])["remote_start_offset"] == 3
    for name in ("values", "records.ndjson"):
        out, err = said("cat", log, f"orders-0/{name}")
        assert "value 10" in out and err == (
            f"offsetfs cat: - open orders-0/{name}: {NOTE}; a consumer of the cluster reads them\n"
        )
    out, err = said("sql", log, "SELECT count(*) FROM orders")
    assert "2" in out and err == f"offsetfs sql: orders-0: {NOTE}\n"


@pytest.mark.parametrize("options", [["--dry-run"], []])
def test_clean_names_the_records_that_its_broker_removes(
    log: str, options: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["clean", log, *options]) == 0
    assert capfd.readouterr().err == f"orders-0: {NOTE}; its broker removes its segments\n"
