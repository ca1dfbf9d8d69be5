"""What a view prints, the matching append file takes: records go round through a mount and are the same again."""

from __future__ import annotations

import base64
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fixtures.mounts.left_mounts import unmount
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.mount


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    point, log = tmp_path_factory.mktemp("mnt"), tmp_path_factory.mktemp("log")
    run = [sys.executable, "-m", "offsetfs"]
    subprocess.run([*run, "mount", log, point, "-o", "create"], check=True)
    yield point
    assert (point / ".offsetfs/errors").read_text() == ""
    unmount(point)


_partitions = itertools.count()


def partition(tree: Path) -> Path:
    path = tree / f"p{next(_partitions)}-0"
    path.mkdir()
    return path


def cat(source: Path, target: Path) -> None:
    subprocess.run(["sh", "-c", f"cat {source} > {target}"], check=True)


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Return the records without the name of their topic."""
    return [{**json.loads(line), "topic": None} for line in (path / "records.ndjson").read_bytes().split(b"\n")[:-1]]


BYTES = st.one_of(
    st.none(),
    st.binary(max_size=30),
    st.text(max_size=30).map(lambda text: text.encode("utf-8", "replace")),
    st.sampled_from([b"", b"\n", b"\r\n", b"\0", b"\xc0\x80", b"\xed\xa0\x80", b'"\\', b"x" * 5000, "😀".encode()]),
)
NAMES = BYTES.map(lambda name: name or b"")
RECORDS = st.lists(
    st.tuples(BYTES, BYTES, st.lists(st.tuples(NAMES, BYTES), max_size=4), st.integers(-1, 2**63 - 1)),
    min_size=1,
    max_size=20,
)


def field(name: str, data: bytes | None) -> dict[str, str | None]:
    """Return a field as one may write it: in base64, unless it is text."""
    try:
        return {name: None if data is None else data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_b64": base64.b64encode(data or b"").decode()}


def line(key: bytes | None, value: bytes | None, headers: list[tuple[bytes, bytes | None]], timestamp: int) -> str:
    listed = [{**field("key", name), **field("value", data)} for name, data in headers]
    return json.dumps({**field("key", key), **field("value", value), "headers": listed, "timestamp": timestamp}) + "\n"


@settings(max_examples=25, deadline=None)
@given(RECORDS)
def test_records_of_any_content_go_round_as_lines_of_json(tree: Path, records: list[Any]) -> None:
    first, second = partition(tree), partition(tree)
    (first / "append.ndjson").write_text("".join(line(*record) for record in records))
    written = lines_of(first)
    reported = [
        {
            "topic": None,
            "partition": 0,
            "offset": offset,
            "timestamp": timestamp,
            "timestamp_type": "CreateTime",
            **field("key", key),
            **field("value", value),
            "headers": [{**field("key", name), **field("value", data)} for name, data in headers],
        }
        for offset, (key, value, headers, timestamp) in enumerate(records)
    ]
    assert written == reported
    cat(first / "records.ndjson", second / "append.ndjson")
    assert lines_of(second) == written


@settings(max_examples=10, deadline=None)
@given(st.lists(st.binary(max_size=50).map(lambda line: line.replace(b"\n", b"")), min_size=1, max_size=30))
def test_lines_go_round_as_values(tree: Path, lines: list[bytes]) -> None:
    first, second = partition(tree), partition(tree)
    (first / "append").write_bytes(b"".join(line + b"\n" for line in lines))
    assert (first / "values").read_bytes().split(b"\n")[:-1] == lines
    cat(first / "values", second / "append")
    assert (second / "values").read_bytes() == (first / "values").read_bytes()
    assert (second / "next").read_text() == f"{len(lines)}\n"


@pytest.mark.parametrize("name", ["keyed-0", "codec-zstd-0", "compacted-0", "transactions-0", "appendtime-0", "java-0"])
def test_what_a_broker_wrote_goes_round(tree: Path, mount: Any, golden_copy: Path, name: str) -> None:
    brokers = mount(golden_copy, "ro").path / name
    ours = partition(tree)
    cat(brokers / "records.ndjson", ours / "append.ndjson")
    kept = [{**record, "offset": None, "timestamp_type": None, "partition": 0} for record in lines_of(brokers)]
    assert [{**record, "offset": None, "timestamp_type": None} for record in lines_of(ours)] == kept
