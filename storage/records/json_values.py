"""JSON values into columns, compiled or in Python. `offsetfs.storage.reference.json_values` has the docstrings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.native import select
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
from offsetfs.storage.reference.json_values import (
    BOOLEAN,
    FAULTS,
    INTEGER,
    JSON,
    LIST,
    MAP,
    NULL,
    NUMBER,
    OBJECT,
    TEXT,
)

if TYPE_CHECKING:
    from offsetfs.storage.reference import json_values as _json_values
else:
    _json_values = select("json_values")

JsonColumnDecoder = _json_values.JsonColumnDecoder

__all__ = [
    "BITS",
    "BOOLEAN",
    "COLUMN_NUMBERS",
    "FAULTS",
    "INTEGER",
    "ITEMS",
    "JSON",
    "LIST",
    "MAP",
    "NOTHING",
    "NULL",
    "NUMBER",
    "OBJECT",
    "STRUCT",
    "TEXT",
    "VARIABLE",
    "WIDE",
    "ColumnBuffers",
    "DecodingFault",
    "JsonColumnDecoder",
]
