"""The codecs: Kafka's framings byte by byte, round trips, broken streams, and bombs that must not go off."""

from __future__ import annotations

import os
import random
import struct
import time
import zlib
from collections.abc import Callable
from typing import Any

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetfs.storage.errors import DecompressionLimit, MalformedBatch, UnsupportedFormat
from offsetfs.storage.records.compression.compression import (
    CODECS,
    LEVELS,
    UNCOMPRESSED,
    Buffer,
    Compression,
    compress,
    decompress,
)
from offsetfs.storage.records.compression.lz4_frame import header_checksum

pytestmark = pytest.mark.unit

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
COMPRESSING = CODECS[1:]
MIB = 1 << 20
HELLO = b"hello hello hello hello"
KAFKA_HELLO = {
    "snappy": "82534e415050590000000001000000010000000b171468656c6c6f20420600",
    "gzip": "1f8b08000000000000ffcb48cdc9c957c8402701e3513d8d17000000",
}
NOISE = random.Random(1).randbytes(200_000)
LZ4_HEADER = bytes.fromhex("04224d18604082")
PAYLOADS = {
    "empty": b"",
    "one byte": b"x",
    "256 times data": b"data" * 256,
    "1000 random bytes": NOISE[:1000],
    "1000 equal bytes": b"a" * 1000,
    "a byte less than a snappy block": NOISE[:32767],
    "a snappy block": NOISE[:32768],
    "a byte more than a snappy block": NOISE[:32769],
    "an lz4 block": b"ab" * 32768,
    "96 KiB": NOISE[: 96 << 10],
    "a MiB": b"one line like the other\n" * 43691,
}


# --- round trips ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
@pytest.mark.parametrize("name", CODECS)
def test_what_is_compressed_inflates_to_the_same(name: str, payload: bytes) -> None:
    codec_id = CODECS.index(name)
    assert decompress(codec_id, compress(name, payload), len(payload)) == payload


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, lambda data: memoryview(b"xx" + data)[2:]])
@pytest.mark.parametrize("name", CODECS)
def test_any_buffer_is_taken(name: str, wrap: Callable[[bytes], Buffer]) -> None:
    compressed = compress(name, wrap(HELLO))
    assert decompress(CODECS.index(name), wrap(compressed), 100) == HELLO


@pytest.mark.parametrize("name", COMPRESSING)
def test_the_bound_is_on_the_byte(name: str) -> None:
    codec_id, compressed = CODECS.index(name), compress(name, HELLO)
    assert decompress(codec_id, compressed, len(HELLO)) == HELLO
    with pytest.raises(DecompressionLimit, match=f"more than {len(HELLO) - 1} bytes"):
        decompress(codec_id, compressed, len(HELLO) - 1)


@pytest.mark.parametrize("name", COMPRESSING)
def test_an_empty_payload_passes_a_bound_of_nothing(name: str) -> None:
    assert decompress(CODECS.index(name), compress(name, b""), 0) == b""


def test_no_compression_is_the_bytes_as_they_are_whatever_the_bound() -> None:
    assert compress("none", HELLO) == HELLO
    assert decompress(0, HELLO, 1) == HELLO


@pytest.mark.parametrize("codec_id", [-1, len(CODECS), 7])
def test_an_unknown_codec_is_refused_by_name(codec_id: int) -> None:
    with pytest.raises(UnsupportedFormat, match=f"codec {codec_id}"):
        decompress(codec_id, b"", 1)


@pytest.mark.parametrize(
    ("name", "level"),
    [("gzip", -1), ("gzip", 1), ("gzip", 9), ("lz4", 1), ("lz4", 9), ("lz4", 17), ("zstd", -131072), ("zstd", 22)],
)
def test_every_level_inflates_to_the_same(name: str, level: int) -> None:
    assert decompress(CODECS.index(name), compress(name, PAYLOADS["a MiB"], level), MIB + 1000) == PAYLOADS["a MiB"]


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("gzip", 0),
        ("gzip", 10),
        ("gzip", -2),
        ("lz4", 0),
        ("lz4", 18),
        ("zstd", 23),
        ("zstd", -131073),
        ("snappy", 1),
        ("none", 1),
        ("brotli", None),
    ],
)
def test_a_level_or_codec_that_kafka_does_not_have_is_refused(name: str, level: int | None) -> None:
    with pytest.raises(ValueError):
        Compression(name, level)
    with pytest.raises(ValueError):
        compress(name, b"", level)


