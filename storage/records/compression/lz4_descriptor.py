"""The checksum in an LZ4 frame's header: the right one, and frames of message format v0, which have another.

Kafka's producers of v0 took the checksum over the frame's magic as well (KAFKA-3160), and its readers of v0 look at
none. A library looks, so it is given the frame with the right one. Follows Kafka's Lz4BlockInputStream, and xxHash32,
of which no more is needed than inputs below 16 bytes ask for.
"""

from __future__ import annotations

import struct

Buffer = bytes | bytearray | memoryview

_FLAGS_POSITION = 4  # behind the frame's magic
_CONTENT_SIZE_FLAG = 0x08
_DESCRIPTOR_SIZE = 2
_CONTENT_SIZE_SIZE = 8

_WORD = struct.Struct("<I")
_MASK = 0xFFFFFFFF
_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1


def with_right_checksum(frame: Buffer) -> Buffer:
    """Return the frame with the header checksum that its flags ask for; one too short for a header as it is."""
    if len(frame) <= _FLAGS_POSITION:
        return frame
    size = _DESCRIPTOR_SIZE + (_CONTENT_SIZE_SIZE if frame[_FLAGS_POSITION] & _CONTENT_SIZE_FLAG else 0)
    position = _FLAGS_POSITION + size
    if len(frame) <= position:
        return frame
    repaired = bytearray(frame)
    repaired[position] = header_checksum(repaired[_FLAGS_POSITION:position])
    return repaired


def header_checksum(descriptor: Buffer) -> int:
    """Return the checksum byte of a descriptor: flags, block size and, if the flags say so, content size."""
    return _xxhash32_short(bytes(descriptor)) >> 8 & 0xFF


def _xxhash32_short(data: bytes) -> int:
    """Return xxHash32 with seed 0 of less than 16 bytes."""
    assert len(data) < 16
    value = _PRIME_5 + len(data)
    whole = len(data) // 4 * 4
    for (word,) in _WORD.iter_unpack(data[:whole]):
        value = _rotate(value + word * _PRIME_3, 17) * _PRIME_4
    for byte in data[whole:]:
        value = _rotate(value + byte * _PRIME_5, 11) * _PRIME_1
    value &= _MASK
    value = (value ^ value >> 15) * _PRIME_2 & _MASK
    value = (value ^ value >> 13) * _PRIME_3 & _MASK
    return value ^ value >> 16


def _rotate(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> 32 - bits) & _MASK
