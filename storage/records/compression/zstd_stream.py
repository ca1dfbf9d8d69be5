"""Zstd streams as zstd-jni's ZstdInputStreamNoFinalizer reads them, which Kafka uses.

    frame | skippable frame | frame | …      in any order, each with or without content size and checksum

Frames are joined; skippable ones hold no data. Where the stream ends within a frame, zstd-jni refuses it if it has read
from its source since the end of the frame before. It reads 128 KiB at once, so the rest of a short stream is given as
far as its blocks are whole, or ignored.
"""

from __future__ import annotations

import threading
from typing import Final

import zstandard

from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.records.compression.inflation import LARGE_BYTES, Inflation

_STEP_BYTES = 1 << 20
_SOURCE_BYTES: Final = 131075
"""The bytes that zstd-jni reads at once: ZSTD_DStreamInSize()."""

_HEADER_SIZE_MAX: Final = 18
_BLOCK_HEADER_SIZE = 3
_CHECKSUM_SIZE = 4
_RUN = 1  # a block that repeats one byte
_SKIPPABLE_MAGIC: Final = 0x184D2A50  # with any last four bits
_SKIPPABLE_HEADER_SIZE: Final = 8
_KEPT_WINDOW_BYTES = 4 << 20
"""Twice what Kafka's default level asks for. Making a decompressor takes as long as inflating 16 KiB."""

_WINDOW_BYTES_MAX = 128 << 20
"""The largest window that the library permits, for every stream."""

_of_thread = threading.local()


def unzstd(data: memoryview, inflation: Inflation) -> bytes | bytearray:
    """Inflate all frames in steps of a MiB.

    The one-shot call uses the content size that a frame declares, and its `max_output_size` does not bound the output.
    """
    window_bytes = _check_frames(data, inflation)
    inflation.grow(min(window_bytes, _WINDOW_BYTES_MAX) - _KEPT_WINDOW_BYTES)
    decompressor, inflated = _decompressor(window_bytes), bytearray()
    try:
        with decompressor.stream_reader(data, read_across_frames=True) as reader:
            step = reader.read(size := min(_STEP_BYTES, inflation.bytes_max + 1))
            if len(step) < size:  # the end: most batches, without another read and without a copy
                inflation.check(len(step))
                return step
            while step:
                inflated += step
                inflation.check(len(inflated))
                inflation.grow(len(inflated))
                step = reader.read(min(_STEP_BYTES, inflation.bytes_max + 1 - len(inflated)))
    except zstandard.ZstdError as error:
        raise MalformedBatch(f"zstd: {error}") from None
    return bytes(inflated) if len(inflated) <= LARGE_BYTES else inflated


def _decompressor(window_bytes: int) -> zstandard.ZstdDecompressor:
    """Return this thread's, which keeps the memory of the largest window it had; for larger ones a new one."""
    # A decompressor keeps its largest window. One for a window of 128 MiB in each of 16 threads would take 2 GiB.
    if window_bytes > _KEPT_WINDOW_BYTES:
        return zstandard.ZstdDecompressor()
    if not hasattr(_of_thread, "decompressor"):
        _of_thread.decompressor = zstandard.ZstdDecompressor()
    kept: zstandard.ZstdDecompressor = _of_thread.decompressor
    return kept


def _check_frames(data: memoryview, inflation: Inflation) -> int:
    """Walk over the frames: the stream reader would take any stream that ends too early for a short one.

    Return the bytes of the largest window that a frame asks for.
    """
    position = window_bytes = 0
    last_read = max(len(data) - 1, 0) // _SOURCE_BYTES * _SOURCE_BYTES
    while position < len(data) or position == 0:
        inflation.count_block()
        end, frame_window_bytes = _frame(data, position, inflation)
        window_bytes = max(window_bytes, frame_window_bytes)
        if end > len(data):
            if position <= last_read:
                raise MalformedBatch("zstd: the stream ends too early")
            break
        position = end
    return window_bytes


def _frame(data: memoryview, position: int, inflation: Inflation) -> tuple[int, int]:
    """Return the end of the frame, beyond that of the data if it is not whole, and the window it asks for."""
    header = bytes(data[position : position + _HEADER_SIZE_MAX])
    if len(header) >= 4 and int.from_bytes(header[:4], "little") & ~0xF == _SKIPPABLE_MAGIC:
        size = int.from_bytes(header[4:_SKIPPABLE_HEADER_SIZE], "little")
        return position + _SKIPPABLE_HEADER_SIZE + size, 0
    beyond = len(data) + 1
    try:
        parameters = zstandard.get_frame_parameters(header)
        position += zstandard.frame_header_size(header)
    except zstandard.ZstdError as error:
        # The library detects bytes that begin no frame; other bytes are an incomplete frame.
        if len(header) < _HEADER_SIZE_MAX:
            return beyond, 0
        raise MalformedBatch(f"zstd: {error}") from None
    end = _blocks_end(data, position, inflation)
    return beyond if end is None else end + parameters.has_checksum * _CHECKSUM_SIZE, parameters.window_size


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
