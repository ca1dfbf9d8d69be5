"""`export` into a table of a database, through Spark's JDBC writer.

The user provides the driver of the database: a jar that Spark loads (`spark.jars`, `spark.jars.packages`). Rows are
those of the data source, headers as JSON. Tasks write in parallel, a transaction each, so a failed job leaves the rows
of the completed tasks. Therefore the table must be new, unless an option allows to append. Exported offsets are not
recorded; an export to Parquet can be continued.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from offsetfs.pipeline.jobs.lake import selection
from offsetfs.pipeline.jobs.workers import JobFailed, check_visible
from offsetfs.pipeline.read_options import ReadOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOTHING: Mapping[str, str] = MappingProxyType({})
COLUMNS = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "to_json(headers) AS headers")
"""The columns of the table. A database has no array of pairs; values of headers are base64 there."""

_DRIVERS = {
    "postgresql": "org.postgresql.Driver",
    "mysql": "com.mysql.cj.jdbc.Driver",
    "mariadb": "org.mariadb.jdbc.Driver",
    "sqlserver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
}
"""Classes of drivers: a driver that came as `spark.jars` is found by its name only."""


@dataclass(frozen=True, slots=True)
class TableResult:
    """The number of rows that this run has written."""

    table: str
    records: int


def export_table(
    spark: SparkSession,
    source: str,
    url: str,
    table: str,
    topics: Sequence[str] = (),
    *,
    isolation: str = "read_uncommitted",
    is_to_append: bool = False,
    properties: Mapping[str, str] = _NOTHING,
    start_ms: int | None = None,
    end_ms: int | None = None,
) -> TableResult:
    """Write a log directory, or some of its topics, into a table, which is created; committed on return.

    `start_ms`, `end_ms`: as of `lake.selection`.

    `properties` are passed to Spark's JDBC writer (`user`, `password`, `batchsize`, …). Raises `OptionError`,
    `JobFailed` (also if the table exists, without `is_to_append`), and what Spark raises for an error of the database.
    """
    from pyspark.sql import Observation, functions

    given = selection(topics, isolation=isolation, start_ms=start_ms, end_ms=end_ms)
    for path in ReadOptions.parse({**given, "path": source}).paths:
        check_visible(spark, path)
    counted = Observation()
    frame = spark.read.format("offsetfs").options(**given).load(source).selectExpr(*COLUMNS)
    frame = frame.observe(counted, functions.count(functions.lit(1)).alias("records"))
    mode = "append" if is_to_append else "error"
    driver = {"driver": _DRIVERS[kind]} if (kind := url.split(":", 2)[1]) in _DRIVERS else {}
    try:
        frame.write.jdbc(url, table, mode=mode, properties={**driver, **properties})
    except Exception as error:
        raise _explained(error, url, table) or error from None
    return TableResult(table, counted.get["records"])


def _explained(error: Exception, url: str, table: str) -> JobFailed | None:
    """Return a clearer error than that of Spark; None for unknown errors."""
    text = str(error)
    if re.search(r"TABLE_OR_VIEW_ALREADY_EXISTS|SaveMode: ErrorIfExists", text):
        return JobFailed(f"table {table} is there already; --append (is_to_append) adds to it")
    if "ClassNotFoundException" in text or "No suitable driver" in text:
        kind = ":".join(url.split(":", 2)[:2])
        return JobFailed(
            f"Spark has no driver for {kind}: --conf spark.jars=JAR, or spark.jars.packages=GROUP:NAME:VERSION"
        )
    return None
