"""`tail`: copies new records into Parquet files or to the console; a stream with a checkpoint.

A stream that is started again continues where it was. Parquet files are those of Spark's own sink: what its metadata
directory lists is there exactly once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsetfs.pipeline.jobs.lake import explained, hadoop_path, partitioned, selection
from offsetfs.pipeline.jobs.workers import JobFailed
from offsetfs.pipeline.log_directories import opened
from offsetfs.pipeline.read_options import ReadOptions, location
from offsetfs.pipeline.scan_range import selected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

CHECKPOINT = "_checkpoint"
_WAIT_S = 0.5


@dataclass(frozen=True, slots=True)
class TailResult:
    """The records and micro-batches that came while the stream ran."""

    records: int
    batches: int


def tail(
    spark: SparkSession,
    source: str,
    destination: str | None = None,
    topics: Sequence[str] = (),
    *,
    starting_offsets: str = "earliest",
    start_ms: int | None = None,
    isolation: str = "read_uncommitted",
    is_once: bool = False,
    trigger_ms: int | None = None,
    is_by_date: bool = False,
    records_per_batch_max: int | None = None,
    is_ending: Callable[[], bool] = lambda: False,
) -> TailResult:
    """Copy new records until the stream is stopped; with `is_once`, copy the present records and return.

    Without a destination records are printed; it may be a path of Hadoop (see `lake`). `trigger_ms`: a micro-batch so
    often, instead of one after the other. `start_ms` counts before `starting_offsets`, both only at the first start.
    `is_ending`: asked twice a second whether the stream shall be stopped; the next start repeats a batch that was cut.
    Raises `OptionError`, `NotALogDirectory`, `JobFailed`, and the error that ends the stream.
    """
    options = {"startingOffsets": starting_offsets, **selection(topics, isolation=isolation, start_ms=start_ms)}
    if records_per_batch_max is not None:
        options["maxOffsetsPerTrigger"] = str(records_per_batch_max)
    known = ReadOptions.parse({**options, "path": source}, is_stream=True)
    with opened(known.paths, known.access) as directory:
        selected(directory, known.selection)  # or a sentence, where a stream would end with a stack
    frame = spark.readStream.format("offsetfs").options(**options).load(known.path)
    writer = _console(frame) if destination is None else _parquet(frame, destination, is_by_date=is_by_date)
    if is_once:
        writer = writer.trigger(availableNow=True)
    elif trigger_ms is not None:
        writer = writer.trigger(processingTime=f"{trigger_ms} milliseconds")
    try:
        query = writer.start()
    except Exception as error:
        raise explained(error, destination or "") or error from None
    try:
        while not query.awaitTermination(_WAIT_S) and not is_ending():
            pass
    finally:
        query.stop()
    progress = [batch for batch in query.recentProgress if batch.numInputRows]
    return TailResult(sum(batch.numInputRows for batch in progress), len(progress))


def _console(frame: DataFrame) -> DataStreamWriter:
    text = ("topic", "partition", "offset", "timestamp", "cast(key AS string) key", "cast(value AS string) value")
    return frame.selectExpr(*text).writeStream.format("console").option("truncate", "false")


def _parquet(frame: DataFrame, destination: str, *, is_by_date: bool) -> DataStreamWriter:
    path = hadoop_path(destination)
    if path is None:
        path = location(destination)
        if os.path.exists(path) and not os.path.isdir(path):
            raise JobFailed(f"{destination} is not a directory")
    if is_by_date:
        frame, columns = partitioned(frame, is_by_date=True)
    writer = frame.writeStream.format("parquet").option("path", path)
    writer = writer.partitionBy(*columns) if is_by_date else writer
    return writer.option("checkpointLocation", os.path.join(path, CHECKPOINT))
