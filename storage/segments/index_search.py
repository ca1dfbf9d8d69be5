"""Binary search in the entries of an index file, compiled or in Python.

`offsetfs.storage.reference.index_search` has the docstrings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.native import select

if TYPE_CHECKING:
    from offsetfs.storage.reference import index_search as _index_search
else:
    _index_search = select("index_search")

around = _index_search.around
time_floor = _index_search.time_floor

__all__ = ["around", "time_floor"]
