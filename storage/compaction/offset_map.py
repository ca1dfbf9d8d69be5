"""The offset map of compaction and the two record scans, compiled or in Python.

`offsetfs.storage.reference.compaction` has the docstrings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.native import select
from offsetfs.storage.reference.compaction import FULL, MORE, NO_SPACE, OTHER, SLOT_SIZE

if TYPE_CHECKING:
    from offsetfs.storage.reference import compaction as _compaction
else:
    _compaction = select("compaction")

Filter = _compaction.Filter
Indexer = _compaction.Indexer
OffsetMap = _compaction.OffsetMap
OutputIndexer = _compaction.OutputIndexer
rebase = _compaction.rebase

__all__ = [
    "FULL",
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
