"""`offsetfs diff` of what stands beside records: settings of topics, commits of groups, ACLs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from offsetfs.cli import run
from offsetfs.storage import LogDirectory, TopicPartition
from offsetfs.storage.coordinators import OFFSETS_TOPIC, CommittedOffset, commit_key, commit_value
from offsetfs.storage.records.format.batch import build

pytestmark = pytest.mark.unit

ORDERS = TopicPartition("orders", 0)


def made(path: Path, settings: Mapping[str, str], commits: Mapping[str, int]) -> Path:
    path.mkdir()
    directory = LogDirectory.open(str(path))
    directory.create_partition(ORDERS, settings)
    log = directory.create_partition(TopicPartition(OFFSETS_TOPIC, 0))
    for group, offset in commits.items():
        value = commit_value(CommittedOffset(offset, -1, "", 1_795_000_000_000))
        record = (commit_key(group, ORDERS), value, (), 1_795_000_000_000)
        log.append_replicated(bytes(build([record], base_offset=log.next_offset)))
    directory.close()
    return path


def compared(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = run(["diff", *map(str, words), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_settings_that_differ_are_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = made(tmp_path / "a", {"retention.ms": "5", "segment.bytes": "1000000"}, {})
    b = made(tmp_path / "b", {"retention.ms": "7", "segment.bytes": "1000000"}, {})
    code, printed = compared(capsys, a, b)
    assert code == 1
    assert printed["tables"]["settings"] == [{"topic": "orders", "name": "retention.ms", "a": "5", "b": "7"}]
    assert [each["kind"] for each in printed["findings"]] == ["settings-differ"]
    assert compared(capsys, a, b, "--only", "records")[0] == 0
    assert compared(capsys, a, made(tmp_path / "c", {}, {}))[0] == 0


def test_commits_of_groups_that_both_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = made(tmp_path / "a", {}, {"billing": 4, "same": 2, "mine": 1})
    b = made(tmp_path / "b", {}, {"billing": 9, "same": 2})
    code, printed = compared(capsys, a, b, "--only", "groups")
    assert code == 1
    assert printed["tables"]["groups"] == [{"group": "billing", "partition": "orders-0", "a": 4, "b": 9}]
    assert compared(capsys, a, a, "--only", "groups")[0] == 0


def test_acls_that_only_one_side_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = made(tmp_path / "a", {}, {}), made(tmp_path / "b", {}, {})
    for path, names in ((a, ("alice",)), (b, ("alice", "bob"))):
        for name in names:
            words = ["--allow-principal", f"User:{name}", "--operation", "read", "--topic", "orders"]
            assert run(["acls", str(path), "add", *words]) == 0
    code, printed = compared(capsys, a, b, "--only", "acls")
    assert code == 1
    (row,) = printed["tables"]["acls"]
    assert "User:bob" in row["acl"]
    assert (row["a"], row["b"]) == (False, True)
    assert compared(capsys, a, b, "orders", "--only", "records")[0] == 0
