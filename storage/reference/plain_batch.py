"""Plain batches, which compaction processes directly, in Python: part of the reference of `native/compaction.pyx`.

A scan takes v2 batches that are plain: whole, valid, neither compressed nor part of a transaction. It stops before any
other batch. The caller decompresses that one, applies the rules of transactions and passes the records, or reports the
error.

    run → MORE      the rest of the block is no whole batch
          OTHER     a batch that is not plain, or not valid: for the caller
          FULL      the map accepts no further key (`Indexer`)
          NO_SPACE  the next batch needs `space_needed` bytes of output (`Filter`)

A batch outside of the expected bounds is not valid. The checksum does not cover base offsets, and a wrong one would
remove all older records of its keys.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct

from offsetfs.storage.errors import MalformedBatch, StorageError
from offsetfs.storage.records.format.batch import Batch, read_batch
from offsetfs.storage.records.format.batch_header import HEADER_SIZE, LOG_OVERHEAD, MAGIC, MAGIC_END, Buffer
from offsetfs.storage.records.format.record_row import COLUMNS, OFFSET_DELTA
from offsetfs.storage.reference.codec import RECORD_SIZE_MIN, scan
from offsetfs.storage.units import I64_MAX

MORE, OTHER, FULL, NO_SPACE = range(4)

_SIZE = Struct(">i")
_SIZE_POSITION = 8
_MAGIC_POSITION = 16


@dataclass(slots=True)
class BatchBounds:
    """The bounds of batches: none begins below `floor`, none reaches `limit`."""

    floor: int = 0
    limit: int = 0


def plain_batch(block: memoryview, start: int, bounds: BatchBounds) -> tuple[Batch | None, int]:
    """Return the valid, plain batch at `start` of the block, or None and the status."""
    left = len(block) - start
    if left < MAGIC_END or _SIZE.unpack_from(block, start + _SIZE_POSITION)[0] + LOG_OVERHEAD > left:
        return None, MORE
    if block[start + _MAGIC_POSITION] != MAGIC:
        return None, OTHER
    try:
        batch = read_batch(block, start)
    except StorageError:
        return None, OTHER
    header = batch.header
    is_plain = not (header.codec or header.is_transactional or header.is_control)
    is_inside = bounds.floor <= header.base_offset and header.last_offset < bounds.limit
    is_countable = header.count <= (header.size - HEADER_SIZE) // RECORD_SIZE_MIN
    return (batch, MORE) if is_plain and is_inside and is_countable else (None, OTHER)


def rising_rows(payload: Buffer, count: int, last_offset_delta: int) -> Iterator[tuple[int, ...]]:
    """Return the rows of the records of a batch (`codec.scan`), whose offsets must rise."""
    rows, before = scan(payload, count), -1
    for at in range(0, len(rows), COLUMNS):
        if not before < rows[at + OFFSET_DELTA] <= last_offset_delta:
            raise MalformedBatch(f"record {at // COLUMNS} has an offset that does not rise, or lies outside its batch")
        before = rows[at + OFFSET_DELTA]
        yield tuple(rows[at : at + COLUMNS])


def check_inside(messages: Buffer, position: int, size: int) -> None:
    """Raise `ValueError` for a row that reaches out of its messages."""
    if not 0 <= position <= len(messages) or size > len(messages) - position:
        raise ValueError("a row outside of its messages")


def check_offset(offset: int) -> None:
    """Raise `MalformedBatch` for a row with an impossible offset."""
    if not 0 <= offset <= I64_MAX:
        raise MalformedBatch("a message with an impossible offset")


def check_rows(rows: array[int]) -> None:
    """Raise `ValueError` for anything but rows of a scan."""
    if rows.typecode != "q" or len(rows) % COLUMNS:
        raise ValueError("not the rows of a scan")
