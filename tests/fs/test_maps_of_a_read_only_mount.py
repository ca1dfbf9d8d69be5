"""A log without maps, mounted read only again and again, and looked into without a mount: it is read through once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.format.batch_builder import BatchBuilder

pytestmark = pytest.mark.mount

PARTITION = TopicPartition("orders", 0)
SEGMENT_BYTES = 24 << 20
"""More than a listing reads to learn a size."""

LINE = b"x" * 99 + b"\n"
LINES = SEGMENT_BYTES // 100
NOT_READ = 4 << 20


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of two segments, the first of 24 MiB, without maps."""
    path = tmp_path / "log"
    path.mkdir()
    directory = LogDirectory.open(str(path))
    log, lines = directory.create_partition(PARTITION), LINE * LINES
    builder, start = BatchBuilder(1 << 20), 0
    while start < len(lines):
        start = builder.split(lines, start, len(lines), 1000)
        log.append(builder.seal())
        builder.reset()
    log.roll()
    builder.split(LINE, 0, len(LINE), 1000)
    log.append(builder.seal())
    directory.close()
    return path


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield tmp_path / "cache"


def bytes_read(mounted: Any) -> int:
    lines = Path(f"/proc/{mounted.process.pid}/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])


def test_the_second_mount_lists_values_at_once_and_reads_no_log_for_it(
    mount: Any, log: Path, tmp_path: Path, _cache: Path
) -> None:
    before = sorted(os.listdir(log / "orders-0"))
    first = mount(log, "ro")
    assert "values" not in os.listdir(first.path / "orders-0")
    for name in ("values", "records.ndjson"):
        assert (first.path / "orders-0" / name).stat().st_size >= (LINES + 1) * len(LINE)
    assert first.unmount() == 0
    assert sorted(os.listdir(log / "orders-0")) == before
    assert len(list(_cache.glob("offsetfs/maps/*/*-map"))) == 2

    second = mount(log, "ro,list=1")
    begun = bytes_read(second)
    assert {"values", "records.ndjson"} < set(os.listdir(second.path / "orders-0"))
    assert (second.path / "orders-0" / "values").stat().st_size == (LINES + 1) * len(LINE)
    assert bytes_read(second) - begun < NOT_READ
    with (second.path / "orders-0" / "values").open("rb") as values:
        values.seek(-150, os.SEEK_END)
        assert values.read() == (LINE + LINE)[-150:]


def test_what_a_command_without_a_mount_indexed_the_next_one_uses(log: Path) -> None:
    def offsetfs(*arguments: str) -> bytes:
        command = [sys.executable, "-m", "offsetfs", *arguments]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout

    listing = ("ls", str(log), "orders-0", "-o", "list=1")
    assert b"values" not in offsetfs(*listing).split()
    assert len(offsetfs("cat", str(log), "orders-0/values")) == (LINES + 1) * len(LINE)
    assert b"values" in offsetfs(*listing).split()
