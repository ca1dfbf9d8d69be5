"""Records as columns: the compiled `_columns`, or its plain twin `columns_pure`.

Both do the same to every input; the docstrings are in `columns_pure`. OFFSETFS_PURE=1 in the environment asks for the
twin, as with `codec`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from offsetfs.storage.records.columns_pure import HEADERS, KEY, VALUE, Column, Encoded, HeaderColumns, RecordColumns

if TYPE_CHECKING or os.environ.get("OFFSETFS_PURE") == "1":
    from offsetfs.storage.records.columns_pure import encode_columns, gather, gather_headers, spread_keys
else:
    try:
        from offsetfs.storage.records._columns import encode_columns, gather, gather_headers, spread_keys
    except ModuleNotFoundError:  # a module that is there but does not load is an error to be seen
        from offsetfs.storage.records.columns_pure import encode_columns, gather, gather_headers, spread_keys

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
