"""Registers the data source `offsetfs` with a session where Spark cannot find it.

Spark looks for data sources with the Python that it starts workers with: `PYSPARK_PYTHON`, or the `python3` of the
PATH. Without an activated virtual environment that is another Python, which does not know offsetfs.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
