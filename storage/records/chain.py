"""Headers of v2 batches by the block: the compiled `_chain`, or its plain twin `chain_pure`.

Both do the same to every input; the docstrings are in `chain_pure`. OFFSETFS_PURE=1 in the environment asks for the
twin.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from offsetfs.storage.records.chain_pure import (
    ANY_OFFSETS,
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
    ROWS_MAX,
    SIZE,
    index_end,
    index_state,
    index_timestamp,
    row,
)

if TYPE_CHECKING or os.environ.get("OFFSETFS_PURE") == "1":
    from offsetfs.storage.records.chain_pure import headers, index, join, measure, sound
else:
    try:
        from offsetfs.storage.records._chain import headers, index, join, measure, sound
    except ModuleNotFoundError:  # a module that is there but does not load is an error to be seen
        from offsetfs.storage.records.chain_pure import headers, index, join, measure, sound

IS_COMPILED = sound.__module__ != "offsetfs.storage.records.chain_pure"

__all__ = [
    "ANY_OFFSETS",
    "ATTRIBUTES",
    "BASE_OFFSET",
    "BASE_SEQUENCE",
    "COLUMNS",
    "COUNT",
    "IS_COMPILED",
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
    "join",
    "measure",
    "row",
    "sound",
]
