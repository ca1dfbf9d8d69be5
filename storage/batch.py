"""A record batch of format v2: its header, its checksum, its records.

    0        8    12    16 17   21  23    27        35        43        51  53    57    61
    +--------+----+----+--+----+--+----+--------+--------+--------+--+----+----+-- … --+
    | base   |size|lead|ma|crc |at| last| base  | max    | prod-  |ep|base|    | rec-  |
    | offset |    |er  |gi|    |tr|offs.| time- | time-  | ucer   |oc|sequ|coun| ords  |
    |        |    |ep. |c |    |s |delta| stamp | stamp  | id     |h |ence|t   |       |
    +--------+----+----+--+----+--+----+--------+--------+--------+--+----+----+-- … --+
                               |<-------------- CRC-32C covers this ---------------->|

Big-endian. `size` in the bytes counts what follows it; `BatchHeader.size` counts the whole batch. The first 21 bytes
are outside the checksum, so offset and leader epoch are stamped without touching it. docs/format/record-batch.md says
the rest. A batch is parsed lazily: a header costs nothing but its 61 bytes, records are inflated when asked for.
Formats v0 and v1 raise `UnsupportedFormat`. Follows Kafka's DefaultRecordBatch.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from crc32c import crc32c

from offsetfs.storage import codec as record_codec
from offsetfs.storage.compression import CODECS, Compression, compress, decompress
from offsetfs.storage.errors import CorruptBatch, MalformedBatch, StorageError, UnsupportedFormat
from offsetfs.storage.record import CREATE_TIME, LOG_APPEND_TIME, Record
from offsetfs.storage.units import Offset, Timestamp

HEADER_SIZE = 61
LOG_OVERHEAD = 12  # base offset and size, which `size` does not count
MAGIC_END = 17  # the bytes that tell every format's size and magic
MAGIC = 2
PAYLOAD_BYTES_MAX = 64 << 20
"""What a batch may inflate to unless the caller says otherwise: protects the memory from a hostile one."""

_LEGACY_SIZE_MIN = 14
_LONG_MIN = -(2**63)
_LONG_MAX = 2**63 - 1
_HEADER = struct.Struct(">qiibIhiqqqhii")
_BASE_OFFSET = struct.Struct(">q")
_SIZE = struct.Struct(">i")
_SIZE_POSITION = 8
_LEADER_EPOCH = struct.Struct(">i")
_LEADER_EPOCH_POSITION = 12
_MAGIC_POSITION = 16
_CRC = struct.Struct(">I")
_CRC_POSITION = 17
_CRC_START = 21
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP = struct.Struct(">q")
_MAX_TIMESTAMP_POSITION = 35

_CODEC_MASK = 0x07
_APPEND_TIME = 0x08
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_DELETE_HORIZON = 0x40

Buffer = bytes | bytearray | memoryview
_Answer = TypeVar("_Answer")


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
        return self.attributes & _CODEC_MASK

    @property
    def codec_name(self) -> str:
        codec_id = self.attributes & _CODEC_MASK
        return CODECS[codec_id] if codec_id < len(CODECS) else f"unknown-{codec_id}"

    @property
    def timestamp_type(self) -> str:
        return LOG_APPEND_TIME if self.attributes & _APPEND_TIME else CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the records are markers for brokers and consumers, not data."""
        return bool(self.attributes & _CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether `base_timestamp` is the time when tombstones here may go (still the base of the deltas)."""
        return bool(self.attributes & _DELETE_HORIZON)


class Batch:
    """One batch over a buffer that the caller keeps unchanged as long as the batch is used.

    `path` and `position` (of the file) only serve messages. Methods that look at records raise `MalformedBatch`,
    `UnsupportedFormat` for an unknown codec, `DecompressionLimit`. They do not check the checksum; `check` does.
    """

    __slots__ = ("_payload", "data", "header", "path", "position")

    def __init__(
        self, header: BatchHeader, data: memoryview, path: str | None = None, position: int | None = None
    ) -> None:
        self.header = header
        self.data = data
        self.path = path
        self.position = position
        self._payload: Buffer | None = None

    def check(self) -> None:
        """Raise `CorruptBatch` when the checksum differs, `MalformedBatch` when a number in the header cannot be."""
        header = self.header
        actual = crc32c(self.data[_CRC_START:])
        if actual != header.crc:
            raise self._placed(CorruptBatch(f"checksum {actual:#010x} where {header.crc:#010x} is stored"))
        if header.base_offset < 0 or header.last_offset_delta < 0 or header.last_offset >= _LONG_MAX:
            raise self._malformed(f"offsets {header.base_offset} + {header.last_offset_delta}")
        if header.count < 0:
            raise self._malformed(f"{header.count} records")

    def payload(self, bytes_max: int = PAYLOAD_BYTES_MAX) -> Buffer:
        """Return the records section, inflated at the first call and then kept.

        `DecompressionLimit` above `bytes_max`, which says nothing to a batch that is not compressed. A batch without
        records has an empty payload, whatever follows its header: nobody looks at that.
        """
        if self._payload is None:
            try:
                self._payload = self._inflated(bytes_max)
            except StorageError as error:
                raise self._placed(error) from None
        return self._payload

    def _inflated(self, bytes_max: int) -> Buffer:
        if self.header.count == 0:
            return b""
        section = self.data[HEADER_SIZE:]
        return decompress(self.header.codec, section, bytes_max) if self.header.codec else section

    def records(self) -> list[Record]:
        """Return all records. Costs Python objects: bulk paths use `joined` or `rows`."""
        base_offset, timestamp_type = self.header.base_offset, self.header.timestamp_type
        return [
            Record(Offset(base_offset + delta), self.timestamp_of(time), timestamp_type, key, value, headers)
            for delta, time, key, value, headers in self._asked(record_codec.decode)
        ]

    def record(self, offset: int) -> Record | None:
        """Return the record with this offset, or None when the batch has none (compaction leaves gaps)."""
        delta = offset - self.header.base_offset
        row = self._asked(lambda payload, count: record_codec.find(payload, count, delta))
        return None if row is None else self._record_at(row)

    def _record_at(self, row: record_codec.Row) -> Record:
        delta, time, key_position, key_size, value_position, value_size, headers_position, headers_count = row
        payload = self.payload()
        return Record(
            Offset(self.header.base_offset + delta),
            self.timestamp_of(time),
            self.header.timestamp_type,
            None if key_size < 0 else bytes(payload[key_position : key_position + key_size]),
            None if value_size < 0 else bytes(payload[value_position : value_position + value_size]),
            record_codec.headers(payload, headers_position, headers_count),
        )

    def rows(self) -> array[int]:
        """Return `codec.COLUMNS` numbers for each record; positions count from the start of `payload()`."""
        return self._asked(record_codec.scan)

    def joined(self) -> bytearray:
        """Return all values, each followed by a newline; a null value is an empty line."""
        return self._asked(record_codec.join)

    def measured(self) -> int:
        """Return `len(joined())` without building it."""
        return self._asked(record_codec.measure)

    def timestamp_of(self, timestamp_delta: int) -> Timestamp:
        """Return what a reader sees: the append time for every record, or the base timestamp plus the delta."""
        header = self.header
        if header.attributes & _APPEND_TIME:
            return header.max_timestamp
        timestamp = header.base_timestamp + timestamp_delta
        if not _LONG_MIN <= timestamp <= _LONG_MAX:  # a hostile sum: wrapped, as a Java long wraps
            timestamp = (timestamp - _LONG_MIN) % (1 << 64) + _LONG_MIN
        return Timestamp(timestamp)

    def _asked(self, question: Callable[[Buffer, int], _Answer]) -> _Answer:
        payload = self.payload()
        try:
            return question(payload, self.header.count)
        except StorageError as error:
            raise self._placed(error) from None

    def _placed(self, error: StorageError) -> StorageError:
        return type(error)(error.reason, path=self.path, position=self.position, offset=self.header.base_offset)

    def _malformed(self, reason: str) -> StorageError:
        return self._placed(MalformedBatch(reason))


# --- reading -------------------------------------------------------------------------------------------------------


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


def read_batch(
    buffer: Buffer,
    position: int = 0,
    *,
    path: str | None = None,
    file_position: int | None = None,
    check: bool = True,
) -> Batch:
    """Return the batch at `position` as a view into `buffer`; with `check`, after `Batch.check`.

    Raises what `parse_header` raises, and `MalformedBatch` when the buffer ends before the batch does.
    """
    header = parse_header(buffer, position, path=path, file_position=file_position)
    data = memoryview(buffer)[position : position + header.size]
    batch = Batch(header, data, path, file_position)
    if len(data) < header.size:
        raise batch._malformed(f"{len(data)} bytes of a batch of {header.size}")
    if check:
        batch.check()
    return batch


# --- writing -------------------------------------------------------------------------------------------------------


def stamp(batch: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Set base offset and leader epoch in place. The checksum does not cover them and stays right."""
    _BASE_OFFSET.pack_into(batch, 0, base_offset)
    _LEADER_EPOCH.pack_into(batch, _LEADER_EPOCH_POSITION, leader_epoch)


def set_append_time(batch: bytearray | memoryview, timestamp: int) -> None:
    """Turn the batch, in place, into one of LogAppendTime: all its records then have this timestamp.

    Producer timestamps stay in the deltas, where no reader looks for them. The checksum is made anew.
    """
    attributes = _ATTRIBUTES.unpack_from(batch, _CRC_START)[0]
    _ATTRIBUTES.pack_into(batch, _CRC_START, attributes | _APPEND_TIME)
    _MAX_TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_POSITION, timestamp)
    seal_checksum(batch)


