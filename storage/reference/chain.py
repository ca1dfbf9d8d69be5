"""The headers of a block of v2 batches as rows of numbers, in Python; tests compare `native/chain.pyx` with it.

Small batches are many, and an object for each costs more than reading it. Bulk readers therefore take the headers of a
block at once, as an array of rows (`batch_row` has the columns), and look at columns of it. A walk ends at
the first thing that is not a valid batch, and does not report it: `batch_chain` reads that one, and raises the error.
Formats v0 and v1 end a walk, too (`row_walk` goes on there).

docs/internals/format/record-batch.md draws a batch. Follows Kafka's DefaultRecordBatch and LogSegment.recover.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator

from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.records.format.batch_header import (
    APPEND_TIME_FLAG,
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_START,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
)
from offsetfs.storage.records.format.batch_row import (
    ATTRIBUTES,
    BASE_OFFSET,
    COLUMNS,
    COUNT,
    LAST_OFFSET_DELTA,
    MAX_TIMESTAMP,
    POSITION,
    SIZE,
)
from offsetfs.storage.records.format.checksum import crc32c
from offsetfs.storage.records.format.record_row import COLUMNS as RECORD_COLUMNS
from offsetfs.storage.reference import codec
from offsetfs.storage.units import I32_MAX, I64_MAX, wrapped

ROWS_MAX = 8192
"""The number of rows that one call returns, at most: it allocates less than a megabyte."""

ANY_OFFSETS = (-1, I64_MAX)
"""Bounds that let every offset through, risen or not."""

STATE_NUMBERS = 7
"""The state of an index that is being built, see `index`."""

_BASE, _INTERVAL, _INDEXED_POSITION, _LAST_OFFSET, _TIMESTAMP, _TIMESTAMP_OFFSET, _TIME_ENTRY = range(STATE_NUMBERS)

_HEADER = struct.Struct(">qiibIhiqqqhii")
_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY_LAYOUT = struct.Struct(">qi")

Buffer = bytes | bytearray | memoryview


def headers(block: Buffer, start: int, end: int, limit: int, file_position: int) -> tuple[array[int], int]:
    """Return the rows of the batches from byte `start` of `block` on, and the byte at which the walk ended.

    A batch counts when all of its header lies before `end`, and all of it before `limit`, which may lie beyond `end`:
    there the walk ends behind it. Nothing else is looked at. Positions in rows are `file_position` and the byte in the
    block. `ValueError` for bounds outside of the block.
    """
    return _walk(block, start, end, limit, file_position, None)


def sound(
    block: Buffer, start: int, end: int, file_position: int, offset_min: int, offset_max: int, refused: int = 0
) -> tuple[array[int], int]:
    """Return rows as `headers` does, of whole batches that pass `Batch.check`: the checksum, and what cannot be.

    Offsets rise from `offset_min` on and do not go beyond `offset_max`; with a negative `offset_min` (`ANY_OFFSETS`)
    they are taken as they come. A batch with one of the bits `refused` in its attributes ends the walk. Compiled,
    checksums are verified with the GIL released.
    """
    return _walk(block, start, end, end, file_position, (offset_min, offset_max), refused)


def _walk(
    block: Buffer,
    start: int,
    end: int,
    limit: int,
    file_position: int,
    offsets: tuple[int, int] | None,
    refused: int = 0,
) -> tuple[array[int], int]:
    if not 0 <= start <= end <= min(len(block), limit):
        raise ValueError("positions outside of the block")
    view, rows, offset_min = memoryview(block), array("q"), offsets[0] if offsets else -1
    while end - start >= HEADER_SIZE and len(rows) < ROWS_MAX * COLUMNS:
        base_offset, length, *rest = _HEADER.unpack_from(view, start)
        size, (epoch, magic, crc, attributes, delta, _, timestamp, *producer) = length + LOG_OVERHEAD, rest
        if magic != MAGIC or not HEADER_SIZE <= size <= limit - start:
            break
        if offsets is not None:
            if attributes & refused or not _is_possible(base_offset, delta, producer[-1], offset_min, offsets[1]):
                break
            if crc32c(view[start + CRC_START : start + size]) != crc:
                break
            offset_min = base_offset + delta + 1 if offset_min >= 0 else -1
        rows.extend((file_position + start, base_offset, size, epoch, magic, attributes, delta, timestamp, *producer))
        start += size
    return rows, start


def _is_possible(base_offset: int, delta: int, count: int, offset_min: int, offset_max: int) -> bool:
    last_offset = base_offset + delta
    return (
        base_offset >= max(offset_min, 0) and delta >= 0 and count >= 0 and last_offset <= min(offset_max, I64_MAX - 1)
    )


def row(position: int, header: BatchHeader) -> array[int]:
    """Return the row of one header, of whatever format."""
    return array(
        "q",
        (
            position,
            header.base_offset,
            header.size,
            header.leader_epoch,
            header.magic,
            header.attributes,
            header.last_offset_delta,
            header.max_timestamp,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.count,
        ),
    )


# --- records ---------------------------------------------------------------------------------------------------------


def scan(
    block: Buffer, file_position: int, rows: array[int], base_offset: int, base_timestamp: int
) -> array[int] | None:
    """Return the rows of all records (`record_row`); None if a batch is compressed, or its records cannot be read.

    `rows` are of whole v2 batches in `block`, which begins at `file_position`; `ValueError` for others. Positions count
    from the start of the block, offsets and times from `base_offset` and `base_timestamp`. Control batches have none.
    """
    view, records = memoryview(block), array("q")
    for start, size, flags, count in _batches(view, file_position, rows):
        if flags & CONTROL_FLAG or count == 0:
            continue
        if flags & CODEC_MASK:
            return None
        try:
            found = codec.scan(view[start + HEADER_SIZE : start + size], count)
        except MalformedBatch:
            return None
        offset, _, _, _, _, _, _, own_timestamp, max_timestamp, *_ = _HEADER.unpack_from(view, start)
        for at in range(0, len(found), RECORD_COLUMNS):
            delta, time, key, key_size, value, value_size, headers_at, headers_count = found[at : at + RECORD_COLUMNS]
            timestamp = max_timestamp if flags & APPEND_TIME_FLAG else own_timestamp + time
            begin = start + HEADER_SIZE
            records.extend((wrapped(offset + delta - base_offset), wrapped(timestamp - base_timestamp)))
            records.extend((key + begin, key_size, value + begin, value_size, headers_at + begin, headers_count))
    return records


# --- values ----------------------------------------------------------------------------------------------------------


def measure(block: Buffer, file_position: int, rows: array[int]) -> array[int]:
    """Return the bytes of output of each batch: all values, each followed by a newline; a null value is an empty line.

    `rows` are of whole v2 batches in `block`, which begins at `file_position`; `ValueError` for others. Control batches
    have no output. -1 where the batch has to be asked itself (`Batch.measured`): compressed, or no records at all.
    """
    return array("q", (-1 if lines is None else len(lines) for lines in _lines(block, file_position, rows)))


def join(block: Buffer, file_position: int, rows: array[int]) -> bytearray | None:
    """Return the joined output of all batches; None if a batch must be joined alone."""
    joined, batches = bytearray(), _lines(block, file_position, rows)
    if sum(rows[SIZE::COLUMNS]) > len(memoryview(block)):
        raise ValueError("batches that overlap")
    for lines in batches:
        if lines is None:
            return None
        joined += lines
    return joined


def _lines(block: Buffer, file_position: int, rows: array[int]) -> Iterator[bytearray | None]:
    """Return the output of each batch, None where it has to be asked itself."""
    view = memoryview(block)
    batches = _batches(view, file_position, rows)
    return (_lines_of(view[start : start + size], flags, count) for start, size, flags, count in batches)


def _batches(view: memoryview, file_position: int, rows: array[int]) -> list[tuple[int, int, int, int]]:
    """Return the start in the block, size, attributes and number of records of each batch."""
    if rows.typecode != "q":
        raise ValueError("rows of another type")
    columns = (rows[column::COLUMNS] for column in (POSITION, SIZE, ATTRIBUTES, COUNT))
    batches = [(at - file_position, *others) for at, *others in zip(*columns, strict=True)]
    if any(start < 0 or size < HEADER_SIZE or start + size > len(view) for start, size, *_ in batches):
        raise ValueError("rows of another block")
    return batches


def _lines_of(batch: memoryview, flags: int, count: int) -> bytearray | None:
    if flags & CONTROL_FLAG or count == 0:
        return bytearray()
    try:
        return None if flags & CODEC_MASK else codec.join(batch[HEADER_SIZE:], count)
    except MalformedBatch:
        return None


# --- indexes ---------------------------------------------------------------------------------------------------------


def index_state(base_offset: int, interval_bytes: int) -> array[int]:
    """Return what `index` begins with, for the segment at `base_offset`, an entry every `interval_bytes`."""
    return array("q", (base_offset, interval_bytes, 0, base_offset - 1, -1, base_offset, -1))


def resumed_index_state(
    base_offset: int,
    interval_bytes: int,
    *,
    indexed_position: int,
    next_offset: int,
    max_timestamp: tuple[int, int],
    time_entry: int,
) -> array[int]:
    """Return what `index` continues with at the end of a segment whose batches so far are indexed.

    `indexed_position` is that of the batch with the last entry, `max_timestamp` as `index_timestamp` returns it,
    `time_entry` the timestamp of the last entry of the time index.
    """
    return array("q", (base_offset, interval_bytes, indexed_position, next_offset - 1, *max_timestamp, time_entry))


def index(rows: array[int], state: array[int]) -> tuple[bytes, bytes]:
    """Return what the batches of `rows` add to the offset index and to the time index; `state` moves on.

    An entry for the first batch that begins more than the interval behind the last entry. A batch whose offset cannot
    be where it stands is passed over: the checksum does not cover it.
    """
    if len(state) != STATE_NUMBERS:
        raise ValueError("no state of an index")
    offsets, times = bytearray(), bytearray()
    for position, last_offset, timestamp in _index_columns(rows):
        if not state[_LAST_OFFSET] < last_offset <= min(state[_BASE] + I32_MAX, I64_MAX):
            continue
        state[_LAST_OFFSET] = last_offset
        if timestamp > state[_TIMESTAMP]:
            state[_TIMESTAMP], state[_TIMESTAMP_OFFSET] = timestamp, last_offset
        if state[_INTERVAL] < position - state[_INDEXED_POSITION] and position <= I32_MAX:
            offsets += _OFFSET_ENTRY.pack(last_offset - state[_BASE], position)
            times += index_end(state)
            state[_INDEXED_POSITION] = position
    return bytes(offsets), bytes(times)


def index_end(state: array[int]) -> bytes:
    """Return the entry of the time index that is due now, b"" when the last one says the same; `state` moves on."""
    timestamp = state[_TIMESTAMP]
    if timestamp <= state[_TIME_ENTRY]:
        return b""
    state[_TIME_ENTRY] = timestamp
    return _TIME_ENTRY_LAYOUT.pack(timestamp, state[_TIMESTAMP_OFFSET] - state[_BASE])


def index_timestamp(state: array[int]) -> tuple[int, int]:
    """Return the largest timestamp so far and the last offset of the first batch that had it; (-1, base) if none."""
    return state[_TIMESTAMP], state[_TIMESTAMP_OFFSET]


def indexed_position(state: array[int]) -> int:
    """Return the position of the batch that got the last entry."""
    return state[_INDEXED_POSITION]


def _index_columns(rows: array[int]) -> Iterator[tuple[int, int, int]]:
    for at in range(0, len(rows), COLUMNS):
        yield rows[at + POSITION], rows[at + BASE_OFFSET] + rows[at + LAST_OFFSET_DELTA], rows[at + MAX_TIMESTAMP]
