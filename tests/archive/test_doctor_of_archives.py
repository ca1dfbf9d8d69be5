"""`offsetfs doctor` and `offsetfs groups` of an archive."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fixtures.logs import archived_logs

from offsetfs.archive.object_store import ObjectStore
from offsetfs.cli import run

pytestmark = pytest.mark.interop


def test_a_healthy_archive_has_no_findings_and_its_groups_have_the_same_lag(
    store: ObjectStore, golden_copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archived_logs.archive(store, golden_copy)
    assert run(["doctor", store.url, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["findings"] == [] and answer["unseen"] == []
    tables = []
    for source in (str(golden_copy), store.url):
        assert run(["groups", source, "billing", "--json"]) == 0
        tables.append(json.loads(capsys.readouterr().out)["tables"])
    assert tables[0] == tables[1] and tables[0]["partitions"]
