"""The codec of the records of a v2 batch, compiled or in Python.

`offsetfs.storage.reference.codec` has the docstrings and draws the layout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.native import select
from offsetfs.storage.records.format.record_row import COLUMNS
from offsetfs.storage.reference.codec import (
    RECORD_SIZE_MIN,
    Buffer,
    DecodedRecord,
    EncodableRecord,
    Row,
    headers,
)

if TYPE_CHECKING:
    from offsetfs.storage.reference import codec as _codec
else:
    _codec = select("codec")

decode = _codec.decode
encode = _codec.encode
find = _codec.find
join = _codec.join
measure = _codec.measure
scan = _codec.scan
split = _codec.split
survey = _codec.survey

__all__ = [
    "COLUMNS",
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
    "survey",
]
