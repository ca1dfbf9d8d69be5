"""The records of many plain batches as lines of JSON: what `chain.measure` and `chain.join` are for values.

Small batches are many. As rows (`chain`) their headers are read, and their checksums verified, a block at a time; what
is left to do for each is one call of `record_json`. A batch that is compressed, or no records at all, has to be asked
itself (`batch_json`), which says what is wrong with it. docs/internals/format/records-ndjson.md has the line.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterator
from typing import TypeVar

from offsetfs.storage.errors import DecompressionLimit, MalformedBatch
from offsetfs.storage.records.format import chain
from offsetfs.storage.records.format.batch_header import APPEND_TIME_FLAG, CODEC_MASK, CONTROL_FLAG, HEADER_SIZE, Buffer
from offsetfs.storage.records.json import record_json

_BASE_TIMESTAMP = struct.Struct(">27xq")  # in a header of v2

_Answer = TypeVar("_Answer")


def measure(block: Buffer, file_position: int, rows: array[int], prefix: bytes) -> array[int]:
    """Return the bytes of output of each batch; 0 for a control batch, -1 where it has to be asked itself.

    `rows` are of whole v2 batches in `block`, which begins at `file_position`; `prefix` is from `line_prefix`.
    """
    sizes = _asked(record_json.measure_json, 0, block, file_position, rows, prefix)
    return array("q", (-1 if size is None else size for size in sizes))


def join(block: Buffer, file_position: int, rows: array[int], prefix: bytes) -> bytes | bytearray | None:
    """Return the output of all batches, one behind the other; None when one of them has to be asked itself."""
    pieces = []
    for lines in _asked(record_json.join_json, bytearray(), block, file_position, rows, prefix):
        if lines is None:
            return None
        pieces.append(lines)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _asked(
    question: Callable[..., _Answer],
    nothing: _Answer,
    block: Buffer,
    file_position: int,
    rows: array[int],
    prefix: bytes,
) -> Iterator[_Answer | None]:
    """Yield the answer of each batch: `nothing` where it has no records to show, None where it has to be asked."""
    view = memoryview(block)
    names = chain.POSITION, chain.SIZE, chain.ATTRIBUTES, chain.COUNT, chain.BASE_OFFSET, chain.MAX_TIMESTAMP
    for position, size, flags, count, base_offset, max_timestamp in zip(
        *(rows[name :: chain.COLUMNS] for name in names), strict=True
    ):
        start = position - file_position
        assert start >= 0 and HEADER_SIZE <= size <= len(view) - start, "rows of another block"
        if flags & CONTROL_FLAG or count == 0:
            yield nothing
        elif flags & CODEC_MASK:
            yield None
        else:
            try:
                yield question(
                    view[start + HEADER_SIZE : start + size],
                    count,
                    prefix=prefix,
                    base_offset=base_offset,
                    base_timestamp=_BASE_TIMESTAMP.unpack_from(view, start)[0],
                    append_time=max_timestamp if flags & APPEND_TIME_FLAG else None,
                )
            except (MalformedBatch, DecompressionLimit):
                yield None
