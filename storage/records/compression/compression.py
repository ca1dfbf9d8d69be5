"""The four codecs of a v2 batch, in the framings Kafka writes, and inflating that cannot be made to run away.

    gzip    one RFC 1952 member
    snappy  snappy-java's stream: 82 "SNAPPY" 00, version 1, compatible 1, then blocks (size, raw snappy); or one bare
            raw block when that beginning is missing
    lz4     one frame of independent blocks of up to 64 KiB, no content size, no checksums: 04224d18 60 40 82
    zstd    frames without content size and checksum

Inflating stops as soon as the output would pass the bound that the caller passes, or a bound of `inflation` on time and
blocks: `DecompressionLimit`. Nothing is allocated because the input says so. Bytes that are no such stream, or end too
early, raise `MalformedBatch`. Compressed bytes differ from those of Kafka's libraries; they only need to inflate to the
same. Follows Kafka's CompressionType and Lz4BlockInputStream, and snappy-java's SnappyInputStream.
"""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import cramjam
import lz4.frame
import zstandard

from offsetfs.storage.errors import MalformedBatch, StorageError, UnsupportedFormat
from offsetfs.storage.records.compression.inflation import LARGE_BYTES, Inflation

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""Names by the id that a batch carries in its attributes."""

LEVELS: Final = {"gzip": range(-1, 10), "lz4": range(1, 18), "zstd": range(-131072, 23)}
"""Levels a codec takes. For gzip 0 is not among them, which `Compression` knows."""

_STEP_BYTES = 1 << 20
"""How much is inflated at once of what is large."""

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Compression:
    """How a writer compresses: a name of `CODECS`, and a level or None for Kafka's default."""

    name: str = "none"
    level: int | None = None

    def __post_init__(self) -> None:
        if self.name not in CODECS:
            raise ValueError(f"{self.name!r} is none of {', '.join(CODECS)}")
        legal = self.level is None or self.level in LEVELS.get(self.name, ())
        if not legal or (self.name == "gzip" and self.level == 0):
            raise ValueError(f"{self.name} has no level {self.level}")

    @property
    def codec(self) -> int:
        """The id that a batch carries."""
        return CODECS.index(self.name)


UNCOMPRESSED: Final = Compression()


def compress(name: str, data: Buffer, level: int | None = None) -> bytes:
    """Return `data` in the stream that Kafka's readers expect; `ValueError` for a level outside the codec's range."""
    compression = Compression(name, level)
    return _COMPRESSORS[compression.codec](data, level)


def decompress(codec_id: int, data: Buffer, bytes_max: int) -> bytes | bytearray:
    """Return what `data` inflates to, at most `bytes_max` bytes. May wait for other threads; see `inflation`.

    `DecompressionLimit` beyond that, or beyond the bounds of `inflation`; `MalformedBatch` for bytes that are no such
    stream, `UnsupportedFormat` for a codec id above 4. Codec 0 returns the bytes as they are, whatever the bound.
    """
    if not 0 <= codec_id < len(CODECS):
        raise UnsupportedFormat(f"codec {codec_id}")
    try:
        # The bound holds while a stream inflates: what it declares is not used, and nothing is allocated because of it.
        with Inflation(bytes_max) as inflation:
            return _DECOMPRESSORS[codec_id](data, inflation)
    except StorageError as error:
        failure = type(error)(error.reason)
    raise failure  # another one: the traceback of the first holds what was inflated until then


# --- none ----------------------------------------------------------------------------------------------------------


def _copy(data: Buffer, _: int | Inflation | None) -> bytes:
    return bytes(data)


# --- gzip ----------------------------------------------------------------------------------------------------------

_GZIP_WINDOW_BITS = 31  # 15 for the window, 16 for the gzip wrapping


def _gzip(data: Buffer, level: int | None) -> bytes:
    compressor = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WINDOW_BITS)
    return compressor.compress(data) + compressor.flush()


