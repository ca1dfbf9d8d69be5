"""The columns of a query: those of Spark's Kafka source, and one for what could not be read.

key value        binary; with decode=auto the types of their schemas
topic            string
partition        int
offset           long
timestamp        timestamp
timestampType    int         0 CreateTime, 1 LogAppendTime, -1 none
headers          array<struct<key:string,value:binary>>     with includeHeaders; null where there are none
value_error      string      with decode=auto: why a value, or else a key, is not decoded
_corrupt_record  string      with mode=PERMISSIVE: what could not be read, and where
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from offsetfs.pipeline.read_options import PERMISSIVE, OptionError, ReadOptions
from offsetfs.tables.arrow import CORRUPT, HEADERS

VALUE_ERROR = "value_error"

HEADERS_TYPE = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

READABLE = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField(HEADERS, HEADERS_TYPE),
        StructField(CORRUPT, StringType()),
    ]
)


def schema_of(options: ReadOptions, value: DataType | None = None, key: DataType | None = None) -> StructType:
    """Return the columns of a query without an explicit schema. `value`, `key`: the types of decoded ones."""
    left_out = set()
    if not options.has_headers:
        left_out.add(HEADERS)
    if options.mode != PERMISSIVE:
        left_out.add(CORRUPT)
    fields = [field for field in READABLE.fields if field.name not in left_out]
    if value is None:
        return StructType(fields)
    types = {"key": BinaryType() if key is None else key, "value": value}
    shown = [StructField(field.name, types.get(field.name, field.dataType)) for field in fields]
    return StructType([*shown, StructField(VALUE_ERROR, StringType())])


def check_schema(schema: StructType, options: ReadOptions) -> None:
    """Raise `OptionError` for an unknown column, or a column of another type; of a decoded value: see `decoding`."""
    known = {field.name: field.dataType for field in READABLE.fields}
    if options.decodes:
        known |= {VALUE_ERROR: StringType()}
        schema = StructType([field for field in schema.fields if field.name not in ("key", "value")])
    for field in schema.fields:
        if field.name not in known:
            raise OptionError(f"schema: there is no column {field.name}, only {', '.join(known)}")
        if field.dataType != known[field.name]:
            wanted = known[field.name].simpleString()
            raise OptionError(
                f"schema: {field.name} is {wanted}, not {field.dataType.simpleString()}: cast it afterwards"
            )


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the exact schema that Spark requires of Arrow batches."""
    return to_arrow_schema(schema, timezone="UTC")