def test_a_compression_has_the_id_in_its_batches() -> None:
    assert [Compression(name).codec for name in CODECS] == [0, 1, 2, 3, 4]
    assert Compression("none", None) == UNCOMPRESSED
    assert set(LEVELS) < set(CODECS)


# --- framings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KAFKA_HELLO)
def test_what_kafkas_libraries_wrote_is_read(name: str) -> None:
    assert decompress(CODECS.index(name), bytes.fromhex(KAFKA_HELLO[name]), 100) == HELLO


def test_snappy_is_written_as_kafka_writes_it() -> None:
    assert compress("snappy", HELLO).hex() == KAFKA_HELLO["snappy"]
    assert compress("snappy", b"").hex() == "82534e41505059000000000100000001"


def test_snappy_blocks_hold_32_kib() -> None:
    stream = compress("snappy", NOISE[:70_000])
    sizes, position = [], 16
    while position < len(stream):
        (size,) = struct.unpack_from(">i", stream, position)
        sizes.append(cramjam.snappy.decompress_raw_len(stream[position + 4 : position + 4 + size]))
        position += 4 + size
    assert sizes == [32768, 32768, 4464]


def test_a_bare_snappy_block_is_read() -> None:
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(HELLO)), 100) == HELLO


def test_snappy_streams_behind_each_other_are_read() -> None:
    assert decompress(SNAPPY, compress("snappy", b"one, ") + compress("snappy", b"two"), 100) == b"one, two"


def test_lz4_frames_begin_and_end_as_kafkas() -> None:
    stream = compress("lz4", HELLO)
    assert stream[:7].hex() == "04224d18604082"
    assert stream[-4:] == bytes(4)


def test_lz4_blocks_hold_64_kib() -> None:
    stream = compress("lz4", b"ab" * 100_000)
    count, position = 0, 7
    while size := struct.unpack_from("<I", stream, position)[0] & 0x7FFFFFFF:
        count, position = count + 1, position + 4 + size
    assert (count, position + 4) == (4, len(stream))


@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
@pytest.mark.parametrize("options", [{}, {"block_checksum": True}, {"content_checksum": True}, {"store_size": True}])
def test_lz4_frames_of_other_writers_are_read(block_size: int, options: dict[str, Any]) -> None:
    options = {"block_linked": False, "store_size": False, "block_size": block_size} | options
    assert decompress(LZ4, lz4.frame.compress(PAYLOADS["a MiB"], **options), 2 * MIB) == PAYLOADS["a MiB"]


def test_what_stands_behind_an_lz4_frame_is_not_looked_at() -> None:
    assert decompress(LZ4, compress("lz4", HELLO) + b"anything", 100) == HELLO


def test_zstd_frames_carry_neither_size_nor_checksum() -> None:
    parameters = zstandard.get_frame_parameters(compress("zstd", HELLO))
    assert parameters.content_size == zstandard.CONTENTSIZE_UNKNOWN
    assert not parameters.has_checksum


@pytest.mark.parametrize("options", [{"write_checksum": True}, {"write_content_size": True}, {"level": 19}])
def test_zstd_frames_of_other_writers_are_read(options: dict[str, Any]) -> None:
    frame = zstandard.ZstdCompressor(**options).compress(PAYLOADS["a MiB"])
    assert decompress(ZSTD, frame, 2 * MIB) == PAYLOADS["a MiB"]


def test_zstd_frames_behind_each_other_are_read() -> None:
    assert decompress(ZSTD, compress("zstd", b"one, ") + compress("zstd", b"two"), 100) == b"one, two"


# --- broken streams ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMPRESSING)
def test_a_stream_cut_anywhere_is_refused(name: str) -> None:
    stream = compress(name, NOISE[:300] + HELLO * 20)
    # Without its first 16 bytes whole, a snappy stream is not known for one and fails as a bare block. Less than the
    # size of a block behind them is its end.
    cuts = [cut for cut in range(len(stream)) if not (name == "snappy" and 16 <= cut < 20)]
    for cut in cuts:
        with pytest.raises(MalformedBatch):
            decompress(CODECS.index(name), stream[:cut], MIB)


