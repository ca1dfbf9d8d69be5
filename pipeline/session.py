"""The Spark session of a job: one that is there already, or one of this machine with what Python tasks need."""

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
    """Return the active session, or begin one: of `master`, of what spark-submit says, or of all cores here.

    `conf` is stronger than `SETTINGS`. A master that is set already is never overridden.
    """
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    wanted = master or SparkConf().get("spark.master") or "local[*]"
    if wanted.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName(name).master(wanted)
    for key, value in {**SETTINGS, **conf}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
