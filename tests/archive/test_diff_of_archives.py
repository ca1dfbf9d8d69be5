"""`offsetfs diff` of a directory and its archive."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from fixtures.logs import archived_logs

from offsetfs.archive.object_store import ObjectStore
from offsetfs.cli import run

pytestmark = pytest.mark.interop


def test_an_archive_equals_its_directory_and_keeps_what_that_loses(
    store: ObjectStore, golden_copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archived_logs.archive(store, golden_copy)
    shutil.rmtree(golden_copy / "codec-none-0")
    assert run(["diff", str(golden_copy), store.url, "--json"]) == 1
    printed = json.loads(capsys.readouterr().out)
    results = {row["partition"]: row["result"] for row in printed["tables"]["partitions"]}
    assert results.pop("codec-none-0") == "only in B"
    assert len(results) > 5
    assert set(results.values()) == {"equal"}
    assert run(["diff", str(golden_copy), store.url, "--common", "--quick"]) == 0
