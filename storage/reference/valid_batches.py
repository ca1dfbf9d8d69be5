"""Finds batches without findings, in Python: the reference of `native/valid_batches.pyx`.

Nearly all batches of nearly all logs are valid: no damage, no faults inside, consecutive offsets. They are skipped in
blocks, and only the others are checked one by one.
"""

from __future__ import annotations

from array import array

from offsetfs.storage.records.format import chain
from offsetfs.storage.records.format.batch import HEADER_SIZE, MAGIC, Batch, parse_header
from offsetfs.storage.records.format.batch_header import Buffer
from offsetfs.storage.verify.batches import batch_faults


def valid_until(block: Buffer, file_position: int, rows: array[int], first: int, inflated_bytes_max: int) -> int:
    """Return the number of the first batch from `first` on that must be checked alone, or the number of batches.

    `rows` (`chain`) are of whole batches with verified checksums, those of v2 in `block`, which begins at
    `file_position`; `ValueError` for others. A valid batch is of v2, holds data and has no `batch_faults`; its offsets
    continue those of the batch before it, in the same leader epoch.
    """
    count, rest = divmod(len(rows), chain.COLUMNS)
    if rows.typecode != "q" or rest or not 0 <= first <= count:
        raise ValueError("not an array of rows")
    before: array[int] | None = None
    for number in range(first, count):
        row = rows[number * chain.COLUMNS : (number + 1) * chain.COLUMNS]
        if row[chain.MAGIC_BYTE] != MAGIC:
            return number
        data = _bytes(block, row[chain.POSITION] - file_position, row[chain.SIZE])
        if (before is not None and not _follows(before, row)) or not _is_quiet(data, inflated_bytes_max):
            return number
        before = row
    return count


def _bytes(block: Buffer, start: int, size: int) -> memoryview:
    if start < 0 or size < HEADER_SIZE or start + size > len(block):
        raise ValueError("rows of another block")
    return memoryview(block)[start : start + size]


def _follows(before: array[int], row: array[int]) -> bool:
    expected = before[chain.BASE_OFFSET] + before[chain.LAST_OFFSET_DELTA] + 1
    return row[chain.BASE_OFFSET] == expected and row[chain.LEADER_EPOCH] == before[chain.LEADER_EPOCH]


def _is_quiet(data: memoryview, inflated_bytes_max: int) -> bool:
    header = parse_header(data)
    return not (header.is_control or batch_faults(Batch(header, data), inflated_bytes_max)[0])
