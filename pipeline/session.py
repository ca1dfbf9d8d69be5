"""Spark sessions: that of a job, and the registration of the data source `offsetfs` with one.

`session` returns the active session, or a local one with the settings that Python tasks need. `register` is for
sessions in which Spark cannot find the data source: Spark looks for data sources with the Python that it starts workers
with: `PYSPARK_PYTHON`, or the `python3` of the PATH. Without an activated virtual environment that is another Python,
which does not know offsetfs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOTHING: Mapping[str, str] = MappingProxyType({})

SETTINGS = MappingProxyType(
    {
        "spark.sql.session.timeZone": "UTC",
        "spark.python.unix.domain.socket.enabled": "true",  # halves what a Python task costs
        "spark.ui.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    }
)


def session(master: str | None = None, conf: Mapping[str, str] = _NOTHING, name: str = "offsetfs") -> SparkSession:
    """Return the active session, or start one with `master`, with the master of spark-submit, or with all local cores.

    `sc://host` is a Spark Connect server, which has its own settings. `conf` overrides `SETTINGS`. A master that is
    already set is never overridden.
    """
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    wanted = master or _submitted() or "local[*]"
    if wanted.startswith("sc://"):
        return _configured(SparkSession.builder.appName(name).remote(wanted), conf)
    if wanted.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return _configured(SparkSession.builder.appName(name).master(wanted), {**SETTINGS, **conf})


def _submitted() -> str | None:
    """Return the master that spark-submit was given."""
    from pyspark import SparkConf

    master: str | None = SparkConf().get("spark.master")
    return master


def _configured(builder: SparkSession.Builder, conf: Mapping[str, str]) -> SparkSession:
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def register(spark: SparkSession) -> None:
    """Register the data source with `spark`; without PYSPARK_PYTHON let its workers use this Python.

    On a cluster this Python has to be under the same path on every node, or PYSPARK_PYTHON has to be set. A Spark
    Connect session gets the registration only: its server has its own Python, where offsetfs has to be installed.
    """
    from offsetfs.pipeline.source import OffsetfsDataSource

    if "PYSPARK_PYTHON" not in os.environ and not _is_remote(spark):
        # Otherwise the planner starts the `python3` of the PATH, which does not find offsetfs.
        spark.sparkContext.pythonExec = sys.executable
    spark.dataSource.register(OffsetfsDataSource)


def _is_remote(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")
