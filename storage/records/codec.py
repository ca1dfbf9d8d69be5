"""The record codec: the compiled `_codec`, or its plain twin `codec_pure` when that was not built or is not wanted.

Both do the same to every input; the docstrings are in `codec_pure`. OFFSETFS_PURE=1 in the environment asks for the
twin, which is the one thing the engine ever takes from there: it changes speed, never an answer.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from offsetfs.storage.records.codec_pure import (
    COLUMNS,
    RECORD_SIZE_MIN,
    Buffer,
    DecodedRecord,
    EncodableRecord,
    Row,
    headers,
)

if TYPE_CHECKING or os.environ.get("OFFSETFS_PURE") == "1":
    from offsetfs.storage.records.codec_pure import decode, encode, find, join, measure, scan, split
else:
    try:
        from offsetfs.storage.records._codec import decode, encode, find, join, measure, scan, split
    except ModuleNotFoundError:  # a module that is there but does not load is an error to be seen
        from offsetfs.storage.records.codec_pure import decode, encode, find, join, measure, scan, split

IS_COMPILED = split.__module__ != "offsetfs.storage.records.codec_pure"

__all__ = [
    "COLUMNS",
    "IS_COMPILED",
    "RECORD_SIZE_MIN",
    "Buffer",
    "DecodedRecord",
    "EncodableRecord",
    "Row",
    "decode",
    "encode",
    "find",
    "headers",
    "join",
    "measure",
    "scan",
    "split",
]
