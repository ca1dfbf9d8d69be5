"""Batches of format v2: Kafka's own bytes and checksums, what a header promises, and what damage is called."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from offsetfs.storage.errors import (
    CorruptBatch,
    DecompressionLimit,
    MalformedBatch,
    StorageError,
    UnsupportedFormat,
)
from offsetfs.storage.records.compression.compression import CODECS, Buffer, compress
from offsetfs.storage.records.format import batch as batches
from offsetfs.storage.records.format import varint
from offsetfs.storage.records.format.batch import (
    HEADER_SIZE,
    Batch,
    build,
    parse_header,
    read_batch,
    set_append_time,
    stamp,
)
from offsetfs.storage.records.format.record import CREATE_TIME, LOG_APPEND_TIME, Record
from offsetfs.storage.units import Offset, Timestamp

pytestmark = pytest.mark.unit

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.1"
RECORDS = [(b"key1", b"value1", (), 283843), (b"key2", b"value2", (), 1234)]

PLAIN = bytes.fromhex(
    "000000000000000000000055ffffffff02e58cf1ff00000000000100000000000454c300000000000454c3ffffffffffffffffffffffff"
    "ffff0000000220000000086b6579310c76616c756531002400e1bf2202086b6579320c76616c75653200"
)
LZ4 = bytes.fromhex(
    "000000000000000000000064ffffffff02a3ac2aa200030000000100000000000454c300000000000454c3ffffffffffffffffffffffff"
    "ffff0000000204224d186040822400008020000000086b6579310c76616c756531002400e1bf2202086b6579320c76616c756532000000"
    "0000"
)
COMMIT_MARKER = bytes.fromhex(
    "000000000000000f000000420000000502dbc3b9ad00300000000000000000000003e800000000000003e8000000000000002a0003ffff"
    "ffff000000012000000008000000010c00000000000700"
)
DELETE_HORIZON = bytes.fromhex(
    "00000000000000640000004f0000000202e51c1aa50040000000040000000000015f90000000000000138fffffffffffffffffffffffff"
    "ffff0000000212008fb00a00026b0100260081b00a04046b320276040268010468320278"
)
EMPTY = bytes.fromhex(
    "00000000000000640000003100000002029652959d000000000004ffffffffffffffff000000000000138f000000000000002a00030000"
    "000000000000"
)
VECTORS = {
    "plain": PLAIN,
    "lz4": LZ4,
    "commit marker": COMMIT_MARKER,
    "delete horizon": DELETE_HORIZON,
    "empty": EMPTY,
}


# --- Kafka's bytes -------------------------------------------------------------------------------------------------


def test_crc32c_is_castagnolis() -> None:
    assert crc32c(b"Some String") == 608512271


@pytest.mark.parametrize("data", VECTORS.values(), ids=VECTORS)
def test_known_batches_are_whole(data: bytes) -> None:
    batch = read_batch(data)
    assert batch.header.size == len(data)
    assert len(batch.records()) == batch.header.count


@pytest.mark.parametrize(("data", "checksum"), [(PLAIN, 3851219455), (LZ4, 2745969314)], ids=["plain", "lz4"])
def test_the_checksums_are_the_constants_of_kafkas_tests(data: bytes, checksum: int) -> None:
    batch = read_batch(data)
    assert batch.header.crc == checksum
    assert batch.records() == [
        Record(Offset(0), Timestamp(283843), CREATE_TIME, b"key1", b"value1"),
        Record(Offset(1), Timestamp(1234), CREATE_TIME, b"key2", b"value2"),
    ]


def test_a_plain_batch_is_built_to_kafkas_bytes() -> None:
    assert build(RECORDS) == PLAIN


def test_every_field_of_a_header_is_read() -> None:
    header = parse_header(DELETE_HORIZON)
    assert (header.base_offset, header.size, header.leader_epoch, header.magic) == (100, 91, 2, 2)
    assert (header.attributes, header.last_offset_delta, header.count) == (0x40, 4, 2)
    assert (header.base_timestamp, header.max_timestamp) == (90000, 5007)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert (header.last_offset, header.next_offset) == (104, 105)
    assert header.has_delete_horizon
    assert not header.is_control
    assert not header.is_transactional


def test_a_delete_horizon_leaves_the_timestamps_of_records_alone() -> None:
    assert read_batch(DELETE_HORIZON).records() == [
        Record(Offset(100), Timestamp(5000), CREATE_TIME, b"k", None),
        Record(Offset(102), Timestamp(5007), CREATE_TIME, b"k2", b"v", (("h", None), ("h2", b"x"))),
    ]


def test_a_commit_marker_is_a_control_batch_of_78_bytes() -> None:
    batch = read_batch(COMMIT_MARKER)
    assert batch.header.is_control
    assert batch.header.is_transactional
    assert (batch.header.producer_id, batch.header.producer_epoch, batch.header.size) == (42, 3, 78)
    assert batch.records()[0].key == struct.pack(">hh", 0, 1)
    built = build(
        [(struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 7), (), 1000)],
        base_offset=15,
        producer_id=42,
        producer_epoch=3,
        transactional=True,
        control=True,
        leader_epoch=5,
    )
    assert built == COMMIT_MARKER


def test_an_empty_batch_stands_for_offsets_that_are_gone() -> None:
    batch = read_batch(EMPTY)
    assert (batch.header.base_offset, batch.header.last_offset, batch.header.base_timestamp) == (100, 104, -1)
    assert batch.records() == []
    assert batch.record(102) is None
    assert batch.joined() == b""
    assert batch.measured() == 0
    assert len(batch.rows()) == 0


PARTITIONS = sorted(path.name.removesuffix(".expected.ndjson") for path in GOLDEN.glob("*.expected.ndjson"))


@pytest.mark.parametrize("partition", PARTITIONS)
def test_the_batches_of_a_real_broker_hold_what_a_consumer_saw(partition: str) -> None:
    seen: dict[int, Record] = {}
    for log in sorted((GOLDEN / partition).glob("*.log")):
        for batch in walk(log.read_bytes(), str(log)):
            assert batch.measured() == len(batch.joined())
            assert len(batch.rows()) == 8 * batch.header.count
            if not batch.header.is_control:
                seen |= {record.offset: record for record in batch.records()}
    lines = (GOLDEN / f"{partition}.expected.ndjson").read_text().splitlines()
    for expected in map(json.loads, lines):
        assert as_expected(seen[expected["offset"]], expected) == expected


def test_all_golden_files_were_found() -> None:
    assert len(PARTITIONS) > 20


@pytest.mark.parametrize("partition", ["codec-none-0", "codec-gzip-0", "codec-snappy-0", "codec-lz4-0", "codec-zstd-0"])
def test_a_record_is_found_by_its_offset(partition: str) -> None:
    for log in (GOLDEN / partition).glob("*.log"):
        for batch in walk(log.read_bytes(), str(log)):
            assert [batch.record(record.offset) for record in batch.records()] == batch.records()
            assert batch.record(batch.header.next_offset) is None


def walk(data: bytes, path: str) -> Iterator[Batch]:
    position = 0
    while position < len(data):
        batch = read_batch(data, position, path=path, file_position=position)
        yield batch
        position += batch.header.size


def as_expected(record: Record, like: dict[str, Any]) -> dict[str, Any]:
    def text(data: bytes | None) -> str | None:
        return None if data is None else base64.b64encode(data).decode()

    row = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": record.timestamp_type,
        "key_b64": text(record.key),
        "headers": [[name, text(value)] for name, value in record.headers],
        "committed": like["committed"],
    }
    if "value_sha256" in like:
        assert record.value is not None
        return row | {"value_sha256": hashlib.sha256(record.value).hexdigest(), "value_size": len(record.value)}
    return row | {"value_b64": text(record.value)}


# --- building and stamping -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
def test_a_built_batch_reads_back(codec: str) -> None:
    records = [(b"k%d" % n if n % 2 else None, b"value " * n, (("n", b"%d" % n),), 1000 - n) for n in range(50)]
    batch = read_batch(build(records, codec=codec, base_offset=70, leader_epoch=3))
    assert [(r.key, r.value, r.headers, r.timestamp) for r in batch.records()] == records
    assert [record.offset for record in batch.records()] == list(range(70, 120))
    assert (batch.header.codec_name, batch.header.codec) == (codec, CODECS.index(codec))
    assert (batch.header.base_timestamp, batch.header.max_timestamp, batch.header.leader_epoch) == (1000, 1000, 3)
    assert (batch.header.count, batch.header.last_offset_delta) == (50, 49)
    assert batch.joined() == b"".join(b"value " * n + b"\n" for n in range(50))


def test_producer_and_transaction_are_in_the_header() -> None:
    header = parse_header(
        build(RECORDS, producer_id=7, producer_epoch=1, base_sequence=9, transactional=True, timestamp_type=CREATE_TIME)
    )
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 9)
    assert header.is_transactional
    assert header.timestamp_type == CREATE_TIME


ILLEGAL_BATCHES = {
    "no records": {"records": []},
    "a transaction without a producer": {"transactional": True},
    "a producer without an epoch": {"producer_id": 1, "base_sequence": 0},
    "a producer without a sequence": {"producer_id": 1, "producer_epoch": 0},
    "a compressed control batch": {"control": True, "codec": "gzip"},
    "an unknown codec": {"codec": "brotli"},
}


@pytest.mark.parametrize("arguments", ILLEGAL_BATCHES.values(), ids=ILLEGAL_BATCHES)
def test_a_batch_that_no_reader_would_take_is_not_built(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        build(**{"records": RECORDS} | arguments)


def test_stamping_offset_and_epoch_leaves_the_checksum_right() -> None:
    data = bytearray(PLAIN)
    stamp(data, 2**62, 9)
    header = read_batch(data).header
    assert (header.base_offset, header.leader_epoch, header.size) == (2**62, 9, len(PLAIN))
    stamp(memoryview(data), 0, -1)
    assert data == PLAIN


@pytest.mark.parametrize("codec", CODECS)
def test_append_time_is_what_every_record_then_reports(codec: str) -> None:
    data = build(RECORDS, codec=codec)
    set_append_time(data, 555)
    batch = read_batch(data)
    assert batch.header.timestamp_type == LOG_APPEND_TIME
    assert (batch.header.max_timestamp, batch.header.base_timestamp) == (555, 283843)
    assert batch.header.codec_name == codec
    assert [(record.timestamp, record.timestamp_type) for record in batch.records()] == [(555, LOG_APPEND_TIME)] * 2
    record = batch.record(1)
    assert record is not None and record.timestamp == 555


def test_a_timestamp_beyond_64_bits_wraps_as_in_java() -> None:
    header = parse_header(build([(None, b"", (), 2**63 - 1)]))
    batch = Batch(header, memoryview(b""))
    assert batch.timestamp_of(0) == 2**63 - 1
    assert batch.timestamp_of(1) == -(2**63)


# --- damage --------------------------------------------------------------------------------------------------------


def patched(position: int, layout: str, *values: int, data: Buffer = PLAIN, checksum: bool = True) -> bytearray:
    changed = bytearray(data)
    struct.pack_into(layout, changed, position, *values)
    if checksum:
        batches.seal_checksum(changed)
    return changed


REFUSED = {
    "too few bytes to tell the format": (PLAIN[:16], MalformedBatch),
    "too few bytes for a header": (PLAIN[:60], MalformedBatch),
    "an end before the batch's": (PLAIN[:-1], MalformedBatch),
    "zeros": (bytes(100), MalformedBatch),
    "a size below any record's": (patched(8, ">i", 13), MalformedBatch),
    "a size below a header's": (patched(8, ">i", 48), MalformedBatch),
    "a negative size": (patched(8, ">i", -1), MalformedBatch),
    "a size of 2 GiB": (patched(8, ">i", 2**31 - 1), MalformedBatch),
    "a magic of 0, whose checksum is another": (patched(16, ">b", 0), CorruptBatch),
    "a magic of 1, whose checksum is another": (patched(16, ">b", 1), CorruptBatch),
    "a magic of 3": (patched(16, ">b", 3), MalformedBatch),
    "a negative magic": (patched(16, ">b", -1), MalformedBatch),
    "a wrong checksum": (patched(17, ">I", 1, checksum=False), CorruptBatch),
    "a changed record": (patched(96, ">b", 1, checksum=False), CorruptBatch),
    "a negative base offset": (patched(0, ">q", -1), MalformedBatch),
    "a last offset before the first": (patched(23, ">i", -1), MalformedBatch),
    "a last offset beyond 64 bits": (patched(0, ">q", 2**63 - 2), MalformedBatch),
    "a negative count": (patched(57, ">i", -1), MalformedBatch),
}


@pytest.mark.parametrize(("data", "error"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_batch_is_refused_by_name_and_place(data: bytes, error: type[StorageError]) -> None:
    with pytest.raises(error) as raised:
        read_batch(data, path="some.log", file_position=4096)
    assert (raised.value.path, raised.value.position) == ("some.log", 4096)


REFUSED_INSIDE = {
    "more records counted than there are": (patched(57, ">i", 3), MalformedBatch),
    "fewer records counted than there are": (patched(57, ">i", 1), MalformedBatch),
    "more records counted than memory": (patched(57, ">i", 2**31 - 1), MalformedBatch),
    "more in lz4": (patched(57, ">i", 3, data=LZ4), MalformedBatch),
    "fewer in lz4": (patched(57, ">i", 1, data=LZ4), MalformedBatch),
    "no lz4 where it says so": (patched(21, ">h", 3), MalformedBatch),
    "codec 5": (patched(21, ">h", 5), UnsupportedFormat),
    "codec 7": (patched(21, ">h", 7), UnsupportedFormat),
}


@pytest.mark.parametrize(("data", "error"), REFUSED_INSIDE.values(), ids=REFUSED_INSIDE)
def test_what_does_not_hold_the_records_it_counts_is_refused_by_name_and_place(
    data: bytes, error: type[StorageError]
) -> None:
    batch = read_batch(data, path="some.log", file_position=4096)
    questions = (batch.records, batch.rows, batch.joined, batch.measured, lambda: batch.record(77))
    for question in questions:
        with pytest.raises(error) as raised:
            question()
        assert (raised.value.path, raised.value.position, raised.value.offset) == ("some.log", 4096, 0)


def test_an_unknown_codec_has_a_name_to_print() -> None:
    assert parse_header(patched(21, ">h", 6)).codec_name == "unknown-6"


@pytest.mark.parametrize("data", [PLAIN, LZ4], ids=["plain", "lz4"])
def test_no_flipped_bit_under_the_checksum_goes_unnoticed(data: bytes) -> None:
    for bit in range(8 * 8, 8 * len(data)):
        if 12 <= bit // 8 < 16:  # the leader epoch, which the checksum leaves out
            continue
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(StorageError):
            read_batch(flipped)


def test_a_batch_that_inflates_too_far_is_refused_and_smaller_are_kept() -> None:
    batch = read_batch(build([(None, bytes(5000), (), 0)], codec="zstd"), path="some.log", file_position=7)
    with pytest.raises(DecompressionLimit) as raised:
        batch.payload(1000)
    assert (raised.value.path, raised.value.position) == ("some.log", 7)
    payload = batch.payload(6000)
    assert batch.payload() is payload
    assert len(payload) > 5000


def test_a_batch_in_the_middle_of_a_buffer_is_read_without_copying() -> None:
    buffer = bytearray(b"before" + PLAIN + b"behind")
    batch = read_batch(buffer, 6)
    assert batch.header.size == len(PLAIN)
    assert batch.data.obj is buffer
    payload = batch.payload()
    assert isinstance(payload, memoryview) and payload.obj is buffer
    assert batch.joined() == b"value1\nvalue2\n"
    assert len(batch.payload()) == len(PLAIN) - HEADER_SIZE


def test_the_header_alone_is_enough_to_be_parsed() -> None:
    assert parse_header(PLAIN[:HEADER_SIZE]) == read_batch(PLAIN).header


def test_the_checksum_may_be_left_for_later() -> None:
    batch = read_batch(patched(96, ">b", 1, checksum=False), check=False)
    with pytest.raises(CorruptBatch):
        batch.check()


# --- many small things -----------------------------------------------------------------------------------------------


def of_records(record: bytes, count: int, codec: int) -> Batch:
    """Return a batch of so many equal records, whose offset deltas are all 0; its checksum is not right."""
    payload = record * count
    made = bytearray(build([(None, b"", (), 0)])[:HEADER_SIZE])
    made += compress(CODECS[codec], payload) if codec else payload
    made[8:12] = (len(made) - 12).to_bytes(4, "big")
    made[21:23] = codec.to_bytes(2, "big")
    made[57:61] = count.to_bytes(4, "big")
    return read_batch(bytes(made), check=False)


@pytest.mark.long
@pytest.mark.security(
    "A record that decompresses beyond the limit is refused within milliseconds and without extra memory."
)
def test_a_small_batch_of_too_many_records_is_not_taken_apart() -> None:
    count = batches.INFLATED_RECORDS_MAX + 1
    hostile = of_records(bytes([12, 0, 0, 0, 1, 1, 0]), count, CODECS.index("zstd"))
    assert len(hostile.data) < 100_000 and len(hostile.payload()) == 7 * count
    tracemalloc.start()
    try:
        for ask in (hostile.rows, hostile.records):
            with pytest.raises(DecompressionLimit, match=f"{count} records"):
                ask()
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()
    assert hostile.measured() == count  # its values are shown all the same


@pytest.mark.long
def test_a_record_of_too_many_headers_is_not_taken_apart() -> None:
    count = batches.HEADERS_MAX + 1
    body = bytes([0, 0, 0, 1, 1]) + varint.encode(count) + bytes([0, 1]) * count
    hostile = of_records(varint.encode(len(body)) + body, 1, 0)
    for ask in (hostile.records, lambda: hostile.record(0)):
        with pytest.raises(DecompressionLimit, match=f"{count} headers"):
            ask()
    fine = of_records(bytes([16, 0, 0, 0, 1, 1, 2, 0, 1]), 1, 0)
    assert fine.records()[0].headers == (("", None),)