def lz4_frame_with(flags: int, block_descriptor: int = 0x40) -> bytes:
    stream = bytearray(compress("lz4", HELLO))
    stream[4:6] = bytes([flags, block_descriptor])
    return bytes(stream)


def gzip_with_header_checksum(error: int) -> bytes:
    header = b"\x1f\x8b\x08\x02" + bytes(6)
    return header + struct.pack("<H", zlib.crc32(header) & 0xFFFF ^ error) + compress("gzip", HELLO)[10:]


def skippable(size: int) -> bytes:
    return struct.pack("<II", 0x184D2A57, size) + bytes(size)


def lz4_frame_of_another_size() -> bytes:
    frame = bytearray(lz4.frame.compress(HELLO, block_linked=False, store_size=True))
    frame[6] ^= 1
    frame[14] = header_checksum(frame[4:14])
    return bytes(frame)


XERIAL_MAGIC = b"\x82SNAPPY\0"
SKIPPABLE = skippable(5)
EMPTY_GZIP = compress("gzip", b"")
SUMMED_LZ4 = lz4.frame.compress(HELLO, block_linked=False, content_checksum=True)

TAKEN = {
    "gzip: two members": (GZIP, compress("gzip", HELLO[:3]) + compress("gzip", HELLO[3:])),
    "gzip: an empty member first": (GZIP, EMPTY_GZIP + compress("gzip", HELLO)),
    "gzip: zeros behind the end": (GZIP, compress("gzip", HELLO) + bytes(1000)),
    "gzip: a header without data behind the end": (GZIP, compress("gzip", HELLO) + EMPTY_GZIP[:18]),
    "gzip: reserved flags": (GZIP, b"\x1f\x8b\x08\xe0" + compress("gzip", HELLO)[4:]),
    "gzip: a checksum of the header": (GZIP, gzip_with_header_checksum(0)),
    "gzip: a name and a comment": (GZIP, b"\x1f\x8b\x08\x18" + bytes(6) + b"a\0b\0" + compress("gzip", HELLO)[10:]),
    "snappy: versions that no library writes": (
        SNAPPY,
        XERIAL_MAGIC + struct.pack(">ii", 0, 9) + compress("snappy", HELLO)[16:],
    ),
    "snappy: less than a block size behind the end": (SNAPPY, compress("snappy", HELLO) + b"xyz"),
    "lz4: a wrong content size": (LZ4, lz4_frame_of_another_size()),
    "lz4: a wrong content checksum": (LZ4, SUMMED_LZ4[:-4] + b"xxxx"),
    "lz4: a block of nothing instead of the end": (LZ4, compress("lz4", HELLO)[:-4] + struct.pack("<I", 1) + b"\0"),
    "zstd: a skippable frame first": (ZSTD, SKIPPABLE + compress("zstd", HELLO)),
    "zstd: a skippable frame last": (ZSTD, compress("zstd", HELLO) + SKIPPABLE),
    "zstd: a skippable frame that is not whole, last": (ZSTD, compress("zstd", HELLO) + SKIPPABLE[:9]),
    "zstd: a frame that is not whole, last": (ZSTD, (compress("zstd", HELLO) * 2)[:-2]),
}


@pytest.mark.parametrize(("codec_id", "stream"), TAKEN.values(), ids=TAKEN)
def test_what_kafkas_readers_take_is_read(codec_id: int, stream: bytes) -> None:
    assert decompress(codec_id, stream, MIB) == HELLO


def test_members_without_data_cost_a_bounded_time() -> None:
    with pytest.raises(DecompressionLimit, match="blocks"):
        decompress(GZIP, EMPTY_GZIP * 100_000, 64 * MIB)


