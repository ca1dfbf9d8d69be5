"""How Spark finds the data source `offsetfs`: it looks into packages called `pyspark_…` for a `DefaultSource`."""

from offsetfs.pipeline.source import OffsetfsDataSource as DefaultSource

__all__ = ["DefaultSource"]
