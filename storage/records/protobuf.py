"""Protobuf values into columns, compiled or in Python. `offsetfs.storage.reference.protobuf` has the docstrings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.native import select
from offsetfs.storage.reference.decoded_columns import (
    BITS,
    COLUMN_NUMBERS,
    ITEMS,
    STRUCT,
    VARIABLE,
    WIDE,
    ColumnBuffers,
)
from offsetfs.storage.reference.protobuf import (
    BOOL,
    BYTES,
    DELIMITED,
    FAULTS,
    FIXED32,
    FIXED64,
    MESSAGE,
    RAW,
    REPEATED,
    TEXT,
    VARINT32,
    VARINT64,
    ZERO,
    ZIGZAG32,
    ZIGZAG64,
)

if TYPE_CHECKING:
    from offsetfs.storage.reference import protobuf as _protobuf
else:
    _protobuf = select("protobuf")

ProtobufColumnDecoder = _protobuf.ProtobufColumnDecoder

__all__ = [
    "BITS",
    "BOOL",
    "BYTES",
    "COLUMN_NUMBERS",
    "DELIMITED",
    "FAULTS",
    "FIXED32",
    "FIXED64",
    "ITEMS",
    "MESSAGE",
    "RAW",
    "REPEATED",
    "STRUCT",
    "TEXT",
    "VARIABLE",
    "VARINT32",
    "VARINT64",
    "WIDE",
    "ZERO",
    "ZIGZAG32",
    "ZIGZAG64",
    "ColumnBuffers",
    "ProtobufColumnDecoder",
]