BROKEN = {
    "gzip: a second member that ends too early": (GZIP, (compress("gzip", HELLO) * 2)[:-1]),
    "gzip: a wrong size of the second member": (GZIP, (compress("gzip", HELLO) * 2)[:-1] + b"x"),
    "gzip: a wrong checksum of the header": (GZIP, gzip_with_header_checksum(1)),
    "gzip: nothing": (GZIP, b""),
    "gzip: a wrong checksum": (GZIP, compress("gzip", HELLO)[:-8] + b"xxxx" + compress("gzip", HELLO)[-4:]),
    "gzip: a bare zlib stream": (GZIP, zlib.compress(HELLO)),
    "gzip: noise": (GZIP, NOISE[:100]),
    "snappy: a negative block size": (SNAPPY, compress("snappy", b"") + struct.pack(">i", -1) + b"xxxx"),
    "snappy: a block of 2 GiB": (SNAPPY, compress("snappy", b"") + struct.pack(">i", 2**31 - 1) + b"xxxx"),
    "snappy: an empty block": (SNAPPY, compress("snappy", b"") + struct.pack(">i", 0)),
    "snappy: a block that is none": (SNAPPY, compress("snappy", b"") + struct.pack(">i", 4) + b"\x10\xff\xff\xff"),
    "snappy: more declared than its bytes can hold": (SNAPPY, b"\xff\xff\x0f" + bytes(100)),
    "snappy: noise": (SNAPPY, b"\xff" * 100),
    "lz4: another magic": (LZ4, b"\x04\x22\x4d\x19" + compress("lz4", HELLO)[4:]),
    "lz4: blocks that depend on each other": (LZ4, lz4.frame.compress(NOISE, block_linked=True)),
    "lz4: version 0": (LZ4, lz4_frame_with(0x20)),
    "lz4: a dictionary": (LZ4, lz4_frame_with(0x61)),
    "lz4: a reserved flag": (LZ4, lz4_frame_with(0x62)),
    "lz4: a wrong header checksum": (LZ4, compress("lz4", HELLO)[:6] + b"\x1a" + compress("lz4", HELLO)[7:]),
    "lz4: blocks of an unknown size": (LZ4, lz4_frame_with(0x60, 0x30)),
    "lz4: a block above the size declared": (
        LZ4,
        bytes.fromhex("04224d18604082") + struct.pack("<I", 65537) + bytes(65541),
    ),
    "snappy: a second stream of version 0": (
        SNAPPY,
        compress("snappy", HELLO) + XERIAL_MAGIC + struct.pack(">ii", 0, 1),
    ),
    "lz4: a wrong checksum of a block": (
        LZ4,
        lz4.frame.compress(HELLO, block_linked=False, block_checksum=True)[:-5] + b"x\0\0\0\0",
    ),
    "lz4: half a content checksum": (LZ4, lz4.frame.compress(HELLO, block_linked=False, content_checksum=True)[:-2]),
    "lz4: no end": (LZ4, compress("lz4", HELLO)[:-4]),
    "zstd: a skippable frame that is not whole": (ZSTD, SKIPPABLE[:-1]),
    "zstd: a frame that is not whole, 128 KiB behind a whole one": (
        ZSTD,
        skippable(131067) + compress("zstd", HELLO)[:-1],
    ),
    "zstd: a wrong content checksum": (ZSTD, zstandard.ZstdCompressor(write_checksum=True).compress(HELLO)[:-1] + b"x"),
    "zstd: another magic": (ZSTD, b"\x28\xb5\x2f\xfe" + compress("zstd", HELLO)[4:]),
    "zstd: bytes behind the end": (ZSTD, compress("zstd", HELLO) + b"x"),
    "zstd: a reserved kind of block": (ZSTD, bytes.fromhex("28b52ffd0058") + b"\x07\0\0"),
    "zstd: a window of terabytes": (ZSTD, bytes.fromhex("28b52ffd00ff") + b"\x03\0\0x"),
    "zstd: noise": (ZSTD, NOISE[:100]),
}


