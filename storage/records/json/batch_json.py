"""The records of batches as lines of JSON, for `records.ndjson` and similar views.

`joined_json` and `measured_json` take one batch of any format. Batches of v2 are turned into lines as whole buffers
(`record_json`), those of v0 and v1 record by record. Control batches are not excluded; the caller does that.

`joined_rows` and `measured_rows` take many plain batches, as `chain.join` and `chain.measure` do for values. Small
batches are many: their headers are read, and their checksums verified, a block at a time, as rows (`chain`), so that
one call of `record_json` is left for each. A batch that is compressed, or is damaged, must be read alone; the functions
above report its error. docs/internals/format/records-ndjson.md has the line.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterator
from typing import TypeVar

from offsetfs.storage.errors import DecompressionLimit, MalformedBatch, StorageError
from offsetfs.storage.records.format import chain
from offsetfs.storage.records.format.batch import Batch
from offsetfs.storage.records.format.batch_header import (
    APPEND_TIME_FLAG,
    CODEC_MASK,
    CONTROL_FLAG,
    HEADER_SIZE,
    MAGIC,
    Buffer,
)
from offsetfs.storage.records.format.record import LOG_APPEND_TIME
from offsetfs.storage.records.json import record_json

_Answer = TypeVar("_Answer")


def joined_json(
    batch: Batch, prefix: bytes, *, offset_from: int | None = None, offset_to: int | None = None
) -> bytes | bytearray:
    """Return the lines of the records with an offset in `[offset_from, offset_to)`, or of all.

    `prefix` comes from `record_json.line_prefix`. Raises what `Batch.payload` and `Batch.records` do, and
    `DecompressionLimit` when the lines take more than `record_json.JSON_BYTES_MAX`.
    """
    if batch.header.magic < MAGIC:
        return record_lines(batch, prefix, offset_from, offset_to)
    return _asked(record_json.join_json, batch, prefix, offset_from, offset_to)


def measured_json(batch: Batch, prefix: bytes, *, offset_from: int | None = None, offset_to: int | None = None) -> int:
    """Return `len(joined_json(…))`, for v2 without building it; raises the same."""
    if batch.header.magic < MAGIC:
        return len(record_lines(batch, prefix, offset_from, offset_to))
    return _asked(record_json.measure_json, batch, prefix, offset_from, offset_to)


def _asked(
    question: Callable[..., _Answer], batch: Batch, prefix: bytes, offset_from: int | None, offset_to: int | None
) -> _Answer:
    header, payload = batch.header, batch.payload()
    try:
        return question(
            payload,
            header.count,
            prefix=prefix,
            base_offset=header.base_offset,
            base_timestamp=header.base_timestamp,
            append_time=header.max_timestamp if header.timestamp_type == LOG_APPEND_TIME else None,
            offset_from=offset_from,
            offset_to=offset_to,
        )
    except StorageError as error:
        raise _placed(error, batch) from None


def record_lines(
    batch: Batch,
    prefix: bytes,
    offset_from: int | None = None,
    offset_to: int | None = None,
    *,
    as_base64: bool = False,
) -> bytes:
    """Return what `joined_json` returns, record by record; `as_base64` as for `record_json.lines_of`."""
    records = [
        record
        for record in batch.records()
        if (offset_from is None or offset_from <= record.offset) and (offset_to is None or record.offset < offset_to)
    ]
    lines = record_json.lines_of(records, prefix, as_base64=as_base64)
    if len(lines) > record_json.JSON_BYTES_MAX:
        raise _placed(DecompressionLimit(f"the records take {len(lines)} bytes as JSON"), batch)
    return lines


def _placed(error: StorageError, batch: Batch) -> StorageError:
    return type(error)(error.reason, path=batch.path, position=batch.position, offset=batch.header.base_offset)


_BASE_TIMESTAMP = struct.Struct(">27xq")  # in a header of v2


def measured_rows(block: Buffer, file_position: int, rows: array[int], prefix: bytes) -> array[int]:
    """Return the bytes of output of each batch; 0 for a control batch, -1 for a batch that must be measured alone.

    `rows` are of whole v2 batches in `block`, which begins at `file_position`; `prefix` is from `line_prefix`.
    """
    sizes = _answers(record_json.measure_json, 0, block, file_position, rows, prefix)
    return array("q", (-1 if size is None else size for size in sizes))


def joined_rows(block: Buffer, file_position: int, rows: array[int], prefix: bytes) -> bytes | bytearray | None:
    """Return the joined output of all batches; None if a batch must be joined alone."""
    pieces = []
    for lines in _answers(record_json.join_json, bytearray(), block, file_position, rows, prefix):
        if lines is None:
            return None
        pieces.append(lines)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _answers(
    question: Callable[..., _Answer],
    nothing: _Answer,
    block: Buffer,
    file_position: int,
    rows: array[int],
    prefix: bytes,
) -> Iterator[_Answer | None]:
    """Yield the result for each batch: `nothing` if it has no records to show, None if it must be read alone."""
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
