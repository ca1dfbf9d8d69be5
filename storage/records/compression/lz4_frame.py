"""LZ4 frames as Kafka's Lz4BlockInputStream reads them, and the checksum in their header.

    magic | flags | block size | content size | checksum of the header     block | block | … | end | content checksum

One frame of independent blocks is read. Content size and content checksum are not looked at, nor is what stands behind
the end; checksums of blocks are. A block that holds nothing ends the stream as well: Kafka's reader returns no bytes
for it, which its callers take for the end. liblz4 verifies more: it is given the frame without what Kafka leaves out.

Kafka's producers of v0 took the checksum of the header over the frame's magic as well (KAFKA-3160), and its readers of
v0 look at none: `with_right_checksum`. No more of xxHash32 is needed than inputs below 16 bytes ask for.
"""

from __future__ import annotations

import functools
import struct
from typing import Final, NamedTuple

import lz4.frame

from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.records.compression.inflation import Inflation

Buffer = bytes | bytearray | memoryview

_MAGIC: Final = b"\x04\x22\x4d\x18"
_HEADER_SIZE_MIN = 7  # magic, flags, block size, checksum
_FLAGS_POSITION = 4  # behind the frame's magic
_BLOCK_SIZE_POSITION = 5
_INDEPENDENT_FLAG, _BLOCK_CHECKSUM_FLAG, _CONTENT_SIZE_FLAG, _CONTENT_CHECKSUM_FLAG = 0x20, 0x10, 0x08, 0x04
_RESERVED_FLAGS = 0x03
_DESCRIPTOR_SIZE = 2
_CONTENT_SIZE_SIZE = 8
_CHECKSUM_SIZE = 4
_BLOCK_BYTES: Final = {0x40: 64 << 10, 0x50: 256 << 10, 0x60: 1 << 20, 0x70: 4 << 20}
_STORED = 1 << 31  # the bit of a block size that says that the block is not compressed
_END: Final = bytes(4)
_FIRST_LITERALS = 0x10  # a block of one byte below this value holds nothing
_RATIO_MAX = 255
_STEP_BYTES: Final = 1 << 20

_WORD = struct.Struct("<I")
_MASK = 0xFFFFFFFF
_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1


def unlz4(data: memoryview, inflation: Inflation) -> bytes | bytearray:
    """Inflate one frame; `MalformedBatch` for what Kafka refuses."""
    header = _header(data)
    end = _blocks_end(data, header, inflation)
    is_plain = not header.has(_CONTENT_SIZE_FLAG | _CONTENT_CHECKSUM_FLAG) and data[end : end + len(_END)] == _END
    frame = data if is_plain else header.without_content_fields(data[header.end : end])
    # The library allocates `bytes_most` at once, so it may be no more than the input could possibly inflate to.
    bytes_most = min(inflation.first_bytes, _RATIO_MAX * len(frame) + max(_BLOCK_BYTES.values()))
    inflater = lz4.frame.LZ4FrameDecompressor()
    try:
        inflated: bytes | bytearray = inflater.decompress(frame, bytes_most)
        inflation.check(len(inflated))
        if len(inflated) == inflation.first_bytes:
            inflated = _rest(inflater, inflated, inflation)
    except RuntimeError as error:
        raise MalformedBatch(f"lz4: {error}") from None
    if not inflater.eof:
        raise MalformedBatch("lz4: the stream ends too early")
    return inflated


def _rest(inflater: lz4.frame.LZ4FrameDecompressor, begun: bytes | bytearray, inflation: Inflation) -> bytearray:
    """Inflate what follows the first `LARGE_BYTES`, in steps."""
    inflated = bytearray(begun)
    while not inflater.eof and not inflater.needs_input:
        inflation.grow(len(inflated) + _STEP_BYTES)
        inflated += inflater.decompress(b"", min(_STEP_BYTES, inflation.bytes_max + 1 - len(inflated)))
        inflation.check(len(inflated))
    return inflated


class _Header(NamedTuple):
    flags: int
    block_size: int
    end: int

    def has(self, flag: int) -> bool:
        return bool(self.flags & flag)

    def without_content_fields(self, blocks: memoryview) -> bytes:
        descriptor = bytes((self.flags & ~(_CONTENT_SIZE_FLAG | _CONTENT_CHECKSUM_FLAG), self.block_size))
        return b"".join((_MAGIC, descriptor, bytes((header_checksum(descriptor),)), blocks, _END))


def _header(data: memoryview) -> _Header:
    if len(data) < _HEADER_SIZE_MIN or bytes(data[: len(_MAGIC)]) != _MAGIC:
        raise MalformedBatch("lz4: no frame")
    header = _Header(data[_FLAGS_POSITION], data[_BLOCK_SIZE_POSITION], _checksum_position(data) + 1)
    if header.flags >> 6 != 1 or header.has(_RESERVED_FLAGS):
        raise MalformedBatch(f"lz4: frame flags {header.flags:#04x}")
    # Kafka's Lz4BlockInputStream refuses dependent blocks as well.
    if not header.has(_INDEPENDENT_FLAG):
        raise MalformedBatch("lz4: blocks that depend on each other")
    if header.block_size not in _BLOCK_BYTES:
        raise MalformedBatch(f"lz4: block size {header.block_size:#04x}")
    if len(data) < header.end or data[header.end - 1] != header_checksum(data[_FLAGS_POSITION : header.end - 1]):
        raise MalformedBatch("lz4: the checksum of the header differs")
    return header


def _blocks_end(data: memoryview, header: _Header, inflation: Inflation) -> int:
    """Return the position of the end mark, or behind a block that ends the stream as well."""
    position = header.end
    checksum_size = _CHECKSUM_SIZE if header.has(_BLOCK_CHECKSUM_FLAG) else 0
    while True:
        inflation.count_block()
        if len(data) - position < _WORD.size:
            raise MalformedBatch("lz4: the stream ends too early")
        word = int.from_bytes(data[position : position + _WORD.size], "little")
        start, size = position + _WORD.size, word & ~_STORED
        if size == 0:
            content_checksum_size = _CHECKSUM_SIZE if header.has(_CONTENT_CHECKSUM_FLAG) else 0
            if len(data) - start < content_checksum_size:
                raise MalformedBatch("lz4: the stream ends too early")
            return position
        if size > _BLOCK_BYTES[header.block_size] or len(data) - start < size + checksum_size:
            raise MalformedBatch(f"lz4: a block of {size} bytes where {len(data) - start} are left")
        position = start + size + checksum_size
        if word == 1 and data[start] < _FIRST_LITERALS:
            return position


def _checksum_position(frame: Buffer) -> int:
    content_size_size = _CONTENT_SIZE_SIZE if frame[_FLAGS_POSITION] & _CONTENT_SIZE_FLAG else 0
    return _FLAGS_POSITION + _DESCRIPTOR_SIZE + content_size_size


def with_right_checksum(frame: Buffer) -> Buffer:
    """Return the frame with the header checksum that its flags ask for; one too short for a header as it is."""
    if len(frame) <= _FLAGS_POSITION:
        return frame
    position = _checksum_position(frame)
    if len(frame) <= position:
        return frame
    repaired = bytearray(frame)
    repaired[position] = header_checksum(repaired[_FLAGS_POSITION:position])
    return repaired


def header_checksum(descriptor: Buffer) -> int:
    """Return the checksum byte of a descriptor: flags, block size and, if the flags say so, content size."""
    return _xxhash32_short(bytes(descriptor)) >> 8 & 0xFF


@functools.lru_cache(maxsize=64)  # nearly all writers make one and the same header
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