@pytest.mark.parametrize(("codec_id", "stream"), BROKEN.values(), ids=BROKEN)
def test_a_broken_stream_is_refused(codec_id: int, stream: bytes) -> None:
    with pytest.raises(MalformedBatch):
        decompress(codec_id, stream, MIB)


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(st.sampled_from(COMPRESSING), st.data())
def test_flipped_bits_end_in_bytes_within_the_bound_or_in_a_named_error(name: str, data: st.DataObject) -> None:
    stream = bytearray(compress(name, NOISE[:100] + HELLO * 30))
    for bit in data.draw(st.lists(st.integers(0, 8 * len(stream) - 1), min_size=1, max_size=3)):
        stream[bit // 8] ^= 1 << bit % 8
    try:
        inflated = decompress(CODECS.index(name), stream, 1000)
    except (MalformedBatch, DecompressionLimit):
        inflated = b""
    assert len(inflated) <= 1000


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(range(1, 5)), st.binary(max_size=60))
def test_random_bytes_end_in_bytes_within_the_bound_or_in_a_named_error(codec_id: int, tail: bytes) -> None:
    beginning = {GZIP: "1f8b08000000000000ff", SNAPPY: "", LZ4: "04224d18604082", ZSTD: "28b52ffd0058"}[codec_id]
    try:
        inflated = decompress(codec_id, bytes.fromhex(beginning) + tail, 1000)
    except (MalformedBatch, DecompressionLimit):
        inflated = b""
    assert len(inflated) <= 1000


# --- bombs ---------------------------------------------------------------------------------------------------------

GIB = 1 << 30


def zstd_bomb() -> bytes:
    """32 KiB: 8192 blocks that each repeat a zero 128 Ki times, in a window of 8 MiB, no content size."""
    run, last = (struct.pack("<I", 128 * 1024 << 3 | 1 << 1 | is_last)[:3] + b"\0" for is_last in (0, 1))
    return bytes.fromhex("28b52ffd0068") + run * (GIB // (128 * 1024) - 1) + last


def gzip_bomb() -> bytes:
    """One deflate stream of a GiB, made of a thousand copies of the same flushed MiB."""
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    mebibyte = deflater.compress(bytes(MIB)) + deflater.flush(zlib.Z_FULL_FLUSH)
    return bytes.fromhex("1f8b08000000000000ff") + mebibyte * 1024 + deflater.flush() + bytes(8)


def lz4_bomb() -> bytes:
    """One frame of 256 blocks of 4 MiB."""
    frame: bytes = lz4.frame.compress(bytes(4 * MIB), block_size=7, block_linked=False, store_size=False)
    return frame[:7] + frame[7:-4] * 256 + frame[-4:]


def snappy_bomb() -> bytes:
    """A stream of 32768 blocks of 32 KiB."""
    stream = compress("snappy", bytes(32768))
    return stream[:16] + stream[16:] * 32768


def snappy_lie() -> bytes:
    """32 KiB that declare a GiB, which the library would set aside at once."""
    return b"\x80\x80\x80\x80\x04" + bytes(32 << 10)


BOMBS = {
    "zstd of 32 KiB": (ZSTD, zstd_bomb),
    "gzip": (GZIP, gzip_bomb),
    "lz4": (LZ4, lz4_bomb),
    "snappy": (SNAPPY, snappy_bomb),
    "snappy that only says so": (SNAPPY, snappy_lie),
}


@pytest.mark.security(
    "A record that decompresses beyond the limit is refused within milliseconds and without extra memory."
)
@pytest.mark.promise("Memory, open files and the time per request are bounded, whatever the files contain.")
@pytest.mark.parametrize(("codec_id", "bomb"), BOMBS.values(), ids=BOMBS)
def test_a_bomb_of_a_gibibyte_is_refused_at_once_with_flat_memory(codec_id: int, bomb: Callable[[], bytes]) -> None:
    stream = bomb()
    before = resident_peak()
    started = time.process_time()
    with pytest.raises(DecompressionLimit):
        decompress(codec_id, stream, 4 * MIB)
    assert time.process_time() - started < 0.5
    assert resident_peak() - before < 4 * 4 * MIB


@pytest.mark.long
def test_the_bombs_are_bombs() -> None:
    assert len(zstd_bomb()) < 33 << 10
    inflated = zstandard.ZstdDecompressor().stream_reader(zstd_bomb())
    assert sum(len(step) for step in iter(lambda: inflated.read(64 * MIB), b"")) == GIB


def resident_peak() -> int:
    """Return the most memory this process has had since the last call, in bytes."""
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
    fd = os.open("/proc/self/clear_refs", os.O_WRONLY)
    os.write(fd, b"5")
    os.close(fd)
    return peak << 10
