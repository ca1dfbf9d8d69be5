"""Lakehouse tables from an archive in object storage, and in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import deltalake
import pytest
from fixtures.databases.lake_rows import library_rows
from fixtures.logs.replicated_logs import add
from fixtures.stores import s3_server
from fixtures.stores.s3_server import S3Server

from offsetfs import cli
from offsetfs.cli import exit_codes
from offsetfs.storage import LogDirectory, TopicPartition

pytestmark = pytest.mark.interop

ORDERS = TopicPartition("orders", 0)
VALUES = [b"%d" % number for number in range(100)]


@pytest.fixture(scope="module")
def _server() -> Iterator[S3Server]:
    with s3_server.running() as found:
        yield found


@pytest.fixture(autouse=True)
def _environment(_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in _server.environment().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def logs(tmp_path: Path) -> str:
    path = tmp_path / "logs"
    path.mkdir()
    with closing(LogDirectory.open(str(path))) as directory:
        add(directory.create_partition(ORDERS), 0, *VALUES)
    return str(path)


def more(logs: str) -> None:
    with closing(LogDirectory.open(logs)) as directory:
        add(directory.log(ORDERS), len(VALUES), b"more")


@pytest.mark.parametrize("scheme", ["iceberg", "delta"])
def test_a_table_is_filled_from_an_archive_and_continues_from_its_log(scheme: str, logs: str, tmp_path: Path) -> None:
    archive, place = f"s3://{s3_server.BUCKET}/{scheme}", f"{scheme}:{tmp_path}/lake"
    assert cli.run(["archive", logs, archive]) == 0
    for _ in range(2):
        assert cli.run(["table", "sync", archive, place, "--create"]) == 0
    more(logs)
    assert cli.run(["table", "sync", logs, place]) == 0
    assert [row["_value"] for row in library_rows(place)] == [*VALUES, b"more"]


def test_a_table_of_delta_lake_is_in_object_storage(logs: str) -> None:
    place = f"s3://{s3_server.BUCKET}/tables/orders"
    for _ in range(2):
        assert cli.run(["table", "sync", logs, f"delta:{place}", "--create", "--by-day"]) == 0
    more(logs)
    assert cli.run(["table", "sync", logs, f"delta:{place}"]) == 0
    table = deltalake.DeltaTable(place, storage_options={"allow_http": "true"})
    rows = sorted(table.to_pyarrow_table().to_pylist(), key=lambda row: row["_offset"])
    assert [row["_value"] for row in rows] == [*VALUES, b"more"]


def test_a_refusal_of_object_storage_is_a_line_without_colors(
    logs: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    assert cli.run(["table", "sync", logs, f"delta:s3://{s3_server.BUCKET}/refused", "--create"]) == exit_codes.FAILED
    error = capsys.readouterr().err
    assert error.startswith(f"offsetfs table sync: delta:s3://{s3_server.BUCKET}/refused: ")
    assert error.count("\n") == 1
    assert "x1b" not in error and "\x1b" not in error and "↳" not in error