def _gunzip(data: Buffer, inflation: Inflation) -> bytes | bytearray:
    """Inflate one member. A second one is refused: a million empty members would cost a million inflaters."""
    inflater = zlib.decompressobj(_GZIP_WINDOW_BITS)
    try:
        # One byte more than allowed: zlib then also reads the trailer of a stream that fits exactly.
        inflated: bytes | bytearray = inflater.decompress(data, inflation.first_bytes)
        inflation.check(len(inflated))
        if len(inflated) == inflation.first_bytes:
            inflated = _gunzip_rest(inflater, inflated, inflation)
    except zlib.error as error:
        raise MalformedBatch(f"gzip: {error}") from None
    if not inflater.eof:
        raise MalformedBatch("gzip: the stream ends too early")
    # Kafka's producers write one member. A million empty members would each cost an inflater.
    if inflater.unused_data:
        raise MalformedBatch(f"gzip: {len(inflater.unused_data)} bytes behind the end")
    return inflated


def _gunzip_rest(inflater: zlib._Decompress, begun: bytes | bytearray, inflation: Inflation) -> bytearray:
    """Inflate what follows the first `LARGE_BYTES`, in steps."""
    inflated = bytearray(begun)
    while not inflater.eof and inflater.unconsumed_tail:
        inflation.grow(len(inflated) + _STEP_BYTES)
        inflated += inflater.decompress(
            inflater.unconsumed_tail, min(_STEP_BYTES, inflation.bytes_max + 1 - len(inflated))
        )
        inflation.check(len(inflated))
    return inflated


# --- snappy --------------------------------------------------------------------------------------------------------

_XERIAL = struct.Struct(">8sii")
_XERIAL_MAGIC = b"\x82SNAPPY\0"
_XERIAL_HEADER = _XERIAL.pack(_XERIAL_MAGIC, 1, 1)
_XERIAL_AGAIN = struct.unpack(">i", _XERIAL_MAGIC[:4])[0]
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_SIZE = struct.Struct(">i")
_SNAPPY_RATIO_MAX = 22  # the densest element makes 64 bytes out of three


def _snappy(data: Buffer, _: int | None) -> bytes:
    view = memoryview(data)
    stream = bytearray(_XERIAL_HEADER)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        stream += _BLOCK_SIZE.pack(len(block)) + block
    return bytes(stream)


def _unsnappy(data: Buffer, inflation: Inflation) -> bytes | bytearray:
    view = memoryview(data)
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC or len(view) < len(_XERIAL_HEADER):
        return _unsnappy_block(view, 0, inflation)
    inflated = bytearray()
    position = len(_XERIAL_HEADER)
    while position < len(view):
        inflation.count_block()
        if len(view) - position < _BLOCK_SIZE.size:
            raise MalformedBatch("snappy: the stream ends within a block size")
        (size,) = _BLOCK_SIZE.unpack_from(view, position)
        # snappy-java allows concatenated streams; a negative size is the magic of the next header.
        if size == _XERIAL_AGAIN and len(view) - position >= len(_XERIAL_HEADER):
            position += len(_XERIAL_HEADER)  # a second stream, appended to the first
            continue
        position += _BLOCK_SIZE.size
        if not 0 <= size <= len(view) - position:
            raise MalformedBatch(f"snappy: a block of {size} bytes where {len(view) - position} are left")
        inflated += _unsnappy_block(view[position : position + size], len(inflated), inflation)
        position += size
    return inflated


def _unsnappy_block(block: memoryview, size_before: int, inflation: Inflation) -> bytes:
    """Inflate a raw block after asking what it declares: the library allocates that much before it looks further."""
    try:
        # The library allocates what the block declares before it reads it.
        declared = cramjam.snappy.decompress_raw_len(block)
        inflation.check(size_before + declared)
        # Three bytes encode a copy of 64 bytes at most; a block cannot hold more than that ratio.
        if declared > _SNAPPY_RATIO_MAX * len(block):
            raise MalformedBatch(f"snappy: {len(block)} bytes cannot hold {declared}")
        inflation.grow(size_before + declared)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise MalformedBatch(f"snappy: {error}") from None


