"""Rows of records whose fields have some bytes, compiled or in Python.

`offsetfs.storage.reference.record_search` has the docstrings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.native import select
from offsetfs.storage.reference.record_search import IN_HEADERS, IN_KEY, IN_VALUE

if TYPE_CHECKING:
    from offsetfs.storage.reference import record_search as _record_search
else:
    _record_search = select("record_search")

contains = _record_search.contains
rows_with = _record_search.rows_with
rows_with_header = _record_search.rows_with_header

__all__ = ["IN_HEADERS", "IN_KEY", "IN_VALUE", "contains", "rows_with", "rows_with_header"]
