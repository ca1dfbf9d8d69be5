"""How much a micro-batch takes and what it waits for."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import offsetfs
from offsetfs.pipeline.read_options import ReadOptions

pytestmark = pytest.mark.spark

SECONDS_MAX = 60


def append(path: Path, count: int) -> None:
    with offsetfs.open(path, "a") as data:
        data.partition("orders-0").append_lines(b"x\n" * count)


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

    from offsetfs.pipeline.schema import schema_of
    from offsetfs.pipeline.stream_reader import StreamReader

    now = 1000.0
    given = {"path": str(logs), "minOffsetsPerTrigger": "4", "maxTriggerDelay": "10s"}
    options = ReadOptions.parse(given, is_stream=True)
    reader = StreamReader(options, schema_of(options), now=lambda: now)
    limit = reader.getDefaultReadLimit()

    def end(start: int, limit: Any = limit) -> int:
        return reader.latestOffset({"orders": {"0": start}}, limit)["orders"]["0"]

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


def test_a_stream_of_spark_waits_as_well(spark: Any, logs: Path, tmp_path: Path) -> None:
    frame = spark.readStream.format("offsetfs").option("minOffsetsPerTrigger", 5).load(str(logs))
    writer = frame.writeStream.format("memory").queryName("waited").option("checkpointLocation", str(tmp_path / "c"))
    query = writer.start()

    def taken(records: int) -> list[int]:
        """Wait until micro-batches have taken so many; return how many each took."""
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            rows = [each.numInputRows for each in query.recentProgress if each.numInputRows]
            if sum(rows) >= records or time.monotonic() > deadline:
                return rows
            query.awaitTermination(0.1)

    try:
        assert taken(2) == [2]
        append(logs, 3)
        append(logs, 4)
        assert taken(9) == [2, 7]
    finally:
        query.stop()
