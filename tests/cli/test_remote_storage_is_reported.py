"""A log whose head is only in the remote storage of its broker: each command that shows it says what is missing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from offsetfs import open as open_log
from offsetfs.cli import run

pytestmark = pytest.mark.unit

NOTE = "offsets 3 to 9 are only in the remote storage of its broker, which is not read here"


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "log"
    path.mkdir()
    with open_log(path, "a") as directory:
        (orders,) = directory.create("orders", settings={"segment.bytes": "1000"})
        for number in range(12):
            orders.append(b"value %d" % number + b" " * 900)
    for name in os.listdir(path / "orders-0"):
        if name.startswith("0" * 19) and name[:20] != f"{10:020d}":
            os.remove(path / "orders-0" / name)
    (path / "log-start-offset-checkpoint").write_text("0\n1\norders 0 3\n")
    return str(path)


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