# --- lz4 -----------------------------------------------------------------------------------------------------------

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_DESCRIPTOR_SIZE_MIN = 7  # magic, FLG, BD, HC
_LZ4_RATIO_MAX = 255
_LZ4_BLOCK_BYTES_MAX = 4 << 20
_LZ4_FAST = 9  # Kafka's default level means the fast compressor, every other level the dense one
_LZ4_DENSE = range(3, 13)  # liblz4 takes levels below for fast; those above are the same as the last


def _lz4(data: Buffer, level: int | None) -> bytes:
    fast = level is None or level == _LZ4_FAST
    framed: bytes = lz4.frame.compress(
        data,
        compression_level=0 if level is None or fast else min(max(level, _LZ4_DENSE[0]), _LZ4_DENSE[-1]),
        # As Kafka's Lz4BlockOutputStream; readers allocate a buffer of this size.
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return framed


def _unlz4(data: Buffer, inflation: Inflation) -> bytes | bytearray:
    """Inflate one frame; what stands behind its end is not looked at, as in Kafka.

    Kafka's reader does not verify content size and content checksum. No Kafka client writes them,
    and liblz4 verifies them.
    """
    _check_lz4_descriptor(memoryview(data)[:_LZ4_DESCRIPTOR_SIZE_MIN])
    # The library allocates `bytes_most` at once, so it may be no more than the input could possibly inflate to.
    bytes_most = min(inflation.first_bytes, _LZ4_RATIO_MAX * len(data) + _LZ4_BLOCK_BYTES_MAX)
    inflater = lz4.frame.LZ4FrameDecompressor()
    try:
        inflated: bytes | bytearray = inflater.decompress(data, bytes_most)
        inflation.check(len(inflated))
        if len(inflated) == inflation.first_bytes:
            inflated = _unlz4_rest(inflater, inflated, inflation)
    except RuntimeError as error:
        raise MalformedBatch(f"lz4: {error}") from None
    if not inflater.eof:
        raise MalformedBatch("lz4: the stream ends too early")
    return inflated


def _unlz4_rest(inflater: lz4.frame.LZ4FrameDecompressor, begun: bytes | bytearray, inflation: Inflation) -> bytearray:
    """Inflate what follows the first `LARGE_BYTES`, in steps."""
    inflated = bytearray(begun)
    while not inflater.eof and not inflater.needs_input:
        inflation.grow(len(inflated) + _STEP_BYTES)
        inflated += inflater.decompress(b"", min(_STEP_BYTES, inflation.bytes_max + 1 - len(inflated)))
        inflation.check(len(inflated))
    return inflated


def _check_lz4_descriptor(descriptor: memoryview) -> None:
    if len(descriptor) < _LZ4_DESCRIPTOR_SIZE_MIN or descriptor[:4] != _LZ4_MAGIC:
        raise MalformedBatch("lz4: no frame")
    flags = descriptor[4]
    if flags >> 6 != 1 or flags & 0b11:
        raise MalformedBatch(f"lz4: frame flags {flags:#04x}")
    # Kafka's Lz4BlockInputStream refuses dependent blocks as well.
    if not flags & 0x20:
        raise MalformedBatch("lz4: blocks that depend on each other")


# --- zstd ----------------------------------------------------------------------------------------------------------

_ZSTD_LEVEL = 3
_ZSTD_STEP_BYTES = 1 << 20
_ZSTD_BLOCK_HEADER_SIZE = 3
_ZSTD_CHECKSUM_SIZE = 4
_ZSTD_RUN = 1  # a block that repeats one byte
_ZSTD_KEPT_WINDOW_BYTES = 4 << 20
"""Twice what Kafka's default level asks for. Making a decompressor takes as long as inflating 16 KiB."""

_ZSTD_WINDOW_BYTES_MAX = 128 << 20
"""What the library refuses to exceed, so that no stream gets more."""

_of_thread = threading.local()


def _zstd(data: Buffer, level: int | None) -> bytes:
    # Without content size, because ZstdOutputStream does not know it either when it writes the header.
    compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL if level is None else level, write_content_size=False)
    return compressor.compress(data)


