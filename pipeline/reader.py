"""The batch reader: a query's ranges, frozen when it is planned, and its tasks.

A DataFrame is a snapshot: Spark asks for the tasks once, and what is appended afterwards is not in it. Filters are not
pushed down: Spark 4.1 to 4.3 keep a pushed filter for later queries of the same DataFrame.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from offsetfs.pipeline.read_options import ReadOptions
from offsetfs.pipeline.scan_range import Range

if TYPE_CHECKING:
    from offsetfs.pipeline.log_directories import ScanDirectories


class Split(InputPartition):
    """What one task reads."""

    def __init__(self, ranges: tuple[Range, ...]) -> None:
        self.ranges = ranges

    def __repr__(self) -> str:
        return f"Split({', '.join(f'{each.name}[{each.start}, {each.end})' for each in self.ranges)})"


class Reader(DataSourceReader):
    """Plans in the driver, reads in the tasks."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        from offsetfs.pipeline.log_directories import opened
        from offsetfs.pipeline.scan_range import resolve

        # Opened for planning only: the tasks run in other processes and open the directory themselves.
        with opened(self._options.paths, self._options.access) as directory:
            return splits_of(directory, resolve(directory, self._options), self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read(partition, self._options, self._schema)


def splits_of(directory: ScanDirectories, ranges: list[Range], options: ReadOptions) -> list[InputPartition]:
    """Return the tasks that read the ranges."""
    from offsetfs.pipeline.splits import cut

    tasks = cut(
        directory,
        ranges,
        splits_min=options.splits_min,
        bytes_per_split=options.bytes_per_split,
        records_per_split_max=options.records_per_split_max,
    )
    return [Split(each) for each in tasks] or [Split(())]


def read(partition: InputPartition, options: ReadOptions, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yield the records of one task as Arrow batches."""
    from offsetfs.pipeline.scan import scan
    from offsetfs.pipeline.schema import arrow_schema
    from offsetfs.pipeline.task_process import settle

    assert isinstance(partition, Split)
    settle()
    return scan(partition.ranges, options, arrow_schema(schema))
