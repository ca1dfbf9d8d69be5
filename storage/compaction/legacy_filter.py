"""Filters v0 and v1 messages in a compacted log. They keep their format.

Loose messages are kept unchanged or removed. A compressed set is rewritten with the remaining messages. These keep
their bytes except for the offset, which the checksum does not cover. The wrapper gets the offset of the last message,
the largest timestamp, and the same codec. A defect of old brokers left sets whose messages have another format than the
wrapper (KAFKA-4298): those are rewritten in the wrapper's format.

These formats have no delete horizon: a tombstone stays until the segment is older than a time that the caller passes. A
set cannot be empty, so the last batch of a round may be removed with its last record. Follows Kafka's
MemoryRecords.filterTo.
"""

from __future__ import annotations

import itertools
import struct
import zlib
from array import array
from collections.abc import Iterator, Sequence

from offsetfs.storage.compaction.offset_map import Filter, Indexer
from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.records.compression.compression import LZ4, compress
from offsetfs.storage.records.format.batch import Batch
from offsetfs.storage.records.format.batch_header import (
    APPEND_TIME_FLAG,
    CRC,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    PREFIX,
    BatchHeader,
    Buffer,
)
from offsetfs.storage.records.format.record_row import COLUMNS, MESSAGE_POSITION, OFFSET_DELTA, TIMESTAMP_DELTA

_HEADS = (struct.Struct(">bb"), struct.Struct(">bbq"))  # magic, attributes, in v1 a timestamp
_FIELD_SIZE = struct.Struct(">i")
_LZ4_CHECKSUM_POSITION = 6
_LZ4_CHECKSUM_OF_V0 = 0x1A  # Kafka's writers of v0 computed it wrongly, and readers of that time expect the wrong value


def index(batch: Batch, indexer: Indexer) -> bool:
    """Store the keys of messages in the map, and advance; return False if the map is full."""
    rows = batch.rows()
    last_offset = _last_offset(batch.header, rows)
    if not indexer.add_rows(batch.payload(), rows, batch.header.base_offset):
        return False
    indexer.advance_to(last_offset)
    return True


def filtered(batch: Batch, records: Filter, tombstones_stay: bool) -> Buffer:
    """Return what remains of messages; b"" if all are removed. Raises as `Batch.rows` does."""
    rows, messages = batch.rows(), batch.payload()
    marks = records.mark(messages, rows, batch.header.base_offset, tombstones_stay)
    records.advance_to(_last_offset(batch.header, rows))
    header = batch.header
    starts = rows[MESSAGE_POSITION::COLUMNS]
    is_mixed = header.is_wrapper and any(messages[at + MAGIC_POSITION] != header.magic for at in starts)
    if all(marks) and not is_mixed:
        return batch.data
    kept = [at * COLUMNS for at, mark in enumerate(marks) if mark]
    if not kept:
        return b""
    if not header.is_wrapper:
        return b"".join(bytes(_message(messages, rows, at)) for at in kept)
    return _wrapper(batch, rows, kept)


def _last_offset(header: BatchHeader, rows: array[int]) -> int:
    """Return the last offset of a set. Sets of old librdkafka have the offset 0, whatever is inside."""
    deltas = rows[OFFSET_DELTA::COLUMNS]
    if any(later <= earlier for earlier, later in itertools.pairwise(deltas)):
        raise MalformedBatch("the offsets of a message set do not rise", offset=header.base_offset)
    return max(header.last_offset, header.base_offset + deltas[-1])


def _message(messages: Buffer, rows: array[int], at: int) -> memoryview:
    """Return the bytes of the message that the row at `at` describes."""
    start = rows[at + MESSAGE_POSITION]
    _, length = PREFIX.unpack_from(messages, start)
    return memoryview(messages)[start : start + LOG_OVERHEAD + length]


def _wrapper(batch: Batch, rows: array[int], kept: Sequence[int]) -> bytes:
    """Return the compressed set with the messages at `kept` of its rows."""
    header, messages = batch.header, batch.payload()
    first, last = (header.base_offset + rows[at + OFFSET_DELTA] for at in (kept[0], kept[-1]))
    content = b"".join(_inner(header, messages, rows, kept, first))
    value = bytearray(compress(header.codec_name, content))
    if header.codec == LZ4 and header.magic == 0:
        value[_LZ4_CHECKSUM_POSITION] = _LZ4_CHECKSUM_OF_V0
    timestamp: int = header.max_timestamp
    if not header.attributes & APPEND_TIME_FLAG:
        timestamp = max(batch.timestamp_of(rows[at + TIMESTAMP_DELTA]) for at in kept)
    return _encoded(header.magic, header.attributes, last, timestamp, None, value)


def _inner(header: BatchHeader, messages: Buffer, rows: array[int], kept: Sequence[int], first: int) -> Iterator[bytes]:
    """Yield messages as stored inside a wrapper: v0 with their offset, v1 with the offset relative to the first."""
    for at in kept:
        offset = header.base_offset + rows[at + OFFSET_DELTA] - (first if header.magic else 0)
        message = _message(messages, rows, at)
        if message[MAGIC_POSITION] == header.magic:
            yield PREFIX.pack(offset, len(message) - LOG_OVERHEAD) + message[LOG_OVERHEAD:]
        else:
            key, value = (_field(messages, *rows[column : column + 2]) for column in (at + 2, at + 4))
            yield _encoded(header.magic, header.attributes & APPEND_TIME_FLAG, offset, -1, key, value)


def _field(messages: Buffer, position: int, size: int) -> Buffer | None:
    return None if size < 0 else messages[position : position + size]


def _encoded(
    magic: int, attributes: int, offset: int, timestamp: int, key: Buffer | None, value: Buffer | None
) -> bytes:
    """Return a message of v0 or v1."""
    head = _HEADS[magic].pack(magic, attributes, *([timestamp] if magic else []))
    checked = b"".join((head, _sized(key), _sized(value)))
    return PREFIX.pack(offset, CRC.size + len(checked)) + CRC.pack(zlib.crc32(checked)) + checked


def _sized(data: Buffer | None) -> bytes:
    return _FIELD_SIZE.pack(-1) if data is None else _FIELD_SIZE.pack(len(data)) + data
