"""Zstd streams as zstd-jni's ZstdInputStreamNoFinalizer reads them, which Kafka uses.

    frame | skippable frame | frame | …      in any order, each with or without content size and checksum

Frames are joined; skippable ones hold no data. Where the stream ends within a frame, zstd-jni refuses it if it has read
from its source since the end of the frame before. It reads 128 KiB at once, so the rest of a short stream is given as
far as its blocks are whole, or ignored.
"""

from __future__ import annotations

import sys
from typing import Final

from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.records.compression.inflation import LARGE_BYTES, Inflation

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Buffer = bytes | bytearray | memoryview

_LEVEL: Final = 3
_STEP_BYTES = 1 << 20
_SOURCE_BYTES: Final = 131075
"""The bytes that zstd-jni reads at once: ZSTD_DStreamInSize()."""

_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_DICTIONARY_ID_SIZES: Final = (0, 1, 2, 4)  # by the last two bits of the descriptor
_CONTENT_SIZE_SIZES: Final = (0, 2, 4, 8)  # by its first two bits; 1 in place of 0 where there is no window
_SINGLE_SEGMENT, _CHECKSUM = 0x20, 0x04
_WINDOW_BYTES_MIN: Final = 1 << 10
_BLOCK_HEADER_SIZE = 3
_CHECKSUM_SIZE = 4
_RUN = 1  # a block that repeats one byte
_SKIPPABLE_MAGIC: Final = 0x184D2A50  # with any last four bits
_SKIPPABLE_HEADER_SIZE: Final = 8
_SMALL_WINDOW_BYTES = 4 << 20
"""Twice what Kafka's default level asks for; what is more counts as memory of the stream."""

_WINDOW_BYTES_MAX = 128 << 20
"""The largest window that the library permits, for every stream."""


def zstd_frame(data: Buffer, level: int | None) -> bytes:
    """Return a frame without content size, which ZstdOutputStream does not know either when it writes the header."""
    options: dict[int, int] = {
        zstd.CompressionParameter.compression_level: _LEVEL if level is None else level,
        zstd.CompressionParameter.content_size_flag: 0,
    }
    return zstd.ZstdCompressor(options=options).compress(data, zstd.ZstdCompressor.FLUSH_FRAME)


def unzstd(data: memoryview, inflation: Inflation) -> bytes | bytearray:
    """Inflate all frames in steps of a MiB, whatever content size they declare."""
    frames, window_bytes = _frames(data, inflation)
    inflation.grow(min(window_bytes, _WINDOW_BYTES_MAX) - _SMALL_WINDOW_BYTES)
    inflated = bytearray()
    try:
        for frame in frames:
            _inflate(frame, inflated, inflation)
    except zstd.ZstdError as error:
        raise MalformedBatch(f"zstd: {error}") from None
    return bytes(inflated) if len(inflated) <= LARGE_BYTES else inflated


def _inflate(frame: memoryview, inflated: bytearray, inflation: Inflation) -> None:
    """Append what the frame holds to `inflated`; of a frame that is cut off, what its whole blocks hold."""
    decompressor = zstd.ZstdDecompressor()
    more: Buffer = frame
    while not decompressor.eof and (more or not decompressor.needs_input):
        inflated += decompressor.decompress(more, min(_STEP_BYTES, inflation.bytes_max + 1 - len(inflated)))
        inflation.check(len(inflated))
        inflation.grow(len(inflated))
        more = b""  # the decompressor has it


def _frames(data: memoryview, inflation: Inflation) -> tuple[list[memoryview], int]:
    """Return the frames that hold data, and the bytes of the largest window that one asks for.

    The last one may be cut off anywhere: the decompressor waits for more of it, and refuses bytes that begin no frame.
    """
    frames: list[memoryview] = []
    position = window_bytes = 0
    last_read = max(len(data) - 1, 0) // _SOURCE_BYTES * _SOURCE_BYTES
    while position < len(data) or position == 0:
        inflation.count_block()
        magic = bytes(data[position : position + len(_MAGIC)])
        if magic == _MAGIC or len(magic) < len(_MAGIC):
            end, frame_window_bytes = _frame(data, position, inflation)
            window_bytes = max(window_bytes, frame_window_bytes)
            frames.append(data[position:end])
        else:
            end = _skippable_end(data, position)
        if end > len(data):
            if position <= last_read:
                raise MalformedBatch("zstd: the stream ends too early")
            break
        position = end
    return frames, window_bytes


def _skippable_end(data: memoryview, position: int) -> int:
    """Return the end of the skippable frame, beyond that of the data if it is not whole."""
    header = bytes(data[position : position + _SKIPPABLE_HEADER_SIZE])
    if int.from_bytes(header[: len(_MAGIC)], "little") & ~0xF != _SKIPPABLE_MAGIC:
        raise MalformedBatch("zstd: no frame")
    return position + _SKIPPABLE_HEADER_SIZE + int.from_bytes(header[len(_MAGIC) :], "little")


def _frame(data: memoryview, position: int, inflation: Inflation) -> tuple[int, int]:
    """Return the end of the frame, beyond that of the data if it is not whole, and the window it asks for."""
    beyond = len(data) + 1
    position += len(_MAGIC)
    if position >= len(data):
        return beyond, 0
    descriptor = data[position]
    position += 1
    content_size_size = _CONTENT_SIZE_SIZES[descriptor >> 6]
    start = position
    if descriptor & _SINGLE_SEGMENT:
        content_size_size = max(content_size_size, 1)
    else:
        start += 1
    content_size_position = start + _DICTIONARY_ID_SIZES[descriptor & 0b11]
    blocks = content_size_position + content_size_size
    if blocks > len(data):
        return beyond, 0
    if descriptor & _SINGLE_SEGMENT:
        window_bytes = int.from_bytes(data[content_size_position:blocks], "little") + (content_size_size == 2) * 256
    else:
        exponent, mantissa = data[position] >> 3, data[position] & 0b111
        window_bytes = (_WINDOW_BYTES_MIN << exponent) // 8 * (8 + mantissa)
    end = _blocks_end(data, blocks, inflation)
    return beyond if end is None else end + bool(descriptor & _CHECKSUM) * _CHECKSUM_SIZE, window_bytes


def _blocks_end(data: memoryview, position: int, inflation: Inflation) -> int | None:
    """Return the position behind the last block; None if the data ends before it."""
    last = False
    while not last:
        inflation.count_block()
        if len(data) - position < _BLOCK_HEADER_SIZE:
            return None
        header = int.from_bytes(data[position : position + _BLOCK_HEADER_SIZE], "little")
        last = bool(header & 1)
        kind, size = header >> 1 & 0b11, header >> 3
        position += _BLOCK_HEADER_SIZE + (1 if kind == _RUN else size)
    return position
