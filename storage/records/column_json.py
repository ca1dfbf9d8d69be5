"""Columns as lines of JSON, compiled or in Python. `offsetfs.storage.reference.column_json` has the docstrings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.native import select
from offsetfs.storage.reference.column_json import (
    BASE64,
    BITS,
    DATE,
    DECIMAL,
    INSTANT,
    LINES_BYTES_MAX,
    LIST,
    MAP,
    NOTHING,
    NUMBER,
    SIGNED,
    STRUCT,
    TEXT,
    TIME,
    TIMESTAMP,
    UNION,
    UNSIGNED,
    VERBATIM,
    JsonColumn,
)

if TYPE_CHECKING:
    from offsetfs.storage.reference import column_json as _column_json
else:
    _column_json = select("column_json")

lines = _column_json.lines

__all__ = [
    "BASE64",
    "BITS",
    "DATE",
    "DECIMAL",
    "INSTANT",
    "LINES_BYTES_MAX",
    "LIST",
    "MAP",
    "NOTHING",
    "NUMBER",
    "SIGNED",
    "STRUCT",
    "TEXT",
    "TIME",
    "TIMESTAMP",
    "UNION",
    "UNSIGNED",
    "VERBATIM",
    "JsonColumn",
    "lines",
]
