"""Shared by `export` and `tail`: the selection of records, and Parquet that Spark itself writes, in any of its paths.

    DEST/topic=orders/date=2026-11-29/…parquet      `date`: of the timestamp, in UTC; only by date

A destination with a scheme (`s3a://`, `hdfs://`, `abfs://`) is a path of Hadoop: Spark writes there with its own
settings and credentials. `s3://` is taken as `s3a://`, the name that Hadoop has for it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsetfs.pipeline.jobs.workers import JobFailed, check_visible, missing_jar
from offsetfs.pipeline.read_options import ReadOptions, location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
DATE = "date"
_DATE_OF_RECORD = f"date_from_unix_date(int(floor(unix_millis(timestamp) / 86400000))) AS {DATE}"


@dataclass(frozen=True, slots=True)
class LakeResult:
    """The result of an export through Spark's own writer."""

    destination: str
    records: int


def selection(
    topics: Sequence[str],
    *,
    isolation: str = "read_uncommitted",
    start_ms: int | None = None,
    end_ms: int | None = None,
) -> dict[str, str]:
    """Return the options of a reader: the topics, all if there are none, and the range of times.

    A range begins with the first record at or after `start_ms`, and ends before the first one at or after `end_ms`.
    """
    options = {"includeHeaders": "true", "isolation": isolation}
    if topics:
        options["subscribe"] = ",".join(topics)
    if start_ms is not None:
        options |= {"startingTimestamp": str(start_ms), "startingOffsetsByTimestampStrategy": "latest"}
    if end_ms is not None:
        options["endingTimestamp"] = str(end_ms)
    return options


def hadoop_path(text: str) -> str | None:
    """Return the path as Hadoop takes it; None for a directory of this machine."""
    match = _SCHEME.match(text)
    if match is None or match[1].lower() == "file":
        return None
    return f"s3a://{text[match.end() :]}" if match[1].lower() == "s3" else text


def partitioned(frame: DataFrame, *, is_by_date: bool) -> tuple[DataFrame, list[str]]:
    """Return the rows, and the columns by which files are divided."""
    return (frame.selectExpr("*", _DATE_OF_RECORD), ["topic", DATE]) if is_by_date else (frame, ["topic", "partition"])


def export_lake(
    spark: SparkSession, source: str, destination: str, options: dict[str, str], *, is_by_date: bool, compression: str
) -> LakeResult:
    """Write records by Spark's own writer into a new directory. Raises as `export`; `JobFailed` if it has files."""
    from pyspark.sql import Observation, functions

    for path in ReadOptions.parse({**options, "path": source}).paths:
        check_visible(spark, path)
    remote = hadoop_path(destination)
    target = _new_directory(spark, destination) if remote is None else remote
    counted = Observation()
    frame = spark.read.format("offsetfs").options(**options).load(source)
    frame, columns = partitioned(frame, is_by_date=is_by_date)
    frame = frame.observe(counted, functions.count(functions.lit(1)).alias("records"))
    writer = frame.write.mode("append" if remote is None else "errorifexists").partitionBy(*columns)
    try:
        writer.option("compression", compression).parquet(target)
    except Exception as error:
        raise explained(error, destination) or error from None
    return LakeResult(target, counted.get["records"])


def _new_directory(spark: SparkSession, destination: str) -> str:
    path = location(destination)
    os.makedirs(path, exist_ok=True)
    if os.listdir(path):
        raise _has_files(destination)
    check_visible(spark, path, is_to_write=True)
    return path


def explained(error: Exception, destination: str) -> JobFailed | None:
    """Return a clearer error than that of Spark; None for unknown errors."""
    text = str(error)
    if "PATH_ALREADY_EXISTS" in text:
        return _has_files(destination)
    jar = missing_jar(text)
    if jar is not None:
        return JobFailed(f"{destination}: {jar}")
    missing = re.search(r'No FileSystem for scheme "(\w+)"|Class (\S*FileSystem\S*) not found', text)
    if missing is not None:
        return JobFailed(
            f"{destination}: Spark has no {missing[1] or missing[2]}: give its jar, for S3 "
            "--conf spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION"
        )
    return None


def _has_files(destination: str) -> JobFailed:
    return JobFailed(f"{destination} has files: give a new directory; offsetfs spark tail --once adds what is new")