def seal_checksum(batch: bytearray | memoryview) -> None:
    """Compute the checksum of a whole batch and store it."""
    _CRC.pack_into(batch, _CRC_POSITION, crc32c(memoryview(batch)[_CRC_START:]))


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


def build(
    records: Sequence[record_codec.EncodableRecord],
    *,
    codec: str = "none",
    level: int | None = None,
    base_offset: int = 0,
    timestamp_type: str = CREATE_TIME,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    leader_epoch: int = -1,
) -> bytearray:
    """Return a whole batch of at least one record: (key, value, headers, timestamp), offsets without gaps.

    `ValueError` for what no reader would take: no records, a transaction without a producer, a producer without epoch
    or (but for control batches) sequence, a compressed control batch.
    """
    _check_producer(producer_id, producer_epoch, base_sequence, transactional, control)
    if not records or (control and codec != "none"):
        raise ValueError("no records" if not records else "a compressed control batch")
    base_timestamp = records[0][3]
    payload = compress(codec, record_codec.encode(records, base_timestamp, 0), level)
    flags = (_APPEND_TIME * (timestamp_type == LOG_APPEND_TIME)) | _TRANSACTIONAL * transactional | _CONTROL * control
    header = BatchHeader(
        Offset(base_offset),
        HEADER_SIZE + len(payload),
        leader_epoch,
        MAGIC,
        0,
        Compression(codec).codec | flags,
        len(records) - 1,
        Timestamp(base_timestamp),
        Timestamp(max(record[3] for record in records)),
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    batch = bytearray(HEADER_SIZE) + payload
    write_header(batch, header)
    seal_checksum(batch)
    return batch


def _check_producer(
    producer_id: int, producer_epoch: int, base_sequence: int, transactional: bool, control: bool
) -> None:
    if producer_id < 0:
        if transactional:
            raise ValueError("a transaction without a producer")
    elif producer_epoch < 0:
        raise ValueError("a producer without an epoch")
    elif base_sequence < 0 and not control:
        raise ValueError("a producer without a sequence")
