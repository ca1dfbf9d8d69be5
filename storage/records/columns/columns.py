"""Records as columns, compiled or in Python. `offsetfs.storage.reference.columns` has the docstrings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.native import select
from offsetfs.storage.reference.columns import (
    HEADERS,
    KEY,
    VALUE,
    Column,
    Encoded,
    HeaderColumns,
    RecordColumns,
)

if TYPE_CHECKING:
    from offsetfs.storage.reference import columns as _columns
else:
    _columns = select("columns")

encode_columns = _columns.encode_columns
gather = _columns.gather
gather_headers = _columns.gather_headers
spread_keys = _columns.spread_keys

__all__ = [
    "HEADERS",
    "KEY",
    "VALUE",
    "Column",
    "Encoded",
    "HeaderColumns",
    "RecordColumns",
    "encode_columns",
    "gather",
    "gather_headers",
    "spread_keys",
]
