"""`offsetfs config`: shows where each setting comes from, changes all or nothing, and refuses by name."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from offsetfs.cli import exit_codes, run
from offsetfs.storage.directory.directory import LogDirectory

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """No power is cut here: hundreds of syncs would only take time."""
    monkeypatch.setattr(os, "fsync", lambda _fd: None)


@pytest.fixture
def log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert run(["create", str(tmp_path), "orders", "--config", "retention.ms=1000"]) == 0
    assert run(["create", str(tmp_path), "users"]) == 0
    capsys.readouterr()
    return str(tmp_path)


def shown(log: str, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, str]]:
    capsys.readouterr()
    assert run(["config", log, *arguments, "--json"]) == exit_codes.DONE
    found: dict[str, dict[str, str]] = json.loads(capsys.readouterr().out)
    return found


def test_every_setting_is_shown_with_its_origin(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = shown(log, capsys, "orders")
    assert found["retention.ms"] == {"value": "1000", "origin": "topic"}
    assert found["segment.bytes"] == {"value": "1073741824", "origin": "default"}
    assert run(["config", log, "orders"]) == exit_codes.DONE
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["retention.ms", "1000", "topic"] in lines and len(lines) == len(found)


def test_without_a_topic_all_topics_are_shown_with_what_is_their_own(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["config", log]) == exit_codes.DONE
    assert capsys.readouterr().out == "orders: retention.ms=1000\nusers: no settings of its own\n"
    assert shown(log, capsys) == {"orders": {"retention.ms": "1000"}, "users": {}}


def test_settings_are_set_and_taken_away(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", log, "orders", "retention.ms=", "cleanup.policy=compact,delete"]) == exit_codes.DONE
    assert shown(log, capsys)["orders"] == {"cleanup.policy": "compact,delete"}
    directory = LogDirectory.open(log)
    assert directory.config_of("orders").is_compacted
    directory.close()


def test_a_change_is_seen_by_whoever_has_the_directory_open(log: str) -> None:
    directory = LogDirectory.open(log)
    try:
        assert run(["config", log, "orders", "max.message.bytes=4711"]) == exit_codes.DONE
        directory.refresh_config()
        assert directory.config_of("orders").max_message_bytes == 4711
    finally:
        directory.close()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["orders", "retention.msec=1"], "there is no setting 'retention.msec'; the nearest is retention.ms"),
        (["orders", "retention.ms=soon"], "retention.ms is 'soon', legal is a whole number in -1…"),
        (["orders", "segment.bytes=1"], "segment.bytes is 1, legal is a whole number in 14…"),
        (["orders", "segment.bytes"], "segment.bytes: NAME=VALUE is meant"),
        (["orders", "min.compaction.lag.ms=2", "max.compaction.lag.ms=1"], "min.compaction.lag.ms 2 is above max."),
        (["orders", "segment.bytes=1000", "retention.msec=1"], "retention.msec"),
        (["payments", "segment.bytes=1000"], "has no partition of a topic payments"),
        (["payments"], "has no partition of a topic payments"),
        (["no/topic"], "has no partition of a topic no/topic"),
    ],
)
def test_what_is_wrong_is_refused_by_name_and_nothing_changes(
    log: str, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    before = (Path(log) / ".offsetfs-topics.json").read_bytes()
    assert run(["config", log, *arguments]) == exit_codes.WRONG_CALL
    assert sentence in capsys.readouterr().err
    assert (Path(log) / ".offsetfs-topics.json").read_bytes() == before


def test_in_a_brokers_directory_it_warns(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    (Path(log) / "meta.properties").write_text("version=1\n")
    assert run(["config", log, "orders", "retention.ms=5"]) == exit_codes.DONE
    assert "is a broker's, which does not look at these settings" in capsys.readouterr().err


def test_it_writes_nothing_to_show_something(log: str) -> None:
    before = sorted((name, os.stat(os.path.join(log, name)).st_mtime_ns) for name in os.listdir(log))
    assert run(["config", log]) == run(["config", log, "orders"]) == exit_codes.DONE
    assert sorted((name, os.stat(os.path.join(log, name)).st_mtime_ns) for name in os.listdir(log)) == before
