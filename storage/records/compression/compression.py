"""The codecs of a v2 batch, in the framings Kafka writes, and inflating that cannot be made to run away.

    gzip    one RFC 1952 member
    snappy  snappy-java's stream: 82 "SNAPPY" 00, version 1, compatible 1, then blocks (size, raw snappy); or one bare
            raw block when that beginning is missing
    lz4     one frame of independent blocks of up to 64 KiB, no content size, no checksums: 04224d18 60 40 82
    zstd    a frame without content size and checksum

Read is what the Java libraries of Kafka's readers take, which is more: `gzip_stream`, `lz4_frame`, `zstd_stream`.

Inflating stops as soon as the output would pass the bound that the caller passes, or a bound of `inflation` on time and
blocks: `DecompressionLimit`. Nothing is allocated because the input says so. Bytes that are no such stream, or end too
early, raise `MalformedBatch`. Compressed bytes differ from those of Kafka's libraries; they only need to inflate to the
same. Follows Kafka's CompressionType and Lz4BlockInputStream, and snappy-java's SnappyInputStream.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import cramjam
import lz4.frame
import zstandard

from offsetfs.storage.errors import MalformedBatch, StorageError, UnsupportedFormat
from offsetfs.storage.records.compression.gzip_stream import gunzip
from offsetfs.storage.records.compression.inflation import Inflation
from offsetfs.storage.records.compression.lz4_frame import unlz4
from offsetfs.storage.records.compression.zstd_stream import unzstd

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""Names by the id that a batch carries in its attributes."""


def codec_name(codec_id: int) -> str:
    """Return the name of a codec by the id that a batch carries: `unknown-<id>` for one that `CODECS` lacks."""
    return CODECS[codec_id] if codec_id < len(CODECS) else f"unknown-{codec_id}"


LZ4: Final = CODECS.index("lz4")
ZSTD: Final = CODECS.index("zstd")

CODECS_SINCE_V2: Final = range(ZSTD, len(CODECS))
"""Ids of codecs that message formats v0 and v1 do not have."""

LEVELS: Final = {"gzip": range(-1, 10), "lz4": range(1, 18), "zstd": range(-131072, 23)}
"""Levels a codec takes. For gzip 0 is not among them, which `Compression` knows."""

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Compression:
    """The compression of a writer: a name of `CODECS`, and a level or None for Kafka's default."""

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
    stream, `UnsupportedFormat` for an id that `CODECS` lacks. Codec 0 returns the bytes as they are, whatever bound.
    """
    if not 0 <= codec_id < len(CODECS):
        raise UnsupportedFormat(f"codec {codec_id}")
    try:
        # The bound holds while a stream inflates: what it declares is not used, and nothing is allocated because of it.
        with Inflation(bytes_max) as inflation:
            return _DECOMPRESSORS[codec_id](data, inflation)
    except StorageError as error:
        failure = type(error)(error.reason)
    raise failure  # a new error: the traceback of the first one holds what was inflated until then


# --- none ----------------------------------------------------------------------------------------------------------


def _copy(data: Buffer, _: int | Inflation | None) -> bytes:
    return bytes(data)


# --- gzip ----------------------------------------------------------------------------------------------------------

_GZIP_WINDOW_BITS = 31  # 15 for the window, 16 for the gzip wrapping


def _gzip(data: Buffer, level: int | None) -> bytes:
    compressor = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WINDOW_BITS)
    return compressor.compress(data) + compressor.flush()


def _gunzip(data: Buffer, inflation: Inflation) -> bytes | bytearray:
    return gunzip(memoryview(data), inflation)


# --- snappy --------------------------------------------------------------------------------------------------------

_XERIAL = struct.Struct(">8sii")
_XERIAL_MAGIC = b"\x82SNAPPY\0"
_XERIAL_VERSION = 1
_XERIAL_HEADER = _XERIAL.pack(_XERIAL_MAGIC, _XERIAL_VERSION, 1)
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
    # snappy-java ends where less than a block size is left.
    while len(view) - position >= _BLOCK_SIZE.size:
        inflation.count_block()
        (size,) = _BLOCK_SIZE.unpack_from(view, position)
        # snappy-java allows concatenated streams; a negative size is the magic of the next header.
        if size == _XERIAL_AGAIN:
            _check_second_xerial_header(view[position : position + len(_XERIAL_HEADER)])
            position += len(_XERIAL_HEADER)
            continue
        position += _BLOCK_SIZE.size
        if not 0 <= size <= len(view) - position:
            raise MalformedBatch(f"snappy: a block of {size} bytes where {len(view) - position} are left")
        inflated += _unsnappy_block(view[position : position + size], len(inflated), inflation)
        position += size
    return inflated


def _check_second_xerial_header(header: memoryview) -> None:
    # snappy-java looks at the version only here. Where the rest of the magic differs it goes on or ends, which depends
    # on the size of its caller's buffer.
    if len(header) < len(_XERIAL_HEADER) or header[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        raise MalformedBatch("snappy: the second header is invalid")
    version = _XERIAL.unpack(header)[1]
    if version < _XERIAL_VERSION:
        raise MalformedBatch(f"snappy: version {version} of the stream")


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
    return unlz4(memoryview(data), inflation)


# --- zstd ----------------------------------------------------------------------------------------------------------

_ZSTD_LEVEL = 3


def _zstd(data: Buffer, level: int | None) -> bytes:
    # Without content size, because ZstdOutputStream does not know it either when it writes the header.
    compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL if level is None else level, write_content_size=False)
    return compressor.compress(data)


def _unzstd(data: Buffer, inflation: Inflation) -> bytes | bytearray:
    return unzstd(memoryview(data), inflation)


_COMPRESSORS: Final[tuple[Callable[[Buffer, int | None], bytes], ...]] = (_copy, _gzip, _snappy, _lz4, _zstd)
_DECOMPRESSORS: Final[tuple[Callable[[Buffer, Inflation], bytes | bytearray], ...]] = (
    _copy,
    _gunzip,
    _unsnappy,
    _unlz4,
    _unzstd,
)
