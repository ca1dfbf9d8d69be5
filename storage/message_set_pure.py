"""A message set, in plain Python: the specification that `_codec.pyx` is held equal to by tests.

Messages of v0 and v1, one behind the other, as an old log file has them and as they lie, inflated, in a wrapper:

         +-----------+---------+---------+----------+----+----------+-----+------------+-------+
    v0   | offset    | length  | crc     | magic 0  | at | key size | key | value size | value |
         +-----------+---------+---------+----------+----+-----------+----------+-----+--------+---+-------+
    v1   | offset    | length  | crc     | magic 1  | at | timestamp | key size | key | value size | value |
         +-----------+---------+---------+----------+----+-----------+----------+-----+------------+-------+
          8           4         4         1          1    8           4                4

The length counts the bytes behind it; what is left of them behind the value is not looked at. A size below 0 is a null.
A set ends with its bytes, or before a message that they no longer hold. Whatever else arrives raises `MalformedBatch`,
a message that is itself compressed too; nothing is allocated because a length says so. Follows Kafka's LegacyRecord and
AbstractLegacyRecordBatch.DataLogInputStream.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Iterator

from offsetfs.storage.batch_header import CODEC_MASK, KEY_POSITIONS
from offsetfs.storage.errors import CorruptBatch, MalformedBatch

MESSAGE_SIZES_MIN = (26, 34)
"""Bytes of a message with neither key nor value, by magic."""

_PREFIX = struct.Struct(">qi")  # offset, length
_MAGIC_POSITION = 16
_CRC = struct.Struct(">I")
_CRC_POSITION = 12
_ATTRIBUTES_POSITION = 17
_TIMESTAMP = struct.Struct(">q")
_TIMESTAMP_POSITION = 18
_FIELD_SIZE = struct.Struct(">i")

_LONG_MIN = -(2**63)

Buffer = bytes | bytearray | memoryview
Message = tuple[int, int, int, int, int, int, int]
"""Position, offset, timestamp (-1 in v0), key position, key size, value position, value size."""


def verify(messages: Buffer) -> tuple[int, int, int]:
    """Return the offsets of the first and the last message as they are stored, and the number of messages.

    `CorruptBatch` when the checksum of one differs, `MalformedBatch` when there is none at all.
    """
    data = _bytes_of(messages)
    first, last, count, position = 0, 0, 0, 0
    for position, end in _places(data):
        _check_sum(data, position, end)
        (offset,) = _TIMESTAMP.unpack_from(data, position)
        first, last, count = offset if count == 0 else first, offset, count + 1
    if count == 0:
        raise MalformedBatch("a message set without a message")
    return first, last, count


def scan(messages: Buffer, base_offset: int, base_timestamp: int, is_append_time: bool) -> array[int]:
    """Return `codec.COLUMNS` numbers for each message: a row as that of a v2 record.

    The deltas count from `base_offset` and `base_timestamp`, and wrap around as a Java long does. With
    `is_append_time` v1 messages have the base timestamp, whatever they say. A v0 message has -1. There are no headers:
    where theirs would be is the position of the message itself.
    """
    rows = array("q")
    for position, offset, timestamp, key_position, key_size, value_position, value_size in _messages(messages):
        if is_append_time and messages[position + _MAGIC_POSITION]:
            timestamp = base_timestamp
        deltas = _wrapped(offset - base_offset), _wrapped(timestamp - base_timestamp)
        rows.extend((*deltas, key_position, key_size, value_position, value_size, position, 0))
    return rows


def join(messages: Buffer) -> bytearray:
    """Return all values, each followed by a newline; a null value is an empty line."""
    data, lines = _bytes_of(messages), bytearray()
    for *_, position, size in _messages(data):
        lines += data[position : position + max(size, 0)]
        lines += b"\n"
    return lines


def measure(messages: Buffer) -> int:
    """Return `len(join(messages))` without building it."""
    return sum(max(message[-1], 0) + 1 for message in _messages(messages))


def _bytes_of(messages: Buffer) -> memoryview:
    return memoryview(messages).cast("B")


def _places(data: memoryview) -> Iterator[tuple[int, int]]:
    """Yield where each message begins and ends."""
    position = 0
    while len(data) - position >= _PREFIX.size:
        _, length = _PREFIX.unpack_from(data, position)
        end = position + _PREFIX.size + length
        if end - position < MESSAGE_SIZES_MIN[0]:
            raise MalformedBatch(f"a message of {length} bytes")
        if end > len(data):
            return
        yield position, end
        position = end


def _messages(messages: Buffer) -> Iterator[Message]:
    data = _bytes_of(messages)
    for position, end in _places(data):
        magic = data[position + _MAGIC_POSITION]
        if magic >= len(MESSAGE_SIZES_MIN):
            raise MalformedBatch(f"magic {magic} in a message set")
        if end - position < MESSAGE_SIZES_MIN[magic]:
            raise MalformedBatch(f"a message v{magic} of {end - position} bytes")
        if data[position + _ATTRIBUTES_POSITION] & CODEC_MASK:
            raise MalformedBatch("a compressed message in a message set")
        (offset,) = _TIMESTAMP.unpack_from(data, position)
        timestamp = _TIMESTAMP.unpack_from(data, position + _TIMESTAMP_POSITION)[0] if magic else -1
        key_position, key_size, following = field(data, position + KEY_POSITIONS[magic], end)
        value_position, value_size, _ = field(data, following, end)
        yield position, offset, timestamp, key_position, key_size, value_position, value_size


def field(data: Buffer, position: int, end: int) -> tuple[int, int, int]:
    """Return position and size of the sized field here, and the position behind it. The size of a null is -1."""
    if end - position < _FIELD_SIZE.size:
        raise MalformedBatch(f"{end - position} bytes where the size of a field should be")
    size = max(_FIELD_SIZE.unpack_from(data, position)[0], -1)
    position += _FIELD_SIZE.size
    if size > end - position:
        raise MalformedBatch(f"a field of {size} bytes where {end - position} are left")
    return position, size, position + max(size, 0)


def _check_sum(data: memoryview, position: int, end: int) -> None:
    (stored,) = _CRC.unpack_from(data, position + _CRC_POSITION)
    actual = zlib.crc32(data[position + _MAGIC_POSITION : end])
    if actual != stored:
        raise CorruptBatch(f"checksum {actual:#010x} where {stored:#010x} is stored, in a message set")


def _wrapped(number: int) -> int:
    return (number - _LONG_MIN) % (1 << 64) + _LONG_MIN
