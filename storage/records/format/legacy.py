"""The messages of formats v0 and v1: the formats of Kafka before 0.11, verified, decompressed, and read as records.

A log of that time is a plain row of messages (`reference/message_set.py` draws one), and there are two ways to walk it:

    shallow     the messages as they are stored, by their headers alone: `batch_chain`
    deep        the records: `Batch.records` and its like, which end here

The two are the same without compression. With compression, one message, the wrapper, has a whole message set as its
value.

         v0   wrapper, offset 7 [ 0 | 2 | 5 | 7 ]      offsets inside are absolute
         v1   wrapper, offset 15 [ 0 | 2 | 6 | 7 | 8 ]     relative: the last one is 15, so the first is 7

The wrapper has the offset of its last record, always; compaction leaves holes inside. A wrapper of v1 has the largest
timestamp inside or, with LogAppendTime, the time of all of them, whatever they say themselves. Which type of timestamp
a record has is the wrapper's to say. A broker's fault left wrappers of v1 around messages of v0 (KAFKA-4298): those
have no timestamp.

Processing many loose messages one by one costs more than reading them. So bulk readers request runs: adjacent messages
of one format and timestamp type, verified together, which are then one batch with exact bounds.

docs/internals/format/legacy-messages.md has the whole picture. Only read, never written. Follows Kafka's
LegacyRecord and AbstractLegacyRecordBatch.
"""

from __future__ import annotations

import zlib
from array import array
from dataclasses import dataclass, replace

from offsetfs.storage.errors import CorruptBatch, MalformedBatch
from offsetfs.storage.records.compression.compression import CODECS_SINCE_V2, LZ4, decompress
from offsetfs.storage.records.compression.lz4_frame import with_right_checksum
from offsetfs.storage.records.format import message_set
from offsetfs.storage.records.format.batch_header import (
    APPEND_TIME_FLAG,
    KEY_POSITIONS,
    MAGIC_POSITION,
    BatchHeader,
    Buffer,
)
from offsetfs.storage.records.format.record import NO_TIMESTAMP_TYPE
from offsetfs.storage.units import I64_MAX, Timestamp

RUN_BYTES = 8 << 10
"""The bytes of a run, at most. If an index was made from runs, a look-up walks as many bytes message by message."""

NO_RUNS: tuple[int, ...] = ()
RUNS = (0, 1)
"""The formats whose loose messages are returned in runs, for bulk readers of records."""

TIMELESS_RUNS = (0,)
"""The formats for building time indexes, whose entries name the very message with the largest timestamp."""


def check(header: BatchHeader, data: memoryview) -> None:
    """Raise `CorruptBatch` when the checksum of a whole message differs, `MalformedBatch` for an impossible offset."""
    if header.is_run:
        message_set.verify(data)
        return
    actual = zlib.crc32(data[MAGIC_POSITION:])  # from the magic on
    if actual != header.crc:
        raise CorruptBatch(f"checksum {actual:#010x} where {header.crc:#010x} is stored")
    if not 0 <= header.base_offset < I64_MAX:
        raise MalformedBatch(f"offset {header.base_offset}")


@dataclass(frozen=True, slots=True)
class MessageSet:
    """The records of one message, run or wrapper. `messages`: one behind the other, inflated.

    `reference`: the stored offset that stands for the header's, so that any record's is header's + stored - reference.
    """

    header: BatchHeader
    messages: Buffer
    first: int
    reference: int

    @property
    def base_offset(self) -> int:
        """The offset of the first record."""
        return self.header.base_offset + self.first - self.reference

    def rows(self) -> array[int]:
        """Return `codec.COLUMNS` numbers for each record; offset deltas count from the header's, which in a wrapper is
        the last one's."""
        is_append_time = self.header.is_wrapper and bool(self.header.attributes & APPEND_TIME_FLAG)
        return message_set.scan(self.messages, self.reference, self.header.base_timestamp, is_append_time)

    def timestamp_type(self, position: int) -> str:
        """Return the timestamp type of the message at `position`, a row's headers position."""
        return self.header.timestamp_type if self.messages[position + MAGIC_POSITION] else NO_TIMESTAMP_TYPE


def run_header(header: BatchHeader, messages: memoryview) -> BatchHeader:
    """Return the header of the run that begins with the loose message of `header`, where `messages` begins.

    `header` itself where no second message can join it, or its own checksum does not hold.
    """
    size, count, last, timestamp = message_set.run(messages, RUN_BYTES)
    if count < 2:
        return header
    delta = last - header.base_offset
    return replace(header, size=size, last_offset_delta=delta, max_timestamp=Timestamp(timestamp), count=count)


def open_set(header: BatchHeader, data: memoryview, bytes_max: int) -> MessageSet:
    """Return the records of the message `data`, those of a wrapper inflated and their checksums verified.

    `MalformedBatch`, `CorruptBatch`, `UnsupportedFormat` for an unknown codec, `DecompressionLimit` above `bytes_max`,
    which says nothing to a message that is no wrapper.
    """
    if not header.is_wrapper:
        return MessageSet(header, data, header.base_offset, header.base_offset)
    messages = _inflated(header, data, bytes_max)
    first, last, _ = message_set.verify(messages)
    reference = _reference(header, last)
    for stored in (first, last):
        offset = header.base_offset + stored - reference
        if not 0 <= offset < I64_MAX:
            raise MalformedBatch(f"offset {offset} inside a wrapper of offset {header.base_offset}")
    return MessageSet(header, messages, first, reference)


def _reference(header: BatchHeader, last: int) -> int:
    """Return the stored offset inside that stands for the wrapper's own."""
    if header.magic == 0 or header.base_offset == 0:  # 0: old librdkafka counted from there, whatever the offsets
        return header.base_offset
    if header.base_offset < last:
        raise MalformedBatch(f"offset {last} inside a wrapper of offset {header.base_offset}")
    return last


def _inflated(header: BatchHeader, data: memoryview, bytes_max: int) -> bytes | bytearray:
    if header.codec in CODECS_SINCE_V2:
        raise MalformedBatch(f"{header.codec_name}, which message format v{header.magic} does not have")
    _, _, position = message_set.field(data, KEY_POSITIONS[header.magic], len(data))
    position, size, _ = message_set.field(data, position, len(data))
    if size < 0:
        raise MalformedBatch("a wrapper without a value")
    value: Buffer = data[position : position + size]
    if header.codec == LZ4 and header.magic == 0:
        value = with_right_checksum(value)
    return decompress(header.codec, value, bytes_max)
