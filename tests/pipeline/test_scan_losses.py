"""What a task does when another process takes away or replaces what it reads."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fixtures.logs.remote_heads import NOTE, make_log_with_remote_head

import offsetfs
from offsetfs.pipeline.jobs.export import _plan
from offsetfs.pipeline.jobs.stats import _count, _options
from offsetfs.pipeline.jobs.workers import JobFailed
from offsetfs.pipeline.log_directories import opened
from offsetfs.pipeline.read_options import ReadOptions
from offsetfs.pipeline.scan import scan
from offsetfs.pipeline.scan_range import DataLoss, Range, resolve
from offsetfs.pipeline.schema import arrow_schema, schema_of
from offsetfs.pipeline.splits import cut
from offsetfs.storage.names import TopicPartition

pytestmark = [pytest.mark.unit, pytest.mark.damages]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A thousand records in segments of one batch, larger than the Arrow batches of a scan."""
    monkeypatch.setattr("offsetfs.storage.partition.follower.LOOK_INTERVAL_S", 1e6)
    monkeypatch.setattr("offsetfs.tables.arrow.ARROW_BYTES", 1)
    with offsetfs.open(tmp_path, "a", settings={"segment.bytes": "1000"}) as directory:
        (orders,) = directory.create("orders")
        for _ in range(10):
            orders.extend(offsetfs.NewRecord(b"x" * 90) for _ in range(8))
    return tmp_path


def scanned(data: Path, **named: str) -> Iterator[list[int]]:
    """Yield the offsets of each Arrow batch of a task."""
    options = ReadOptions.parse({"path": str(data), **named})
    with opened(options.paths) as directory:
        ranges = tuple(resolve(directory, options))
    for batch in scan(ranges, options, arrow_schema(schema_of(options))):
        yield batch.column("offset").to_pylist()


REMOTE_STARTS = {
    "earliest": ({}, [10, 11]),
    "earliest of the partition": ({"startingOffsets": '{"orders":{"0":-2}}'}, [10, 11]),
    "an offset of the head": ({"startingOffsets": '{"orders":{"0":3}}', "failOnDataLoss": "false"}, [10, 11]),
    "a later offset": ({"startingOffsets": '{"orders":{"0":11}}'}, [11]),
}


@pytest.mark.parametrize("start", REMOTE_STARTS)
def test_records_without_a_time_roll_by_the_clock_unless_empty(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, expect_log: Callable[[str], None], start: str
) -> None:
    options, offsets = REMOTE_STARTS[start]
    if offsets[0] == 10:
        expect_log("orders-0: offsets 3 to 9 are only in the remote storage")
    found = scanned(make_log_with_remote_head(tmp_path / "tiered"), **options)
    assert [offset for batch in found for offset in batch] == offsets
    said = f"offsetfs: orders-0: {NOTE}; reading begins at offset 10"
    assert [each.getMessage() for each in caplog.records] == ([said] if offsets[0] == 10 else [])


def logs_of(data: Path) -> list[Path]:
    return sorted((data / "orders-0").glob("*.log"))


def test_a_scan_goes_on_in_segments_that_were_replaced(data: Path) -> None:
    reading = scanned(data)
    found = next(reading)
    for log in logs_of(data)[:-1]:
        copy = shutil.copy(log, f"{log}.swap")
        Path(copy).replace(log)
    assert found + [offset for offsets in reading for offset in offsets] == list(range(80))


def test_a_query_is_planned_over_segments_that_were_replaced(data: Path) -> None:
    with opened((str(data),)) as directory:
        log = directory.log(TopicPartition("orders", 0))
        for file in logs_of(data)[:-1]:
            Path(shutil.copy(file, f"{file}.cleaned")).replace(file)
        tasks = cut(directory, [Range("orders", 0, 0, 80)], splits_min=4, bytes_per_split=1000)
        assert log.next_offset == 80
    ranges = [each for task in tasks for each in task]
    assert [each.start for each in ranges] == [0, *(each.end for each in ranges[:-1])] and ranges[-1].end == 80


def remove_segments(data: Path) -> None:
    for log in logs_of(data)[:-1]:
        log.unlink()


def remove_partition(data: Path) -> None:
    shutil.rmtree(data / "orders-0")


@pytest.mark.parametrize(
    ("remove", "sentence", "left"),
    [
        (remove_segments, "orders-0: the records from 8 to 71 were removed while it was read", [*range(72, 80)]),
        (remove_partition, "orders-0 was deleted while it was read", []),
    ],
)
def test_records_that_were_removed_are_a_loss(
    data: Path, remove: Callable[[Path], None], sentence: str, left: list[int]
) -> None:
    readings = scanned(data), scanned(data, failOnDataLoss="false")
    found = [next(reading) for reading in readings]
    remove(data)
    with pytest.raises(DataLoss, match=f"{sentence}; failOnDataLoss=false goes on"):
        list(readings[0])
    assert found[1] + [offset for offsets in readings[1] for offset in offsets] == [*range(8), *left]


def test_a_range_beyond_the_end_of_a_log_that_was_cut_is_a_loss(data: Path) -> None:
    options = ReadOptions.parse({"path": str(data)})
    with pytest.raises(DataLoss, match="the log was cut to offset 80, and offset 100 is asked for"):
        list(scan((Range("orders", 0, 100, 200),), options, arrow_schema(schema_of(options))))


@pytest.mark.expect_log("a batch is left out")
def test_a_damaged_first_header_is_neither_skipped_nor_uncounted(data: Path) -> None:
    first = logs_of(data)[0]
    raw = bytearray(first.read_bytes())
    raw[16] = 9  # the format
    first.write_bytes(raw)
    with pytest.raises(offsetfs.errors.MalformedBatch):
        list(scanned(data))
    options = _options(str(data), ())
    (part,) = _count(options, (Range("orders", 0, 0, 80),))["parts"]
    assert (part["records"], part["unreadable"]) == (72, 1)


def test_an_export_does_not_mix_keys_of_two_types(data: Path, tmp_path: Path) -> None:
    for before, after in ((False, True), (True, False)):
        target = tmp_path / f"parquet-{before}"
        target.mkdir()
        options = ReadOptions.parse({"path": str(data)})
        assert _plan(options, str(target), has_typed_keys=before) == _plan(options, str(target), has_typed_keys=before)
        with pytest.raises(JobFailed, match="; export into another directory"):
            _plan(options, str(target), has_typed_keys=after)


def test_an_export_of_a_topic_that_was_created_again_is_refused(data: Path, tmp_path: Path) -> None:
    """It skipped as many records as the topic had before."""
    target = tmp_path / "parquet"
    target.mkdir()
    options = ReadOptions.parse({"path": str(data)})
    (planned,) = _plan(options, str(target))
    assert (planned.start, planned.end) == (0, 80) and planned.topic_id is not None
    with offsetfs.open(data, "a") as directory:
        directory._directory.delete_partition(TopicPartition("orders", 0))
        (orders,) = directory.create("orders")
        orders.extend(offsetfs.NewRecord(b"y") for _ in range(100))
    with pytest.raises(
        JobFailed, match="before the topic was deleted and created again; export into another directory"
    ):
        _plan(options, str(target))
    with pytest.raises(DataLoss, match="deleted and created again"):
        list(scan((planned,), options, arrow_schema(schema_of(options))))
