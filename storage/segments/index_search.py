"""Searching the entries of an index file: the compiled `_index_search`, or its plain twin `index_search_pure`.

Both do the same to every input; the docstrings are in `index_search_pure`. OFFSETFS_PURE=1 in the environment asks for
the twin, as with `codec`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING or os.environ.get("OFFSETFS_PURE") == "1":
    from offsetfs.storage.segments.index_search_pure import around, time_floor
else:
    try:
        from offsetfs.storage.segments._index_search import around, time_floor
    except ModuleNotFoundError:  # a module that is there but does not load is an error to be seen
        from offsetfs.storage.segments.index_search_pure import around, time_floor

__all__ = ["around", "time_floor"]
