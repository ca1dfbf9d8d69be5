"""The columns of records in Arrow: those of Spark's Kafka source.

key value        binary
topic            string
partition        int32
offset           int64
timestamp        timestamp[us, UTC]      a time beyond the year 294247 becomes the last one of it
timestampType    int32       0 CreateTime, 1 LogAppendTime, -1 none
headers          list<struct<key: string, value: binary>>; null where a record has none
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

CORRUPT = "_corrupt_record"
"""A column of the Spark source only: what could not be read."""

HEADERS = "headers"

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        (HEADERS, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
"""All columns, in their order."""


def schema_of(columns: Sequence[str] | None) -> pa.Schema:
    """Return the schema of some columns, in the order given; None: all. ValueError for an unknown name."""
    if columns is None:
        return SCHEMA
    for name in columns:
        if name not in SCHEMA.names:
            raise ValueError(f"there is no column {name!r}, only {', '.join(SCHEMA.names)}")
    return pa.schema([SCHEMA.field(name) for name in columns])
