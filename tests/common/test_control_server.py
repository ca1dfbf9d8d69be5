"""Commands that a process carries out for others of the same user."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from offsetfs.common.control_server import ControlServer
from offsetfs.storage import LogDirectory

pytestmark = pytest.mark.unit


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ControlServer]:
    (tmp_path / "logs").mkdir()
    directory = LogDirectory.open(str(tmp_path / "logs"))
    with contextlib.closing(directory), contextlib.closing(ControlServer(directory, str(tmp_path / "socket"))) as found:
        yield found


async def answer(server: ControlServer, request: Any) -> dict[str, object]:
    return await server._answer(json.dumps(request).encode())


@pytest.mark.parametrize(
    "request_of",
    [
        [],
        {"action": "create", "partitions": ["t-0"]},
        {"action": "create", "partitions": ["t-0"], "properties": {"retention.ms": 1}},
        {"action": "delete_records", "partitions": ["t-0", "t-1"], "offset": 1},
    ],
)
async def test_a_request_that_is_none_is_not_known(server: ControlServer, request_of: Any) -> None:
    assert "does not know the request" in str((await answer(server, request_of))["failure"])


@pytest.mark.expect_log("a command failed")
@pytest.mark.parametrize("error", [KeyError, TypeError, ValueError])
async def test_a_mistake_of_ours_is_logged_and_said(
    server: ControlServer, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """It was answered as if the request were not known, and not logged."""

    def fail(*_: object) -> None:
        raise error("ours")

    monkeypatch.setattr(LogDirectory, "create_partitions", fail)
    found = await answer(server, {"action": "create", "partitions": ["t-0"], "properties": {}})
    assert "internal error" in str(found["failure"])
