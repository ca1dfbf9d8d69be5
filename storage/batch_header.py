"""The 61 bytes in front of the records of a v2 batch.

          0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f
         +-----------------------+-----------+-----------+
      0  | base offset           | length    | epoch     |
         +--+-----------+-----+--+--------+--+-----------+
     16  | 2| crc       |attr.|last delta | base timestamp
         +--+-----+-----+-----+-----------+--------------+
     32     …     | max timestamp         | producer id
         +--------+-----+-----------+-----+-----+--------+
     48     …     |epoch| base seq. | count     | records …
         +--------+-----+-----------+-----------+--------

Big-endian. The first epoch is the leader's, the second the producer's. The checksum, CRC-32C, covers what stands
behind it, so offset and leader epoch are stamped without touching it. `length` counts the bytes behind that field;
`BatchHeader.size` counts the whole batch. docs/format/record-batch.md says the rest. What a header claims is checked
by `Batch.check`, not here. Follows Kafka's DefaultRecordBatch.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from crc32c import crc32c

from offsetfs.storage.compression import CODECS
from offsetfs.storage.errors import MalformedBatch, UnsupportedFormat
from offsetfs.storage.record import CREATE_TIME, LOG_APPEND_TIME
from offsetfs.storage.units import Offset, Timestamp

HEADER_SIZE = 61
LOG_OVERHEAD = 12  # base offset and size, which `size` does not count
MAGIC_END = 17  # the bytes that tell every format's size and magic
MAGIC = 2
CRC_START = 21  # the checksum covers everything from here

CODEC_MASK = 0x07
APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

_LEGACY_SIZE_MIN = 14
_HEADER = struct.Struct(">qiibIhiqqqhii")
_BASE_OFFSET = struct.Struct(">q")
_SIZE = struct.Struct(">i")
_SIZE_POSITION = 8
_LEADER_EPOCH = struct.Struct(">i")
_LEADER_EPOCH_POSITION = 12
_MAGIC_POSITION = 16
_CRC = struct.Struct(">I")
_CRC_POSITION = 17
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP = struct.Struct(">q")
_MAX_TIMESTAMP_POSITION = 35

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """The 61 bytes in front of the records. `size` is that of the whole batch, in bytes."""

    base_offset: Offset
    size: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: Timestamp
    max_timestamp: Timestamp
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    @property
    def last_offset(self) -> Offset:
        """The last offset this batch stands for; compaction may have removed the record itself."""
        return Offset(self.base_offset + self.last_offset_delta)

    @property
    def next_offset(self) -> Offset:
        return Offset(self.base_offset + self.last_offset_delta + 1)

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def codec_name(self) -> str:
        codec_id = self.attributes & CODEC_MASK
        return CODECS[codec_id] if codec_id < len(CODECS) else f"unknown-{codec_id}"

    @property
    def timestamp_type(self) -> str:
        return LOG_APPEND_TIME if self.attributes & APPEND_TIME_FLAG else CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        """Whether the records are markers for brokers and consumers, not data."""
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether `base_timestamp` is the time when tombstones here may go (still the base of the deltas)."""
        return bool(self.attributes & DELETE_HORIZON_FLAG)


def parse_header(
    buffer: Buffer, position: int = 0, *, path: str | None = None, file_position: int | None = None
) -> BatchHeader:
    """Read the header at `position` of `buffer`; the records need not be there.

    `MalformedBatch` when fewer than 61 bytes are left, the size is below the format's smallest, or the magic is no
    format at all; `UnsupportedFormat` for v0 and v1. Checks nothing else: see `Batch.check`.
    """
    room = len(buffer) - position
    if room < MAGIC_END:
        raise MalformedBatch(f"{room} bytes where a batch should begin", path=path, position=file_position)
    (length,) = _SIZE.unpack_from(buffer, position + _SIZE_POSITION)
    magic = buffer[position + _MAGIC_POSITION]
    if length < _LEGACY_SIZE_MIN or (magic == MAGIC and length + LOG_OVERHEAD < HEADER_SIZE):
        raise MalformedBatch(f"a batch size of {length}", path=path, position=file_position)
    if magic < MAGIC:
        raise UnsupportedFormat(f"message format v{magic}", path=path, position=file_position)
    if magic > MAGIC:
        raise MalformedBatch(f"magic {magic}", path=path, position=file_position)
    if room < HEADER_SIZE:
        raise MalformedBatch(f"{room} bytes of a batch header", path=path, position=file_position)
    base_offset, _, *rest = _HEADER.unpack_from(buffer, position)
    return BatchHeader(base_offset, length + LOG_OVERHEAD, *rest)


def write_header(target: bytearray | memoryview, header: BatchHeader) -> None:
    """Write the 61 bytes at the start of `target`; `header.crc` as it is, see `seal_checksum`."""
    _HEADER.pack_into(
        target,
        0,
        header.base_offset,
        header.size - LOG_OVERHEAD,
        header.leader_epoch,
        header.magic,
        header.crc,
        header.attributes,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.count,
    )


def stamp(batch: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Set base offset and leader epoch in place. The checksum does not cover them and stays right."""
    _BASE_OFFSET.pack_into(batch, 0, base_offset)
    _LEADER_EPOCH.pack_into(batch, _LEADER_EPOCH_POSITION, leader_epoch)


def set_append_time(batch: bytearray | memoryview, timestamp: int) -> None:
    """Turn the batch, in place, into one of LogAppendTime: all its records then have this timestamp.

    Producer timestamps stay in the deltas, where no reader looks for them. The checksum is made anew.
    """
    attributes = _ATTRIBUTES.unpack_from(batch, CRC_START)[0]
    _ATTRIBUTES.pack_into(batch, CRC_START, attributes | APPEND_TIME_FLAG)
    _MAX_TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_POSITION, timestamp)
    seal_checksum(batch)


def seal_checksum(batch: bytearray | memoryview) -> None:
    """Compute the checksum of a whole batch and store it."""
    _CRC.pack_into(batch, _CRC_POSITION, crc32c(memoryview(batch)[CRC_START:]))
