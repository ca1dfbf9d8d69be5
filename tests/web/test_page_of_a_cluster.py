"""`offsetfs web kafka://…`: which topics are copied, and what is said before."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.browser.web_process import web_process
from fixtures.machine.waiting import LIMIT_S

import offsetfs
from offsetfs.cli import exit_codes, run

pytestmark = pytest.mark.unit


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A cluster with three topics; the cache of this user is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "source"
    path.mkdir()
    with offsetfs.open(path, "a") as directory:
        for topic in ("orders", "payments", "users"):
            directory.create(topic)[0].append(f"a record of {topic}".encode())
    with offsetfs.serve(path) as running:
        yield f"kafka://{running.bootstrap_servers}/"


def test_named_topics_of_a_cluster_are_shown_and_no_others(
    url: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with web_process(url, "orders", "users") as (_, address):
        place, _, token = address.partition("/?token=")

        def asked(path: str) -> object:
            request = urllib.request.Request(f"{place}{path}", headers={"authorization": f"Bearer {token}"})
            with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
                return json.load(answer)

        found = asked("/api/overview")
        assert isinstance(found, dict)
        assert [each["topic"] for each in found["topics"] if not each["is_internal"]] == ["orders", "users"]
        records = asked("/api/records?topic=orders")
        assert isinstance(records, dict) and records["records"][0]["value"]["content"] == "a record of orders"
        command = asked("/api/command?topic=orders")
        assert isinstance(command, dict) and url in command["command"]
    assert "copying about " in capfd.readouterr().err
    for words, limit, code, expected in (
        ((url, "nothing"), 1, exit_codes.WRONG_CALL, "nothing: "),
        ((url,), 1, exit_codes.WRONG_CALL, "3 topics would be copied: "),
        (("/tmp", "orders"), 1, exit_codes.WRONG_CALL, "topics are named for a cluster"),
    ):
        monkeypatch.setattr("offsetfs.cli.commands.web.UNNAMED_BYTES_MAX", limit)
        assert run(["web", *words, "--listen", "127.0.0.1:0"]) == code
        out, err = capfd.readouterr()
        assert out == "" and expected in err and err.count("\n") == 1, err
