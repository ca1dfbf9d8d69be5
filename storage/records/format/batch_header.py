"""The header of a batch: of format v2, and shallowly of the older v0 and v1.

A v2 batch, 61 bytes:

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
`BatchHeader.size` counts the whole batch. docs/internals/format/record-batch.md says the rest. What a header claims is
checked by `Batch.check`, not here. Follows Kafka's DefaultRecordBatch.

A message of v0 or v1, whose checksum, CRC-32, covers what stands behind it (`legacy` draws the rest):

          0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f
         +-----------------------+-----------+-----------+
      0  | offset                | length    | crc       |
         +--+--+-----------------+-----------+-----------+
     16  | 0|at| key size, key, value size, value …       |
         +--+--+-----------------+-----------------------+
     16  | 1|at| timestamp             | key size, key …
         +--+--+-----------------------+-----------------+

Such a message is a batch of one record, or the wrapper of a compressed set. A wrapper says less than a v2 header: its
offset is that of the *last* record inside, and how many there are it does not say. Follows Kafka's
AbstractLegacyRecordBatch.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.records.compression.compression import codec_name
from offsetfs.storage.records.format.checksum import crc32c
from offsetfs.storage.records.format.record import CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP_TYPE
from offsetfs.storage.units import NO_TIMESTAMP, Offset, Timestamp

HEADER_SIZE = 61
BATCH_SIZE_MIN = 26
"""The smallest batch of any format: a v0 message with neither key nor value."""

LOG_OVERHEAD = 12  # base offset and size, which `size` does not count
MAGIC_END = 17  # the bytes that tell every format's size and magic
MAGIC = 2
SIZE_POSITION = 8
MAGIC_POSITION = 16
CRC_START = 21  # the checksum covers everything from here

HEADER = struct.Struct(">qiibIhiqqqhii")
LEGACY_HEADER = struct.Struct(">qiIbB")
PREFIX = struct.Struct(">qi")
"""Base offset and size: the beginning of every format."""
CRC = struct.Struct(">I")
TIMESTAMP = struct.Struct(">q")
TIMESTAMP_POSITION = 18
"""The position of the timestamp in a message of v1."""

CODEC_MASK = 0x07
APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40
ATTRIBUTES_END = 0x80  # no attributes of v2 reach up to here

KEY_POSITIONS = (18, 26)
"""The position of the size of the key in a message, by magic: v0, v1."""

_SIZES_MIN = (BATCH_SIZE_MIN, 34, HEADER_SIZE)  # of a whole batch, by magic
_HEADER_SIZES = (18, 26, HEADER_SIZE)  # of what is read here, by magic
_LEGACY_ATTRIBUTES = (CODEC_MASK, CODEC_MASK | APPEND_TIME_FLAG)  # the bits that v0 and v1 know
_BASE_OFFSET = struct.Struct(">q")
_SIZE = struct.Struct(">i")
_LEADER_EPOCH = struct.Struct(">i")
_LEADER_EPOCH_POSITION = 12
_CRC_POSITION = 17
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP = struct.Struct(">q")
_MAX_TIMESTAMP_POSITION = 35
_PRODUCER_ID = struct.Struct(">q")
_PRODUCER_ID_POSITION = 43

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """The header of a batch of any format. `size` is that of the whole batch, in bytes.

    Formats v0 and v1 know no leader epoch, producer, transaction or control batch: -1 and False. A wrapper of theirs
    (`is_wrapper`) has the offset of its last record as `base_offset`, as the file has it, which is right for walking a
    log and for knowing its end; its first offset is `Batch.base_offset`. Its `count` is -1. `max_timestamp` of a v0
    message is -1.
    """

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
        return codec_name(self.codec)

    @property
    def is_old(self) -> bool:
        """Whether this is of format v0 or v1."""
        return self.magic < MAGIC

    @property
    def is_wrapper(self) -> bool:
        """Whether this is a compressed set of v0 or v1, of which only what is inside knows first offset and count."""
        return self.magic < MAGIC and bool(self.attributes & CODEC_MASK)

    @property
    def is_run(self) -> bool:
        """Whether this stands for several plain messages of v0 or v1 that a bulk reader takes as one (`legacy`)."""
        return self.magic < MAGIC and self.count > 1

    @property
    def timestamp_type(self) -> str:
        if self.magic == 0:
            return NO_TIMESTAMP_TYPE
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

    `MalformedBatch` when fewer bytes are left than the header has, the size is below the format's smallest, or the
    magic is no format at all. Checks nothing else: see `Batch.check`.
    """
    size_left = len(buffer) - position
    if size_left < MAGIC_END:
        raise MalformedBatch(f"{size_left} bytes where a batch should begin", path=path, position=file_position)
    (length,) = _SIZE.unpack_from(buffer, position + SIZE_POSITION)
    magic = buffer[position + MAGIC_POSITION]
    if magic > MAGIC:
        raise MalformedBatch(f"magic {magic}", path=path, position=file_position)
    if length + LOG_OVERHEAD < _SIZES_MIN[magic]:
        raise MalformedBatch(f"a batch size of {length}", path=path, position=file_position)
    if size_left < _HEADER_SIZES[magic]:
        raise MalformedBatch(f"{size_left} bytes of a batch header", path=path, position=file_position)
    if magic < MAGIC:
        return _legacy_header(buffer, position)
    base_offset, _, *rest = HEADER.unpack_from(buffer, position)
    return BatchHeader(base_offset, length + LOG_OVERHEAD, *rest)


