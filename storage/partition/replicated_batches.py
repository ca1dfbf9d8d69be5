"""The batches of a Fetch response that a log appends as they are, at their own offsets.

    log ends at 100     │ 90 … 99 │ 100 … 149 │ 160 … 199 │ 200 …
                          skipped   appended    appended    cut: left out

A Fetch response begins with the batch that contains the offset asked for, and may end within a batch. Checksums are
verified here, all of them before the first byte is written. Offsets rise, with gaps where compaction removed records.
Batches of v2 are read by the block (`chain`), messages of v0 and v1 one by one. Follows Kafka's
UnifiedLog.appendAsFollower and analyzeAndValidateRecords.
"""

from __future__ import annotations

from offsetfs.storage.errors import MalformedBatch, OffsetGap, StorageError
from offsetfs.storage.names import OFFSET_MAX
from offsetfs.storage.records.columns.row_walk import Rows
from offsetfs.storage.records.format import chain
from offsetfs.storage.records.format.batch import read_batch
from offsetfs.storage.records.format.batch_header import LOG_OVERHEAD, MAGIC, MAGIC_END, BatchHeader, parse_header


def whole_header(data: memoryview, position: int, path: str) -> BatchHeader | None:
    """Return the header of the batch at `position`; None if `data` ends before the batch does, or there.

    `MalformedBatch` for bytes that are no batch.
    """
    left = len(data) - position
    if left < MAGIC_END:
        return None
    size = int.from_bytes(data[position + 8 : position + LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD
    if size > left:
        return None
    try:
        return parse_header(data, position, path=path)
    except MalformedBatch as error:
        raise MalformedBatch(f"the source sent {error.reason}", path=path) from None


def first_new(data: memoryview, next_offset: int, path: str) -> int:
    """Return the position of the first batch that ends at `next_offset` or above."""
    position = 0
    while (header := whole_header(data, position, path)) is not None and 0 <= header.last_offset < next_offset:
        position += header.size
    return position


def next_rows(data: memoryview, position: int, next_offset: int, path: str) -> Rows | None:
    """Return batches from `position` on, verified, with their positions in `data`; None if no whole batch is left.

    At most `chain.ROWS_MAX`, up to the first damaged batch. If the first batch is damaged, raises `CorruptBatch` or
    `MalformedBatch`, also for an offset below `next_offset`.
    """
    numbers, _ = chain.sound(data, position, len(data), 0, next_offset, OFFSET_MAX)
    if numbers:
        return Rows(numbers, data, 0)
    header = whole_header(data, position, path)
    if header is None:
        return None
    try:
        read_batch(data, position, path=path)
    except StorageError as error:
        raise type(error)(error.reason, path=path, offset=header.base_offset) from None
    if header.magic == MAGIC or not next_offset <= header.base_offset < OFFSET_MAX:
        reason = f"the source sent a batch of offsets {header.base_offset} to {header.last_offset}"
        raise MalformedBatch(f"{reason}, but the log ends at {next_offset}", path=path, offset=header.base_offset)
    return Rows(chain.row(position, header), data, 0, header)


def before_gap(rows: Rows, next_offset: int, path: str) -> Rows:
    """Return the batches that continue at `next_offset` without a gap; `OffsetGap` if the first one is behind it."""
    first = _first_offset(rows)
    if first > next_offset:
        raise OffsetGap(f"the source sent no records from {next_offset} to {first - 1}", path=path, offset=first)
    # Batches do not overlap, so that there is no gap where they have as many offsets as lie between both ends.
    if sum(rows.column(chain.LAST_OFFSET_DELTA)) + len(rows) == rows.next_offset - rows.base_offset:
        return rows
    bases, ends = rows.column(chain.BASE_OFFSET), rows.next_offsets()
    return rows.part(0, next(number for number in range(1, len(rows)) if bases[number] > ends[number - 1]))


def _first_offset(rows: Rows) -> int:
    _, header, data = rows.batch(0)
    if not header.is_wrapper:
        return rows.base_offset
    try:
        return read_batch(data).base_offset
    except StorageError:  # appended as it is, like other batches whose records cannot be read
        return 0
