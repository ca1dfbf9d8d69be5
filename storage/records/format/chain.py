"""Headers of v2 batches, a block at a time, compiled or in Python.

`offsetfs.storage.reference.chain` has the docstrings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.native import select
from offsetfs.storage.records.format.batch_row import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    COLUMNS,
    COUNT,
    LAST_OFFSET_DELTA,
    LEADER_EPOCH,
    MAGIC_BYTE,
    MAX_TIMESTAMP,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    SIZE,
)
from offsetfs.storage.reference.chain import (
    ANY_OFFSETS,
    ROWS_MAX,
    index_end,
    index_state,
    index_timestamp,
    indexed_position,
    resumed_index_state,
    row,
)

if TYPE_CHECKING:
    from offsetfs.storage.reference import chain as _chain
else:
    _chain = select("chain")

headers = _chain.headers
index = _chain.index
join = _chain.join
measure = _chain.measure
scan = _chain.scan
sound = _chain.sound

__all__ = [
    "ANY_OFFSETS",
    "ATTRIBUTES",
    "BASE_OFFSET",
    "BASE_SEQUENCE",
    "COLUMNS",
    "COUNT",
    "LAST_OFFSET_DELTA",
    "LEADER_EPOCH",
    "MAGIC_BYTE",
    "MAX_TIMESTAMP",
    "POSITION",
    "PRODUCER_EPOCH",
    "PRODUCER_ID",
    "ROWS_MAX",
    "SIZE",
    "headers",
    "index",
    "index_end",
    "index_state",
    "index_timestamp",
    "indexed_position",
    "join",
    "measure",
    "resumed_index_state",
    "row",
    "scan",
    "sound",
]
