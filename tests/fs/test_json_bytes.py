"""`-o json-bytes=base64`: each file with lines of JSON has all keys, values and headers in base64."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from offsetfs import NewRecord
from offsetfs import open as open_log
from offsetfs.cli import run as command
from offsetfs.fs.mounting.in_process_tree import run
from offsetfs.fs.mounting.path_tree import Tree
from offsetfs.fs.options import MountOptions
from offsetfs.storage.directory.directory import LogDirectory

pytestmark = pytest.mark.unit

RECORDS = [
    NewRecord(b"text", key=b"k", headers=(("name", b"v"), ("none", None)), timestamp=1_795_266_300_000),
    NewRecord(b"\xff\n", key=None, timestamp=1_795_266_300_001),
    NewRecord(None, key=b"", timestamp=1_795_266_300_002),
]
FIELDS = ["topic", "partition", "offset", "timestamp", "timestamp_type"]


@pytest.fixture(params=["producer", "gzip"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    with open_log(str(tmp_path), "a") as data:
        data.create("orders", 2, {"compression.type": request.param, "retention.ms": "-1"})[0].extend(RECORDS)
    return str(tmp_path)


def plain(line: dict[str, Any]) -> tuple[Any, ...]:
    """Return key, value and headers of a line; each must be null or base64."""

    def field(holder: dict[str, Any], name: str) -> bytes | None:
        return None if holder.get(name, "") is None else base64.b64decode(holder[f"{name}_b64"])

    headers = tuple(((field(each, "key") or b"").decode(), field(each, "value")) for each in line["headers"])
    return field(line, "key"), field(line, "value"), headers


EXPECTED = [(record.key, record.value, tuple(record.headers)) for record in RECORDS]

PATHS = {
    "orders-0/records.ndjson": [0, 1, 2],
    "orders-0/range/1..3.ndjson": [1, 2],
    "orders-0/last/1.ndjson": [2],
    "orders-0/0.json": [0],
    "orders-0/by-key/k.json": [0],
    "topics/orders/records.ndjson": [0, 1, 2],
    "topics/orders/last/2.ndjson": [1, 2],
}


def test_every_file_has_base64_only_and_its_exact_size(log: str) -> None:
    async def work(tree: Tree) -> dict[str, bytes]:
        found = {}
        for path in PATHS:
            async with tree.open(path) as file:
                found[path] = bytes(await file.read(0, 1 << 20))
            assert (await tree.find(path)).size == len(found[path]), path
        async with tree.open("orders-0/follow@0.ndjson") as file:
            found["follow"] = bytes(await file.read(0, 1 << 20))
        return found

    found = run(LogDirectory.open(log, read_only=True), MountOptions(read_only=True, json_bytes="base64"), work)
    for path, text in found.items():
        lines = [json.loads(line) for line in text.splitlines()]
        assert [plain(line) for line in lines] == [EXPECTED[offset] for offset in PATHS.get(path, [0, 1, 2])], path
        assert all(list(line)[:5] == FIELDS for line in lines)


def test_an_index_of_one_form_is_not_used_for_the_other(log: str) -> None:
    async def work(tree: Tree) -> bytes:
        async with tree.open("orders-0/records.ndjson") as file:
            return bytes(await file.read(0, 1 << 20))

    forms = ("text", "base64", "text", "base64")
    results = [run(LogDirectory.open(log), MountOptions(json_bytes=form), work) for form in forms]
    assert results[0] == results[2] != results[1] == results[3]


@pytest.mark.parametrize("call", [("cat", "orders-0/records.ndjson"), ("follow", "orders-0", "--ndjson", "--to", "3")])
def test_commands_take_the_option(log: str, capfdbinary: pytest.CaptureFixture[bytes], call: tuple[str, ...]) -> None:
    assert command([call[0], log, *call[1:], "-o", "json-bytes=base64"]) == 0
    lines = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert [plain(line) for line in lines] == EXPECTED


def test_the_lines_restore_the_same_records(
    log: str, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    command(["cat", log, "orders-0/records.ndjson", "-o", "json-bytes=base64"])
    lines = capfdbinary.readouterr().out
    with open_log(log, "a") as data:
        data.create("copy")[0].append_ndjson(lines)
    command(["cat", log, "copy-0/records.ndjson", "-o", "json-bytes=base64"])
    copied = capfdbinary.readouterr().out
    assert copied == lines.replace(b'"topic":"orders"', b'"topic":"copy"')
