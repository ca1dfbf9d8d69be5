"""Times that Spark cannot hold."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs.keyed_logs import Keyed, keyed

from offsetfs.pipeline.log_directories import opened
from offsetfs.pipeline.read_options import ReadOptions
from offsetfs.pipeline.scan import TimeBeyondSpark, scan
from offsetfs.pipeline.scan_range import resolve
from offsetfs.pipeline.schema import arrow_schema, schema_of
from offsetfs.storage import LogDirectory, TopicPartition

pytestmark = pytest.mark.unit

TIMES = [1 << 62, 1000, -1, 9_300_000_000_000_000]
LAST_US = 9_223_372_036_854_775_000


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    with closing(LogDirectory.open(str(tmp_path))) as directory:
        log = directory.create_partition(TopicPartition("t", 0), {"retention.ms": "-1"})
        for offset, time in enumerate(TIMES):
            log.append_replicated(keyed(offset, Keyed(0, b"k", b"v", time)))
    return tmp_path


def times(logs: Path, **given: str) -> list[Any]:
    options = ReadOptions.parse({"path": str(logs), **given})
    with opened(options.paths) as directory:
        ranges = tuple(resolve(directory, options))
    batches = list(scan(ranges, options, arrow_schema(schema_of(options))))
    return [each for batch in batches for each in batch.column("timestamp").cast("int64").to_pylist()]


@pytest.mark.expect_log("offsetfs: t-0: times of 2 records that Spark cannot hold are the nearest time")
def test_times_that_spark_cannot_hold_are_counted_in_the_log(logs: Path) -> None:
    assert times(logs) == [LAST_US, 1_000_000, -1000, LAST_US]


@pytest.mark.expect_log("offsetfs: t-0: times of 2 records that Spark cannot hold are null")
def test_times_that_spark_cannot_hold_may_be_null(logs: Path) -> None:
    assert times(logs, timesBeyondSpark="null") == [None, 1_000_000, -1000, None]


def test_times_that_spark_cannot_hold_may_end_the_query(logs: Path) -> None:
    with pytest.raises(TimeBeyondSpark, match="t-0: 2 of 4 records have times that Spark cannot hold"):
        times(logs, timesBeyondSpark="fail")
    assert times(logs, timesBeyondSpark="FAIL", startingOffsets='{"t":{"0":1}}', endingOffsets='{"t":{"0":3}}') == [
        *(1_000_000, -1000)
    ]
