"""Variable-length integers as Kafka writes them: zig-zag, then seven bits a byte, low group first.

A varint holds 32 bits in at most 5 bytes, a varlong 64 bits in at most 10. Encoding refuses what does not fit;
decoding refuses what runs over the end or does not stop in time, and ignores surplus high bits in the last byte, as
Kafka does. Follows Kafka's ByteUtils. The bulk paths have their own copy in `native/codec.pyx`; this one is the
reference.
"""

from __future__ import annotations

from offsetfs.storage.errors import MalformedBatch

VARINT_SIZE_MAX = 5
VARLONG_SIZE_MAX = 10

Buffer = bytes | bytearray | memoryview


def encode(value: int) -> bytes:
    """Return the 1 to 5 bytes of a 32-bit number; `ValueError` when it is wider."""
    _require_width(value, 32)
    return _encode(value)


def encode_long(value: int) -> bytes:
    """Return the 1 to 10 bytes of a 64-bit number; `ValueError` when it is wider."""
    _require_width(value, 64)
    return _encode(value)


def decode(buffer: Buffer, position: int, end: int) -> tuple[int, int]:
    """Return the 32-bit number at `position` and the position behind it, reading nothing at or beyond `end`."""
    return _decode(buffer, position, end, VARINT_SIZE_MAX, 32)


def decode_long(buffer: Buffer, position: int, end: int) -> tuple[int, int]:
    """Return the 64-bit number at `position` and the position behind it, reading nothing at or beyond `end`."""
    return _decode(buffer, position, end, VARLONG_SIZE_MAX, 64)


def size(value: int) -> int:
    """Return how many bytes `encode` or `encode_long` would take."""
    return max(1, (_zigzag(value).bit_length() + 6) // 7)


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (~value << 1) | 1


def _encode(value: int) -> bytes:
    rest = _zigzag(value)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _decode(buffer: Buffer, position: int, end: int, size_max: int, width: int) -> tuple[int, int]:
    raw = 0
    for count in range(size_max):
        if position >= end:
            raise MalformedBatch("a varint runs over the end")
        byte = buffer[position]
        position += 1
        raw |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            raw &= (1 << width) - 1
            return (raw >> 1) ^ -(raw & 1), position
    raise MalformedBatch(f"a varint of more than {size_max} bytes")


def _require_width(value: int, width: int) -> None:
    if not -(1 << width - 1) <= value < 1 << width - 1:
        raise ValueError(f"{value} does not fit {width} bits")
