"""Avro values into columns, compiled or in Python. `offsetfs.storage.reference.avro` has the docstrings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.native import select
from offsetfs.storage.reference.avro import (
    ARRAY,
    BOOLEAN,
    BRANCH,
    BYTES,
    CONSTANT,
    DECIMAL,
    DOUBLE,
    DURATION,
    ENUM,
    FAULTS,
    FIXED,
    FLOAT,
    FLOAT_AS_DOUBLE,
    INT,
    INT_AS_DOUBLE,
    INT_AS_FLOAT,
    INT_WITHIN,
    LONG,
    LONG_WITHIN,
    MAP,
    MEMBER,
    NULL,
    RAW,
    RECORD,
    TEXT,
    UUID,
)
from offsetfs.storage.reference.decoded_columns import (
    BITS,
    COLUMN_NUMBERS,
    ITEMS,
    NOTHING,
    STRUCT,
    VARIABLE,
    WIDE,
    ColumnBuffers,
    DecodingFault,
)

if TYPE_CHECKING:
    from offsetfs.storage.reference import avro as _avro
else:
    _avro = select("avro")

AvroColumnDecoder = _avro.AvroColumnDecoder

__all__ = [
    "ARRAY",
    "BITS",
    "BOOLEAN",
    "BRANCH",
    "BYTES",
    "COLUMN_NUMBERS",
    "CONSTANT",
    "DECIMAL",
    "DOUBLE",
    "DURATION",
    "ENUM",
    "FAULTS",
    "FIXED",
    "FLOAT",
    "FLOAT_AS_DOUBLE",
    "INT",
    "INT_AS_DOUBLE",
    "INT_AS_FLOAT",
    "INT_WITHIN",
    "ITEMS",
    "LONG",
    "LONG_WITHIN",
    "MAP",
    "MEMBER",
    "NOTHING",
    "NULL",
    "RAW",
    "RECORD",
    "STRUCT",
    "TEXT",
    "UUID",
    "VARIABLE",
    "WIDE",
    "AvroColumnDecoder",
    "ColumnBuffers",
    "DecodingFault",
]
