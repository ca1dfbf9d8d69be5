"""A message set, in plain Python: the specification of `native/message_set.pyx`; tests compare both.

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
from typing import NamedTuple

from offsetfs.storage.errors import CorruptBatch, MalformedBatch
from offsetfs.storage.records.format.batch_header import APPEND_TIME_FLAG, CODEC_MASK, KEY_POSITIONS
from offsetfs.storage.units import I64_MAX, wrapped

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


Buffer = bytes | bytearray | memoryview


class LegacyMessage(NamedTuple):
    """The place of a message and of its fields. `timestamp` is -1 in v0, the size of a null is -1."""

    position: int
    end: int
    magic: int
    attributes: int
    offset: int
    timestamp: int
    key_position: int
    key_size: int
    value_position: int
    value_size: int


def verify(messages: Buffer) -> tuple[int, int, int]:
    """Return the offsets of the first and the last message as they are stored, and the number of messages.

    Their structure is checked. `CorruptBatch` when the checksum of one differs, `MalformedBatch` when there is none.
    """
    data = _bytes_of(messages)
    offsets = []
    for message in _messages(data):
        if not _is_sum_right(data, message):
            raise CorruptBatch(f"the checksum differs (byte {message.position} of a message set)")
        offsets.append(message.offset)
    if not offsets:
        raise MalformedBatch("a message set without a message")
    return offsets[0], offsets[-1], len(offsets)


def scan(messages: Buffer, base_offset: int, base_timestamp: int, is_append_time: bool) -> array[int]:
    """Return the row (`record_row`) of each message, as that of a v2 record.

    The deltas count from `base_offset` and `base_timestamp`, and wrap around as a Java long does. With
    `is_append_time` v1 messages have the base timestamp, whatever they say. A v0 message has -1. There are no headers:
    where theirs would be is the position of the message itself.
    """
    rows = array("q")
    for message in _messages(_bytes_of(messages)):
        timestamp = base_timestamp if is_append_time and message.magic else message.timestamp
        rows.extend((wrapped(message.offset - base_offset), wrapped(timestamp - base_timestamp)))
        rows.extend((message.key_position, message.key_size, message.value_position, message.value_size))
        rows.extend((message.position, 0))
    return rows


def join(messages: Buffer) -> bytearray:
    """Return all values, each followed by a newline; a null value is an empty line."""
    data, lines = _bytes_of(messages), bytearray()
    for message in _messages(data):
        lines += data[message.value_position : message.value_position + max(message.value_size, 0)]
        lines += b"\n"
    return lines


def measure(messages: Buffer) -> int:
    """Return `len(join(messages))` without building it."""
    return sum(max(message.value_size, 0) + 1 for message in _messages(_bytes_of(messages)))


def run(messages: Buffer, size_max: int) -> tuple[int, int, int, int]:
    """Return size, number, last offset and largest timestamp of the run of messages that begins here.

    A run is what may be read as one: whole messages, not compressed, all of them v0 or all v1 with one type of
    timestamp, structure and checksums sound, offsets rising. It ends before whatever is not; no longer than `size_max`
    bytes unless the first message is. (0, 0, -1, -1) where not even that one qualifies. Raises nothing.
    """
    data = _bytes_of(messages)
    size, offsets, timestamps = 0, [-1], list[int]()
    kind: tuple[int, int] | None = None
    try:
        for message in _messages(data):
            kind = _kind(message) if kind is None else kind
            if _kind(message) != kind or not offsets[-1] < message.offset < I64_MAX:
                break
            if not _is_sum_right(data, message):
                break
            if timestamps and message.end > size_max:
                break
            size = message.end
            offsets.append(message.offset)
            timestamps.append(message.timestamp)
    except MalformedBatch:
        pass
    return size, len(timestamps), offsets[-1], max(timestamps, default=-1)


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


def _messages(data: memoryview) -> Iterator[LegacyMessage]:
    for position, end in _places(data):
        magic = data[position + _MAGIC_POSITION]
        if magic >= len(MESSAGE_SIZES_MIN):
            raise MalformedBatch(f"magic {magic} in a message set")
        if end - position < MESSAGE_SIZES_MIN[magic]:
            raise MalformedBatch(f"a message v{magic} of {end - position} bytes")
        attributes = data[position + _ATTRIBUTES_POSITION]
        if attributes & CODEC_MASK:
            raise MalformedBatch("a compressed message in a message set")
        (offset,) = _TIMESTAMP.unpack_from(data, position)
        timestamp = _TIMESTAMP.unpack_from(data, position + _TIMESTAMP_POSITION)[0] if magic else -1
        key_position, key_size, following = field(data, position + KEY_POSITIONS[magic], end)
        value_position, value_size, _ = field(data, following, end)
        where = key_position, key_size, value_position, value_size
        yield LegacyMessage(position, end, magic, attributes, offset, timestamp, *where)


def field(data: Buffer, position: int, end: int) -> tuple[int, int, int]:
    """Return position and size of the sized field here, and the position behind it. The size of a null is -1."""
    if end - position < _FIELD_SIZE.size:
        raise MalformedBatch(f"{end - position} bytes where the size of a field should be")
    size = max(_FIELD_SIZE.unpack_from(data, position)[0], -1)
    position += _FIELD_SIZE.size
    if size > end - position:
        raise MalformedBatch(f"a field of {size} bytes where {end - position} are left")
    return position, size, position + max(size, 0)


def _is_sum_right(data: memoryview, message: LegacyMessage) -> bool:
    (stored,) = _CRC.unpack_from(data, message.position + _CRC_POSITION)
    actual = zlib.crc32(data[message.position + _MAGIC_POSITION : message.end])
    return actual == int(stored)


def _kind(message: LegacyMessage) -> tuple[int, int]:
    """Return what the messages of a run have in common: format and type of timestamp."""
    return message.magic, message.attributes & APPEND_TIME_FLAG if message.magic else 0
