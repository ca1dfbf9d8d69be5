"""`tail`: copies new records into Parquet files or to the console; a stream with a checkpoint.

A stream that is started again continues where it was. Parquet files are those of Spark's own sink: what its metadata
directory lists is there exactly once.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsetfs.pipeline.jobs.workers import JobFailed
from offsetfs.pipeline.log_directories import opened
from offsetfs.pipeline.read_options import ReadOptions, local_path
from offsetfs.pipeline.scan_range import selected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECKPOINT = "_checkpoint"


@dataclass(frozen=True, slots=True)
class TailResult:
    """How much came while the stream ran."""

    records: int
    batches: int


def tail(
    spark: SparkSession,
    source: str,
    destination: str | None = None,
    topics: Sequence[str] = (),
    *,
    starting_offsets: str = "earliest",
    is_once: bool = False,
    records_per_batch_max: int | None = None,
) -> TailResult:
    """Copy new records until the stream is stopped; with `is_once`, copy the present ones and return.

    Without a destination records are printed. Raises `OptionError`, `NotALogDirectory`, `JobFailed`, and the error that
    ends the stream.
    """
    options = {"startingOffsets": starting_offsets, "includeHeaders": "true"}
    if topics:
        options["subscribe"] = ",".join(topics)
    if records_per_batch_max is not None:
        options["maxOffsetsPerTrigger"] = str(records_per_batch_max)
    known = ReadOptions.parse({**options, "path": source}, is_stream=True)
    with opened(known.paths, known.access) as directory:
        selected(directory, known.selection)  # or a sentence, where a stream would end with a stack
    frame = spark.readStream.format("offsetfs").options(**options).load(known.path)
    if destination is None:
        text = ("topic", "partition", "offset", "timestamp", "cast(key AS string) key", "cast(value AS string) value")
        writer = frame.selectExpr(*text).writeStream.format("console").option("truncate", "false")
    else:
        path = local_path(destination, "the destination of tail")
        if os.path.exists(path) and not os.path.isdir(path):
            raise JobFailed(f"{destination} is not a directory")
        writer = frame.writeStream.format("parquet").option("path", path)
        writer = writer.option("checkpointLocation", os.path.join(path, CHECKPOINT))
    query = (writer.trigger(availableNow=True) if is_once else writer).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()
    progress = [each for each in query.recentProgress if each.numInputRows]
    return TailResult(sum(each.numInputRows for each in progress), len(progress))
