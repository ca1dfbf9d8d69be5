"""Gzip streams as Java's GZIPInputStream reads them, which Kafka uses.

    +--------+---------+---------+   +--------+---------+---------+
    | header | deflate | trailer | … | header | deflate | trailer |  anything that is no header
    +--------+---------+---------+   +--------+---------+---------+

Members are joined, empty ones too. Behind the first member, bytes that are no header end the stream; behind a header
they have to be a whole member. Flags that RFC 1952 reserves are not looked at; the checksums of header and data are.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import Final

from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.records.compression.inflation import LARGE_BYTES, Inflation

_RAW_DEFLATE: Final = -15
_START: Final = b"\x1f\x8b\x08"  # magic, and the only method
_FLAGS_POSITION: Final = 3
_FIXED_SIZE: Final = 10
_HEADER_CHECKSUM, _EXTRA, _NAME, _COMMENT = 0x02, 0x04, 0x08, 0x10
_SHORT: Final = Struct("<H")
_TRAILER: Final = Struct("<II")  # CRC-32 and size of the data
_SIZE_MASK: Final = 0xFFFFFFFF
_REST_IGNORED_BYTES: Final = 18
"""The bytes behind a member in which Java does not look for a header: less than a header and a trailer.

Java looks at them where they begin in one block of 8 KiB of its input and end in the next. Only the first bytes of a
member would then make a difference: it refuses the stream."""

_STEP_BYTES: Final = 1 << 20
_SOURCE_BYTES: Final = 64 << 10
"""The bytes that zlib gets at once. It copies bytes that it does not use: the rest after each of 60,000 members."""


def gunzip(data: memoryview, inflation: Inflation) -> bytes | bytearray:
    """Return the data of all members; `MalformedBatch` for what Java refuses."""
    start = _header_end(data, 0)
    if start is None:
        raise MalformedBatch("gzip: no header")
    inflated = bytearray()
    while start is not None:
        # 20 bytes are an empty member, which costs an inflater.
        inflation.count_block()
        end = _inflate_member(data, start, inflated, inflation)
        start = _header_end(data, end) if len(data) - end > _REST_IGNORED_BYTES else None
    return bytes(inflated) if len(inflated) <= LARGE_BYTES else inflated


def _header_end(data: memoryview, position: int) -> int | None:
    """Return where the deflate stream begins; None if there is no header."""
    if bytes(data[position : position + len(_START)]) != _START or len(data) - position < _FIXED_SIZE:
        return None
    flags, end = data[position + _FLAGS_POSITION], position + _FIXED_SIZE
    if flags & _EXTRA:
        end += _SHORT.size + int.from_bytes(data[end : end + _SHORT.size], "little")
    for _ in range(bool(flags & _NAME) + bool(flags & _COMMENT)):
        end = _text_end(data, end)
    if not flags & _HEADER_CHECKSUM:
        return end if end <= len(data) else None
    checksum = _SHORT.pack(zlib.crc32(data[position:end]) & 0xFFFF)
    return end + _SHORT.size if data[end : end + _SHORT.size] == checksum else None


def _text_end(data: memoryview, position: int) -> int:
    """Return the position behind the next zero byte; one behind the end of the data if there is none."""
    while position < len(data) and data[position]:
        position += 1
    return position + 1


def _inflate_member(data: memoryview, position: int, inflated: bytearray, inflation: Inflation) -> int:
    """Add the data of the member to `inflated`; return the position behind its trailer."""
    inflater, start, checksum = zlib.decompressobj(_RAW_DEFLATE), len(inflated), 0
    while not inflater.eof:
        source: bytes | memoryview = inflater.unconsumed_tail
        if not source:
            source = data[position : position + _SOURCE_BYTES]
            position += len(source)
        piece = _inflate_step(inflater, source, inflation.bytes_max + 1 - len(inflated))
        if not piece and not source:
            raise MalformedBatch("gzip: the stream ends too early")
        inflated += piece
        checksum = zlib.crc32(piece, checksum)
        inflation.check(len(inflated))
        inflation.grow(len(inflated))
    end = position - len(inflater.unused_data)
    if len(data) - end < _TRAILER.size:
        raise MalformedBatch("gzip: the stream ends too early")
    if _TRAILER.unpack_from(data, end) != (checksum, len(inflated) - start & _SIZE_MASK):
        raise MalformedBatch("gzip: the checksum or the size of the data differs")
    return end + _TRAILER.size


def _inflate_step(inflater: zlib._Decompress, source: bytes | memoryview, bytes_left: int) -> bytes:
    try:
        return inflater.decompress(source, min(_STEP_BYTES, bytes_left))
    except zlib.error as error:
        raise MalformedBatch(f"gzip: {error}") from None
