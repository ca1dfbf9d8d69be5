"""The offset map of compaction and the two record scans: selects the compiled code or the Python reference.

Both return the same results; the docstrings are in `compaction_pure`. OFFSETFS_PURE=1 selects the Python reference.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from offsetfs.storage.compaction.compaction_pure import FULL, MORE, NO_SPACE, OTHER, SLOT_SIZE

if TYPE_CHECKING or os.environ.get("OFFSETFS_PURE") == "1":
    from offsetfs.storage.compaction.compaction_pure import Filter, Indexer, OffsetMap, OutputIndexer, rebase
else:
    try:
        from offsetfs.storage.compaction._compaction import Filter, Indexer, OffsetMap, OutputIndexer, rebase
    except ModuleNotFoundError:  # a module that exists but fails to load is an error that must be visible
        from offsetfs.storage.compaction.compaction_pure import Filter, Indexer, OffsetMap, OutputIndexer, rebase

IS_COMPILED = rebase.__module__ != "offsetfs.storage.compaction.compaction_pure"

__all__ = [
    "FULL",
    "IS_COMPILED",
    "MORE",
    "NO_SPACE",
    "OTHER",
    "SLOT_SIZE",
    "Filter",
    "Indexer",
    "OffsetMap",
    "OutputIndexer",
    "rebase",
]
