"""Binary search in the entries of an index file: selects the compiled `_index_search` or `index_search_pure`.

Both return the same results; the docstrings are in `index_search_pure`. OFFSETFS_PURE=1 selects the Python reference.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING or os.environ.get("OFFSETFS_PURE") == "1":
    from offsetfs.storage.segments.index_search_pure import around, time_floor
else:
    try:
        from offsetfs.storage.segments._index_search import around, time_floor
    except ModuleNotFoundError:  # a module that exists but fails to load is an error that must be visible
        from offsetfs.storage.segments.index_search_pure import around, time_floor

__all__ = ["around", "time_floor"]
