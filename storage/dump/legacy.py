"""The messages of a v0 or v1 batch in a dump, without validation.

`legacy` raises for a damaged message. Kafka's reader decodes each field only when it is printed, and verifies no
checksum inside a wrapper, and this module does the same. Follows AbstractLegacyRecordBatch and LegacyRecord.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct, error

from offsetfs.storage.dump.batches import FoundBatch
from offsetfs.storage.dump.records import inflated
from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.records.compression.compression import CODECS_SINCE_V2, LZ4
from offsetfs.storage.records.compression.lz4_frame import with_right_checksum
from offsetfs.storage.records.format.batch_header import (
    CODEC_MASK,
    CRC,
    KEY_POSITIONS,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    PREFIX,
    TIMESTAMP,
    TIMESTAMP_POSITION,
    BatchHeader,
    Buffer,
)
from offsetfs.storage.records.format.record import LOG_APPEND_TIME
from offsetfs.storage.units import NO_TIMESTAMP, wrapped

_SIZE_MIN = 14  # of what follows the size of a message
# Positions in a message, behind its prefix:
_MAGIC_POSITION = MAGIC_POSITION - LOG_OVERHEAD
_ATTRIBUTES_POSITION = _MAGIC_POSITION + 1
_TIMESTAMP_POSITION = TIMESTAMP_POSITION - LOG_OVERHEAD
_KEY_POSITIONS = tuple(position - LOG_OVERHEAD for position in KEY_POSITIONS)
_SIZE = Struct(">i")


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """One message: its offset, and its bytes from the checksum on.

    Reading a field beyond the end of the bytes raises `MalformedBatch`.
    """

    offset: int
    data: Buffer
    append_time: int | None

    @property
    def crc(self) -> int:
        return self._number(CRC, 0)

    @property
    def is_valid(self) -> bool:
        return zlib.crc32(self.data[_MAGIC_POSITION:]) == self.crc

    @property
    def magic(self) -> int:
        return self.data[_MAGIC_POSITION]

    @property
    def timestamp(self) -> int:
        if self.magic == 0:
            return NO_TIMESTAMP
        return self._number(TIMESTAMP, _TIMESTAMP_POSITION) if self.append_time is None else self.append_time

    @property
    def key_size(self) -> int:
        """The size as it is stored: negative for a null."""
        return self._number(_SIZE, self._key_position)

    @property
    def value_size(self) -> int:
        return self._number(_SIZE, self._value_position)

    @property
    def key(self) -> Buffer | None:
        return self._field(self._key_position)

    @property
    def value(self) -> Buffer | None:
        return self._field(self._value_position)

    @property
    def _key_position(self) -> int:
        return _KEY_POSITIONS[self.magic != 0]

    @property
    def _value_position(self) -> int:
        return self._key_position + _SIZE.size + max(self.key_size, 0)

    def _field(self, position: int) -> Buffer | None:
        size, position = self._number(_SIZE, position), position + _SIZE.size
        if size > len(self.data) - position:
            raise MalformedBatch(f"a field of {size} bytes where {len(self.data) - position} are left")
        return None if size < 0 else self.data[position : position + size]

    def _number(self, form: Struct, position: int) -> int:
        try:
            number: int = form.unpack_from(self.data, position)[0]
        except error:
            raise MalformedBatch(f"a message of {len(self.data)} bytes") from None
        return number


def messages(batch: FoundBatch) -> Iterator[FoundMessage]:
    """Yield the messages of a batch: itself, or those in the wrapper; `MalformedBatch`, and errors of decompression."""
    header, data = batch.header, batch.whole()
    append_time = header.max_timestamp if header.timestamp_type == LOG_APPEND_TIME else None
    outer = FoundMessage(header.base_offset, data[LOG_OVERHEAD:], append_time)
    if not header.attributes & CODEC_MASK:
        yield outer
        return
    inner = list(_split(_inflated(header, outer), append_time))
    if not inner:
        raise MalformedBatch("a wrapper without a message")
    base_offset = _base_offset(header, inner[-1].offset)
    for message in inner:
        if message.data[_ATTRIBUTES_POSITION] & CODEC_MASK:
            raise MalformedBatch("a compressed message inside of a wrapper")
        yield FoundMessage(wrapped(base_offset + message.offset), message.data, append_time)


def _inflated(header: BatchHeader, outer: FoundMessage) -> bytes | bytearray:
    if header.codec in CODECS_SINCE_V2 or header.magic not in (0, 1):
        raise MalformedBatch(f"{header.codec_name} in a message of format v{header.magic}")
    value = outer.value
    if value is None:
        raise MalformedBatch("a wrapper without a value")
    if header.codec == LZ4 and header.magic == 0:
        value = with_right_checksum(value)
    return inflated(header.codec, value)


def _split(data: bytes | bytearray, append_time: int | None) -> Iterator[FoundMessage]:
    """Yield the messages as stored, up to an incomplete message."""
    view, position = memoryview(data), 0
    while len(view) - position >= PREFIX.size:
        offset, size = PREFIX.unpack_from(view, position)
        if size < _SIZE_MIN:
            raise MalformedBatch(f"a message of {size} bytes inside of a wrapper")
        position += PREFIX.size
        if size > len(view) - position:
            return
        yield FoundMessage(offset, view[position : position + size], append_time)
        position += size


def _base_offset(header: BatchHeader, last: int) -> int:
    """Return the offset that the offsets inside a wrapper, the last of them `last`, are relative to."""
    if header.magic == 0 or header.base_offset == 0:  # 0: old librdkafka counted from there
        return 0
    if header.base_offset < last:
        raise MalformedBatch(f"offset {last} inside of a wrapper of offset {header.base_offset}")
    return header.base_offset - last