def _unzstd(data: Buffer, inflation: Inflation) -> bytes | bytearray:
    """Inflate all frames in steps of a MiB.

    The one-shot call uses the content size that a frame declares, and its `max_output_size` does not bound the output.
    """
    window_bytes = _check_zstd_frames(memoryview(data), inflation)
    inflation.grow(min(window_bytes, _ZSTD_WINDOW_BYTES_MAX) - _ZSTD_KEPT_WINDOW_BYTES)
    decompressor, inflated = _decompressor(window_bytes), bytearray()
    try:
        with decompressor.stream_reader(data, read_across_frames=True) as reader:
            while step := reader.read(min(_ZSTD_STEP_BYTES, inflation.bytes_max + 1 - len(inflated))):
                inflated += step
                inflation.check(len(inflated))
                inflation.grow(len(inflated))
    except zstandard.ZstdError as error:
        raise MalformedBatch(f"zstd: {error}") from None
    return bytes(inflated) if len(inflated) <= LARGE_BYTES else inflated


def _decompressor(window_bytes: int) -> zstandard.ZstdDecompressor:
    """Return this thread's, which keeps the memory of the largest window it had; for larger ones a new one."""
    # A decompressor keeps its largest window. One for a window of 128 MiB in each of 16 threads would take 2 GiB.
    if window_bytes > _ZSTD_KEPT_WINDOW_BYTES:
        return zstandard.ZstdDecompressor()
    if not hasattr(_of_thread, "decompressor"):
        _of_thread.decompressor = zstandard.ZstdDecompressor()
    kept: zstandard.ZstdDecompressor = _of_thread.decompressor
    return kept


def _check_zstd_frames(data: memoryview, inflation: Inflation) -> int:
    """Walk over the block sizes: the stream reader would take a stream that ends too early for a short one.

    Return the bytes of the largest window that a frame asks for.
    """
    position = window_bytes = 0
    while position < len(data) or position == 0:
        inflation.count_block()
        try:
            header = bytes(data[position : position + 18])
            parameters = zstandard.get_frame_parameters(header)
            position += zstandard.frame_header_size(header)
            window_bytes = max(window_bytes, parameters.window_size)
        except zstandard.ZstdError as error:
            raise MalformedBatch(f"zstd: {error}") from None
        position = _zstd_blocks_end(data, position, inflation) + parameters.has_checksum * _ZSTD_CHECKSUM_SIZE
        if position > len(data):
            raise MalformedBatch("zstd: the stream ends too early")
    return window_bytes


def _zstd_blocks_end(data: memoryview, position: int, inflation: Inflation) -> int:
    last = False
    while not last:
        inflation.count_block()
        if len(data) - position < _ZSTD_BLOCK_HEADER_SIZE:
            raise MalformedBatch("zstd: the stream ends too early")
        header = int.from_bytes(data[position : position + _ZSTD_BLOCK_HEADER_SIZE], "little")
        last = bool(header & 1)
        kind, size = header >> 1 & 0b11, header >> 3
        position += _ZSTD_BLOCK_HEADER_SIZE + (1 if kind == _ZSTD_RUN else size)
    return position


_COMPRESSORS: Final[tuple[Callable[[Buffer, int | None], bytes], ...]] = (_copy, _gzip, _snappy, _lz4, _zstd)
_DECOMPRESSORS: Final[tuple[Callable[[Buffer, Inflation], bytes | bytearray], ...]] = (
    _copy,
    _gunzip,
    _unsnappy,
    _unlz4,
    _unzstd,
)
