"""Damage that hides the first offset that is asked for is reported by each view that begins there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fixtures.logs.planted_logs import PARTITION, batch, plant

from offsetfs.fs.files.record_listing import rows
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import StorageError
from offsetfs.storage.names import segment_name
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.log_reader import LogView
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.views.range_view import RangeView
from offsetfs.storage.views.record_chunk import ReadPosition, read_chunk
from offsetfs.storage.views.view_format import VALUES

pytestmark = [pytest.mark.unit, pytest.mark.damages]

MAGIC, LAST_OFFSET_DELTA = 16, 26


def ten(offset: int) -> bytes:
    """Return a batch of the ten records from `offset` on."""
    return batch(offset, *(b"%d" % n for n in range(offset, offset + 10)))


@pytest.fixture(params=[MAGIC, LAST_OFFSET_DELTA])
def log(tmp_path: Path, request: Any) -> Log:
    """Forty records, of which those from 10 to 19 cannot be read: the header of their batch is damaged."""
    plant(tmp_path, {0: [ten(0), ten(10), ten(20)], 30: [ten(30)]})
    file = tmp_path / str(PARTITION) / segment_name(0, ".log")
    data = bytearray(file.read_bytes())
    data[len(ten(0)) + request.param] ^= 8
    file.write_bytes(data)
    return LogDirectory.open(str(tmp_path), read_only=True).log(PARTITION)


@pytest.mark.parametrize(("start", "count"), [(15, 1), (10, 1), (20, 0)])
def test_a_stream_reports_it(log: Log, start: int, count: int) -> None:
    found: list[StorageError] = []
    chunk = read_chunk(LogView(log), ReadPosition(start), VALUES, 1 << 20, found.append)
    assert chunk is not None and [int(line) for line in chunk.data.split()] == list(range(20, 30))
    assert len(found) == count


@pytest.mark.parametrize(("start", "count"), [(15, 1), (10, 1), (20, 0)])
def test_a_range_reports_it(log: Log, start: int, count: int) -> None:
    found: list[StorageError] = []
    view = RangeView(LogView(log), start, 25, FilePool(4), found.append, view_format=VALUES, known=lambda _: None)
    assert view.refresh() and view.size == 5 * len("20\n")
    assert len(found) == count


@pytest.mark.parametrize(("start", "count"), [(15, 1), (10, 1), (20, 0)])
def test_a_listing_reports_it_and_lists_what_it_hides(log: Log, start: int, count: int) -> None:
    found: list[StorageError] = []
    partition: Any = SimpleNamespace(log=log, view=LogView(log))
    listed = [(row.offset, row.size >= 0) for row in rows(partition, start, 25, found.append)]
    assert listed == [(offset, offset >= 20) for offset in range(start, 25)]
    assert len(found) == count
