"""The offset map of a round of compaction, and the two walks over records around it: compiled, or their plain twins.

Both do the same to every input; the docstrings are in `compaction_pure`. OFFSETFS_PURE=1 in the environment asks for
the twins, as with `codec`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from offsetfs.storage.compaction.compaction_pure import FULL, MORE, NO_ROOM, OTHER, SLOT_SIZE

if TYPE_CHECKING or os.environ.get("OFFSETFS_PURE") == "1":
    from offsetfs.storage.compaction.compaction_pure import Filter, Indexer, OffsetMap, OutputIndexer, rebase
else:
    try:
        from offsetfs.storage.compaction._compaction import Filter, Indexer, OffsetMap, OutputIndexer, rebase
    except ModuleNotFoundError:  # a module that is there but does not load is an error to be seen
        from offsetfs.storage.compaction.compaction_pure import Filter, Indexer, OffsetMap, OutputIndexer, rebase

IS_COMPILED = rebase.__module__ != "offsetfs.storage.compaction.compaction_pure"

__all__ = [
    "FULL",
    "IS_COMPILED",
    "MORE",
    "NO_ROOM",
    "OTHER",
    "SLOT_SIZE",
    "Filter",
    "Indexer",
    "OffsetMap",
    "OutputIndexer",
    "rebase",
]
