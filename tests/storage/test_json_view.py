"""`records.ndjson` of a partition: its map finds every byte, lies beside the log, and goes with its segment."""

from __future__ import annotations

import base64
import json
import os
import shutil
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs.log_states import replace_segments_of
from fixtures.spies import no_damage, spy

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import DecompressionLimit, StorageError
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.format.batch import Batch, build
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.records.json import batch_json
from offsetfs.storage.records.json.batch_json import measured_json
from offsetfs.storage.segments import segment_names
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.units import Timestamp
from offsetfs.storage.views import view_format as forms
from offsetfs.storage.views.line_index import LineIndex
from offsetfs.storage.views.partition_view import PartitionView
from offsetfs.storage.views.view_format import JsonFormat

pytestmark = pytest.mark.unit

PARTITION = TopicPartition("orders", 3)
JSON = JsonFormat(PARTITION)
SETTINGS = {"segment.bytes": "30000", "index.interval.bytes": "0"}
HEADERS = (("trace", b"\xff\x00"), ("trace", None), ("empty", b""))


def fill(log: Log, batches: int) -> None:
    """Append batches of records with everything in them, compressed ones in between."""
    for number in range(batches):
        values = [None, b"", b'text \n\t"', b"\xff\xfe", *(b"%d " % number * (n % 40) for n in range(30))]
        records = [
            (None if n % 2 else b"key", value, HEADERS if n % 3 else (), 1000 + n) for n, value in enumerate(values)
        ]
        data = build(records, codec="zstd" if number % 4 == 2 else "none")
        log.append(SealedBatch(memoryview(data), len(values), 0, Timestamp(999 + len(values)), len(data)))


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[LogDirectory]:
    directory = LogDirectory.open(str(tmp_path / "log"))
    yield directory
    directory.close()


@pytest.fixture(autouse=True)
def place(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()


@pytest.fixture
def log(directory: LogDirectory) -> Log:
    log = directory.create_partition(PARTITION, SETTINGS)
    fill(log, 40)
    assert len(log.snapshot()) > 2
    return log


def whole(log: Log) -> bytes:
    view = PartitionView(log, FilePool(4), no_damage, view_format=JSON)
    assert view.refresh()
    shown = b""
    while (located := view.locate(len(shown))) is not None:
        shown += view.read(located)
    assert len(shown) == view.size
    return shown


def said(fields: dict[str, Any], name: str) -> bytes | None:
    """What a line says of a field, as text or in base64."""
    if f"{name}_b64" in fields:
        return base64.b64decode(fields[f"{name}_b64"])
    return None if fields[name] is None else fields[name].encode()


def maps(log: Log) -> list[str]:
    return sorted(name for name in os.listdir(log.path) if name.endswith(".records-map"))


def test_every_record_is_a_line_with_all_its_fields(log: Log) -> None:
    records = [record for segment in log.snapshot() for batch in segment.batches() for record in batch.records()]
    lines = [json.loads(line) for line in whole(log).split(b"\n")[:-1]]
    for line, record in zip(lines, records, strict=True):
        assert (line["topic"], line["partition"], line["offset"]) == ("orders", 3, record.offset)
        assert (line["timestamp"], line["timestamp_type"]) == (record.timestamp, record.timestamp_type)
        assert (said(line, "key"), said(line, "value")) == (record.key, record.value)
        assert [(header["key"], said(header, "value")) for header in line["headers"]] == list(record.headers)


def test_line_indexes_of_sealed_segments_are_kept_and_used(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = whole(log)
    assert maps(log) == [f"{segment.base_offset:020d}.records-map" for segment in list(log.snapshot())[:-1]]
    measured: list[Segment] = []
    extend = LineIndex.extend
    monkeypatch.setattr(LineIndex, "extend", spy(measured, lambda self, s, *a, **k: s, extend))
    assert whole(log) == expected and measured == [log.snapshot().active]


@pytest.mark.parametrize("name", ["orders-4", "orders-33", "Orders-3", "ordersx-3"])
def test_a_map_of_a_partition_of_another_name_is_dropped(log: Log, name: str) -> None:
    whole(log)
    segment = log.snapshot().first
    assert LineIndex.load(segment, FilePool(1), JSON) is not None
    assert LineIndex.load(segment, FilePool(1), JsonFormat(TopicPartition.parse(name))) is None


def test_a_map_of_values_is_none_of_records(log: Log) -> None:
    assert PartitionView(log, FilePool(4), no_damage).refresh()
    segment = log.snapshot().first
    shutil.copy(segment.path(".values-map"), segment.path(".records-map"))
    assert LineIndex.load(segment, FilePool(1), JSON) is None
    assert LineIndex.load(segment, FilePool(1)) is not None


def test_maps_without_their_segment_are_removed(log: Log) -> None:
    orphan = Path(log.path, f"{999999:020d}.records-map")
    orphan.write_bytes(b"left over")
    whole(log)
    assert not orphan.exists()


def test_a_map_goes_with_its_segment(log: Log) -> None:
    whole(log)
    first = log.snapshot().first
    log.flush()
    replace_segments_of(log, log.snapshot().without([first]))
    segment_names.remove_from_log(first)
    assert os.path.exists(first.path(".records-map")) and first.path(".records-map").endswith(".records-map.deleted")
    segment_names.unlink(first)
    assert not [name for name in os.listdir(log.path) if name.startswith(f"{first.base_offset:020d}")]


def test_a_truncation_drops_the_map_of_what_it_cuts(log: Log) -> None:
    whole(log)
    second = list(log.snapshot())[1]
    log.truncate_to(second.base_offset + 3)
    assert [name for name in maps(log) if not name.startswith("0" * 20)] == []
    assert [json.loads(line)["offset"] for line in whole(log).splitlines()] == list(range(second.base_offset))


def test_lines_that_would_take_too_much_memory_are_left_out_by_name(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = measured_json

    def bounded(batch: Batch, prefix: bytes, **bounds: int) -> int:
        if batch.base_offset == 34:
            raise DecompressionLimit("the records take too many bytes as JSON", offset=34)
        return measured(batch, prefix, **bounds)

    monkeypatch.setattr(forms, "measured_json", bounded)
    monkeypatch.setattr(batch_json, "measured_rows", lambda block, place, rows, prefix: array("q", [-1]))
    reported: list[StorageError] = []
    view = PartitionView(log, FilePool(4), reported.append, view_format=JsonFormat(PARTITION))
    assert view.refresh() and [error.offset for error in reported] == [34]
