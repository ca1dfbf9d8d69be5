"""The data source `offsetfs`: batch and stream, readers and writers of `format("offsetfs")`.

Spark finds it by the name of the package `pyspark_offsetfs`. The objects here are pickled and sent to other processes,
so they hold options and no open file. Heavy modules are imported where they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType
except ModuleNotFoundError as error:
    from offsetfs.common.extras import install_command

    raise ImportError(f"the Spark data source needs PySpark 4.2 or later: {install_command('spark')}") from error

if TYPE_CHECKING:
    from offsetfs.pipeline.read_options import ReadOptions


class OffsetfsDataSource(DataSource):
    """Log directories, by the columns and the options of Spark's Kafka source. docs/use/spark.md shows everything."""

    @classmethod
    def name(cls) -> str:
        return "offsetfs"

    def schema(self) -> StructType:
        from offsetfs.pipeline.schema import schema_of

        options = self._read_options(is_stream=None)  # Spark does not say which it is
        if not options.decodes:
            return schema_of(options)
        from offsetfs.pipeline.decoding import DecodingPlan
        from offsetfs.pipeline.log_directories import opened

        with opened(options.paths, options.access) as directory:
            plan = DecodingPlan(options, None, directory)
        value, key = plan.value_type, plan.key_type
        if options.schema_location is not None:
            from offsetfs.pipeline.kept_columns import kept_types

            value, key = kept_types(options.schema_location, plan.topic, (value, key), options.access.timeout_s)
        return schema_of(options, value, key)

    def reader(self, schema: StructType) -> DataSourceReader:
        from offsetfs.pipeline.reader import Reader
        from offsetfs.pipeline.schema import check_schema

        options = self._read_options()  # first: a query of a table has none, and the table's own schema
        check_schema(schema, options)
        return Reader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from offsetfs.pipeline.reader import StreamReader
        from offsetfs.pipeline.schema import check_schema

        options = self._read_options(is_stream=True)
        check_schema(schema, options)
        return StreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from offsetfs.pipeline.writer import batch_writer

        return batch_writer(dict(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from offsetfs.pipeline.writer import stream_writer

        return stream_writer(dict(self.options), schema)

    def _read_options(self, *, is_stream: bool | None = False) -> ReadOptions:
        from offsetfs.pipeline.read_options import ReadOptions

        return ReadOptions.parse(dict(self.options), is_stream=is_stream)