def _legacy_header(buffer: Buffer, position: int) -> BatchHeader:
    offset, length, crc, magic, attributes = LEGACY_HEADER.unpack_from(buffer, position)
    attributes &= _LEGACY_ATTRIBUTES[magic]
    timestamp = NO_TIMESTAMP
    if magic:
        (timestamp,) = TIMESTAMP.unpack_from(buffer, position + TIMESTAMP_POSITION)
    count = -1 if attributes & CODEC_MASK else 1
    size = length + LOG_OVERHEAD
    return BatchHeader(offset, size, -1, magic, crc, attributes, 0, timestamp, timestamp, -1, -1, -1, count)


def write_header(target: bytearray | memoryview, header: BatchHeader) -> None:
    """Write the 61 bytes at the start of `target`; `header.crc` as it is, see `seal_checksum`."""
    HEADER.pack_into(
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


def write_new_header(
    target: bytearray | memoryview,
    attributes: int,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
) -> None:
    """Write the header of a whole v2 batch without a producer: base offset 0, leader epoch -1, no checksum yet."""
    size = len(target) - LOG_OVERHEAD
    fields = (attributes, count - 1, base_timestamp, max_timestamp, -1, -1, -1, count)
    HEADER.pack_into(target, 0, 0, size, -1, MAGIC, 0, *fields)


def declared_size(batch: Buffer) -> int:
    """Return the size of a whole batch of any format, as its first twelve bytes state it; not checked."""
    size: int = _SIZE.unpack_from(batch, SIZE_POSITION)[0]
    return size + LOG_OVERHEAD


def is_transactional(data: Buffer) -> bool:
    """Whether a v2 batch of a transaction begins here; False for bytes that are no v2 batch. Nothing is checked."""
    is_current = len(data) > CRC_START + 1 and data[MAGIC_POSITION] == MAGIC
    return is_current and bool(data[CRC_START + 1] & TRANSACTIONAL_FLAG)


def has_producer(batch: Buffer) -> bool:
    """Whether a v2 batch has a producer id: cheaper than to parse the whole header of each batch that is appended."""
    producer_id: int = _PRODUCER_ID.unpack_from(batch, _PRODUCER_ID_POSITION)[0]
    return producer_id >= 0


def stamp(batch: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Set base offset and leader epoch of a v2 batch in place. The checksum does not cover them and stays right.

    `ValueError` for v0 and v1, which have a checksum where v2 has the epoch.
    """
    _require_current(batch)
    _BASE_OFFSET.pack_into(batch, 0, base_offset)
    _LEADER_EPOCH.pack_into(batch, _LEADER_EPOCH_POSITION, leader_epoch)


def set_append_time(batch: bytearray | memoryview, timestamp: int) -> None:
    """Change the batch, in place, to LogAppendTime: all its records then have this timestamp.

    Producer timestamps stay in the deltas, which readers ignore. The checksum is computed again. `ValueError` for v0
    and v1.
    """
    _require_current(batch)
    attributes = _ATTRIBUTES.unpack_from(batch, CRC_START)[0]
    _ATTRIBUTES.pack_into(batch, CRC_START, attributes | APPEND_TIME_FLAG)
    set_max_timestamp(batch, timestamp)


def set_max_timestamp(batch: bytearray | memoryview, timestamp: int) -> None:
    """Set the largest timestamp in place; the checksum is computed again. `ValueError` for v0 and v1."""
    _require_current(batch)
    _MAX_TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_POSITION, timestamp)
    seal_checksum(batch)


def seal_checksum(batch: bytearray | memoryview) -> None:
    """Compute the checksum of a whole batch and store it."""
    CRC.pack_into(batch, _CRC_POSITION, crc32c(memoryview(batch)[CRC_START:]))


def _require_current(batch: bytearray | memoryview) -> None:
    if batch[MAGIC_POSITION] != MAGIC:
        raise ValueError(f"message format v{batch[MAGIC_POSITION]} is read, never written")
