"""The records of a batch of any format as lines of JSON: what `records.ndjson` and its like show of it.

Batches of v2 are turned into lines as whole buffers (`record_json`), those of v0 and v1 record by record. Control
batches are not excluded here; the caller does that. docs/internals/format/records-ndjson.md has the line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from offsetfs.storage.errors import DecompressionLimit, StorageError
from offsetfs.storage.records.format.batch import Batch
from offsetfs.storage.records.format.batch_header import MAGIC
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
        return _old_lines(batch, prefix, offset_from, offset_to)
    return _asked(record_json.join_json, batch, prefix, offset_from, offset_to)


def measured_json(batch: Batch, prefix: bytes, *, offset_from: int | None = None, offset_to: int | None = None) -> int:
    """Return `len(joined_json(…))`, for v2 without building it; raises the same."""
    if batch.header.magic < MAGIC:
        return len(_old_lines(batch, prefix, offset_from, offset_to))
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


def _old_lines(batch: Batch, prefix: bytes, offset_from: int | None, offset_to: int | None) -> bytes:
    records = [
        record
        for record in batch.records()
        if (offset_from is None or offset_from <= record.offset) and (offset_to is None or record.offset < offset_to)
    ]
    lines = record_json.lines_of(records, prefix)
    if len(lines) > record_json.JSON_BYTES_MAX:
        raise _placed(DecompressionLimit(f"the records take {len(lines)} bytes as JSON"), batch)
    return lines


def _placed(error: StorageError, batch: Batch) -> StorageError:
    return type(error)(error.reason, path=batch.path, position=batch.position, offset=batch.header.base_offset)
