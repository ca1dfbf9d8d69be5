"""Micro-batches of streams: their sizes, what they wait for, and streams over several log directories."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

import offsetfs
from offsetfs.pipeline.read_options import ReadOptions
from offsetfs.storage import LogDirectory, TopicPartition

pytestmark = pytest.mark.spark

SECONDS_MAX = 60


def append(path: Path, count: int, partition: str = "orders-0") -> None:
    with offsetfs.open(path, "a") as data:
        data.partition(partition).append_lines(b"x\n" * count)


def wait_for(query: Any, records: int) -> list[int]:
    """Wait until micro-batches have taken `records`; return how many each took."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        rows = [each.numInputRows for each in query.recentProgress if each.numInputRows]
        if sum(rows) >= records or time.monotonic() > deadline:
            return rows
        query.awaitTermination(0.1)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A log directory with one partition of two records."""
    path = tmp_path / "logs"
    path.mkdir()
    with offsetfs.open(path, "a") as data:
        data.create("orders")
    append(path, 2)
    return path


def test_a_micro_batch_waits_for_the_least_but_not_for_ever(logs: Path) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from offsetfs.pipeline.reader import StreamReader
    from offsetfs.pipeline.schema import schema_of

    now = 1000.0
    given = {"path": str(logs), "minOffsetsPerTrigger": "4", "maxTriggerDelay": "10s"}
    options = ReadOptions.parse(given, is_stream=True)
    reader = StreamReader(options, schema_of(options), now=lambda: now)
    limit = reader.getDefaultReadLimit()

    def end(start: int, limit: Any = limit) -> int:
        return int(reader.latestOffset({"orders": {"0": start}}, limit)["orders"]["0"])

    assert end(0) == 2  # the first is let go at once
    append(logs, 3)
    assert end(2) == 2
    assert end(2, ReadAllAvailable()) == 5  # a stream that shall end takes what there is
    append(logs, 1)
    assert end(2) == 6
    append(logs, 1)
    assert end(6) == 6
    now += 10
    assert end(6) == 7
    append(logs, 1)
    reader.prepareForTriggerAvailableNow()
    assert end(7) == 8


@pytest.mark.parametrize("start", [{"orders": {"0": 0}}, {"orders": {"0": 0, "1": 1}}], ids=["new", "followed"])
def test_a_partition_that_was_deleted_before_its_micro_batch_is_a_loss(logs: Path, start: Any) -> None:
    from offsetfs.pipeline.reader import StreamReader
    from offsetfs.pipeline.scan_range import DataLoss
    from offsetfs.pipeline.schema import schema_of

    def reader_of(fails: str) -> StreamReader:
        options = ReadOptions.parse({"path": str(logs), "failOnDataLoss": fails}, is_stream=True)
        return StreamReader(options, schema_of(options))

    end = {"orders": {"0": 2, "1": 3}}  # of the checkpoint of a stream that ended before it read orders-1
    with pytest.raises(DataLoss, match="orders-1 was deleted while it was followed; failOnDataLoss=false goes on"):
        reader_of("true").partitions(start, end)
    splits: Any = reader_of("false").partitions(start, end)
    assert [(each.partition, each.start, each.end) for split in splits for each in split.ranges] == [(0, 0, 2)]
    with contextlib.closing(LogDirectory.open(str(logs))) as directory:
        directory.create_partition(TopicPartition("orders", 1))
    append(logs, 3, "orders-1")
    stopping = reader_of("false")
    stopping.prepareForTriggerAvailableNow()
    shutil.rmtree(logs / "orders-1")
    assert stopping.latestOffset(start, stopping.getDefaultReadLimit())["orders"] == end["orders"]


def stream_reader(logs: Path, **options: str) -> Any:
    from offsetfs.pipeline.reader import StreamReader
    from offsetfs.pipeline.schema import schema_of

    parsed = ReadOptions.parse({"path": str(logs), **options}, is_stream=True)
    return StreamReader(parsed, schema_of(parsed))


def planned(reader: Any, start: Any, end: Any) -> list[tuple[int, int]]:
    return [(each.start, each.end) for split in reader.partitions(start, end) for each in split.ranges]


def create_again(logs: Path, count: int, *, has_id: bool = True) -> None:
    with contextlib.closing(LogDirectory.open(str(logs))) as directory:
        directory.delete_partition(TopicPartition("orders", 0))
        directory.create_partition(TopicPartition("orders", 0))
    append(logs, count)
    if not has_id:
        (logs / "orders-0" / "partition.metadata").unlink()


@pytest.mark.parametrize("count", [2, 5, 9])
@pytest.mark.parametrize("has_id", [True, False], ids=["id", "no id"])
def test_a_topic_that_was_created_again_is_read_from_its_beginning(logs: Path, count: int, has_id: bool) -> None:
    """A stream stood still until the new log was as long as the old one was, and skipped what it had by then."""
    from offsetfs.pipeline.scan_range import DataLoss

    if not has_id:
        (logs / "orders-0" / "partition.metadata").unlink()
    append(logs, 4)
    strict, lenient = stream_reader(logs), stream_reader(logs, failOnDataLoss="false")
    limit = strict.getDefaultReadLimit()
    start = strict.latestOffset(strict.initialOffset(), limit)
    assert start["orders"] == {"0": 6}
    create_again(logs, count, has_id=has_id)
    end = lenient.latestOffset(start, limit)
    assert end["orders"] == {"0": count}
    if count > 6 and not has_id:
        assert planned(lenient, start, end) == [(6, 9)]  # without ids the topics look the same
        return
    with pytest.raises(DataLoss, match=r"created again.*failOnDataLoss=false"):
        strict.latestOffset(start, limit)
    with pytest.raises(DataLoss, match=r"created again.*failOnDataLoss=false"):
        strict.partitions(start, end)
    assert planned(lenient, start, end) == [(0, count)]
    append(logs, 1)
    assert planned(strict, end, strict.latestOffset(end, limit)) == [(count, count + 1)]


def test_limited_micro_batches_take_every_record_of_a_recreated_topic(logs: Path) -> None:
    reader = stream_reader(logs, failOnDataLoss="false", maxOffsetsPerTrigger="2")
    limit = reader.getDefaultReadLimit()
    start = reader.latestOffset(reader.initialOffset(), limit)
    create_again(logs, 5)
    read = []
    for _ in range(4):
        end = reader.latestOffset(start, limit)
        read += planned(reader, start, end)
        start = end
    assert read == [(0, 2), (2, 4), (4, 5)]


def test_a_topic_recreated_within_a_micro_batch_is_read_by_the_next(logs: Path) -> None:
    """Between the end and the plan, and between the plan and a task."""
    from offsetfs.pipeline.scan_range import DataLoss

    strict, lenient = stream_reader(logs), stream_reader(logs, failOnDataLoss="false")
    start, limit = strict.initialOffset(), strict.getDefaultReadLimit()
    end = strict.latestOffset(start, limit)
    (task,) = lenient.partitions(start, end)
    lenient.prepareForTriggerAvailableNow()
    create_again(logs, 3)
    with pytest.raises(DataLoss, match="deleted and created again"):
        strict.partitions(start, end)
    assert planned(lenient, start, end) == []
    with pytest.raises(DataLoss, match="deleted and created again"):
        list(strict.read(task))
    assert list(lenient.read(task)) == []
    assert planned(lenient, end, lenient.latestOffset(end, limit)) == []  # availableNow: of the topic that was there
    later = stream_reader(logs, failOnDataLoss="false")
    assert planned(later, end, later.latestOffset(end, limit)) == [(0, 3)]


def test_a_checkpoint_without_topic_ids_is_continued(logs: Path) -> None:
    reader = stream_reader(logs)
    start: Any = {"orders": {"0": 1}}
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert planned(reader, start, end) == [(1, 2)] and end["~topicIds"]["orders"]["0"]
    assert ReadOptions.parse({"path": str(logs), "startingOffsets": json.dumps(end)}).start.offsets == {
        ("orders", 0): 2
    }


def test_a_stream_of_spark_reads_a_topic_that_was_created_again(spark: Any, logs: Path, tmp_path: Path) -> None:
    def follow(fails: str) -> list[int]:
        frame = spark.readStream.format("offsetfs").option("failOnDataLoss", fails).load(str(logs)).select("offset")
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(tmp_path / "read"))
        query.awaitTermination()
        return [each.numInputRows for each in query.recentProgress if each.numInputRows]

    append(logs, 5)
    assert follow("true") == [7]
    create_again(logs, 3)
    with pytest.raises(Exception, match="deleted and created again; failOnDataLoss=false goes on"):
        follow("true")
    assert follow("false") == [3]
    create_again(logs, 9)
    assert follow("false") == [9]
    append(logs, 1)
    assert follow("true") == [1]


def test_a_stream_of_spark_waits_as_well(spark: Any, logs: Path, tmp_path: Path) -> None:
    frame = spark.readStream.format("offsetfs").option("minOffsetsPerTrigger", 5).load(str(logs))
    writer = frame.writeStream.format("memory").queryName("waited").option("checkpointLocation", str(tmp_path / "c"))
    query = writer.start()

    try:
        assert wait_for(query, 2) == [2]
        append(logs, 3)
        append(logs, 4)
        assert wait_for(query, 9) == [2, 7]
    finally:
        query.stop()


@pytest.fixture
def disks(tmp_path: Path) -> list[Path]:
    """Two log directories of one broker: orders-0 with 2 records in the first, orders-1 with 3 in the second."""
    paths = [tmp_path / "disk-1", tmp_path / "disk-2"]
    for number, path in enumerate(paths):
        path.mkdir()
        with offsetfs.open(path, "a") as data:
            data.create("orders", 2)
        shutil.rmtree(path / f"orders-{1 - number}")
    append(paths[0], 2, "orders-0")
    append(paths[1], 3, "orders-1")
    return paths


@pytest.mark.parametrize("form", ["path", "paths"])
def test_a_stream_over_several_log_directories_reads_each_record_once(
    spark: Any, disks: list[Path], tmp_path: Path, form: str
) -> None:
    def begin(paths: list[Path], **trigger: Any) -> Any:
        given = ",".join(map(str, paths)) if form == "path" else json.dumps([str(each) for each in paths])
        frame = spark.readStream.format("offsetfs").option(form, given).option("subscribe", "orders").load()
        writer = frame.select("partition", "offset").writeStream.format("parquet").trigger(**trigger)
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start(str(tmp_path / "read"))

    query = begin(disks, processingTime="0 seconds")
    try:
        assert sum(wait_for(query, 5)) == 5
        append(disks[0], 4, "orders-0")
        append(disks[1], 5, "orders-1")
        assert sum(wait_for(query, 14)) == 14
        with contextlib.closing(LogDirectory.open(str(disks[1]))) as directory:
            directory.create_partition(TopicPartition("orders", 2))
        append(disks[1], 6, "orders-2")
        append(disks[0], 1, "orders-0")
        assert sum(wait_for(query, 21)) == 21
    finally:
        query.stop()
    append(disks[0], 1, "orders-0")
    append(disks[1], 1, "orders-1")
    resumed = begin(disks[::-1], availableNow=True)
    assert resumed.awaitTermination(SECONDS_MAX)
    rows = spark.read.parquet(str(tmp_path / "read")).collect()
    counts = {0: 8, 1: 9, 2: 6}
    wanted = [(partition, offset) for partition, count in counts.items() for offset in range(count)]
    assert sorted((row.partition, row.offset) for row in rows) == wanted
