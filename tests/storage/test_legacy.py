"""Messages of formats v0 and v1: what they say, what sets of them say, and what is refused by name."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from types import ModuleType

import lz4.frame
import pytest
from fixtures.logs.old_messages import message, sealed, wrapper
from fixtures.logs.random_batches import message_sets
from hypothesis import given
from hypothesis import strategies as st

from offsetfs.storage.errors import CorruptBatch, DecompressionLimit, MalformedBatch, StorageError, UnsupportedFormat
from offsetfs.storage.native import message_set as native_message_set
from offsetfs.storage.records.compression.compression import CODECS, CODECS_SINCE_V2, compress
from offsetfs.storage.records.compression.lz4_frame import header_checksum, with_right_checksum
from offsetfs.storage.records.format.batch import Batch, parse_header, read_batch, set_append_time, stamp
from offsetfs.storage.records.format.codec import COLUMNS
from offsetfs.storage.records.format.legacy import run_header
from offsetfs.storage.records.format.record import Record
from offsetfs.storage.reference import message_set as reference_message_set
from offsetfs.storage.units import Offset, Timestamp

pytestmark = pytest.mark.unit

NONE, CREATE, APPEND = "NoTimestampType", "CreateTime", "LogAppendTime"
IMPLEMENTATIONS = [native_message_set, reference_message_set]
REFUSALS = (MalformedBatch, CorruptBatch, UnsupportedFormat, DecompressionLimit)


@pytest.fixture(params=IMPLEMENTATIONS, ids=["compiled", "plain"])
def module(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


# --- the bytes that Kafka's own tests pin -----------------------------------------------------------------------------

V0 = bytes.fromhex("00000000000000000000001875f0f41d0000000000046b6579310000000676616c756531")
V1 = bytes.fromhex("0000000000000000000000200685b364010000000000000454c3000000046b6579310000000676616c756531")
V0_LZ4 = bytes.fromhex(
    "00000000000000010000005603fd7f3a0003ffffffff0000004804224d1860401a3900000016000100511875f0f41d0f00e0046b65793100"
    "00000676616c75650a0000020011012400301bc3a60d00012400b0320000000676616c75653200000000"
)
V1_LZ4 = bytes.fromhex(
    "00000000000000010000006c53e1bee7010300000000000454c3ffffffff0000005604224d18604082470000001600010062200685b36401"
    "1000f0050454c3000000046b6579310000000676616c75650a0000020000230050200509300509000002002304d22c00b032000000067661"
    "6c75653200000000"
)


@pytest.mark.parametrize(
    ("data", "crc", "records"),
    [
        (V0, 1978725405, [Record(Offset(0), Timestamp(-1), NONE, b"key1", b"value1")]),
        (V1, 109425508, [Record(Offset(0), Timestamp(283843), CREATE, b"key1", b"value1")]),
        (
            V0_LZ4,
            66944826,
            [
                Record(Offset(0), Timestamp(-1), NONE, b"key1", b"value1"),
                Record(Offset(1), Timestamp(-1), NONE, b"key2", b"value2"),
            ],
        ),
        (
            V1_LZ4,
            1407303399,
            [
                Record(Offset(0), Timestamp(283843), CREATE, b"key1", b"value1"),
                Record(Offset(1), Timestamp(1234), CREATE, b"key2", b"value2"),
            ],
        ),
    ],
    ids=["v0", "v1", "v0 lz4", "v1 lz4"],
)
def test_the_messages_of_kafkas_own_tests_are_read(data: bytes, crc: int, records: list[Record]) -> None:
    batch = read_batch(data)
    assert (batch.header.crc, batch.header.size) == (crc, len(data))
    assert batch.records() == records
    assert [batch.record(record.offset) for record in records] == records
    assert batch.base_offset == 0 and batch.record(len(records)) is None and batch.record(-1) is None


# --- headers ----------------------------------------------------------------------------------------------------------


def test_a_header_of_v0_or_v1_has_the_fields_of_those_formats() -> None:
    for magic, kind, timestamp in ((0, NONE, -1), (1, CREATE, 5)):
        header = parse_header(message(magic, 7, b"k", b"v", 5))
        assert (header.base_offset, header.last_offset, header.next_offset, header.count) == (7, 7, 8, 1)
        assert (header.magic, header.timestamp_type, header.max_timestamp) == (magic, kind, timestamp)
        assert (header.leader_epoch, header.producer_id, header.producer_epoch, header.base_sequence) == (-1,) * 4
        assert (header.codec_name, header.is_wrapper, header.is_run) == ("none", False, False)
        assert not (header.is_control or header.is_transactional or header.has_delete_horizon)


def test_bits_that_a_format_does_not_know_mean_nothing() -> None:
    for magic, kind in ((0, NONE), (1, APPEND)):
        header = parse_header(message(magic, 7, attributes=0xF8))
        assert header.timestamp_type == kind
        assert not (header.is_control or header.is_transactional or header.has_delete_horizon)


def test_a_wrappers_header_has_the_offset_of_its_last_record_and_no_count() -> None:
    data = wrapper(1, 15, [message(1, inner, None, b"v", 9) for inner in (0, 2, 6, 7, 8)], timestamp=9)
    header = parse_header(data)
    assert (header.is_wrapper, header.base_offset, header.last_offset, header.count) == (True, 15, 15, -1)
    assert read_batch(data).base_offset == 7


def test_the_smallest_messages_are_read() -> None:
    for magic, size in ((0, 26), (1, 34)):
        data = message(magic, 3, None, None)
        assert len(data) == size
        assert [(record.key, record.value) for record in read_batch(data).records()] == [(None, None)]


def test_old_messages_are_never_stamped() -> None:
    for data in (bytearray(V0), bytearray(V1)):
        before = bytes(data)
        with pytest.raises(ValueError, match="never written"):
            stamp(data, 5, 1)
        with pytest.raises(ValueError, match="never written"):
            set_append_time(data, 5)
        assert data == before


# --- sets -------------------------------------------------------------------------------------------------------------


def rows_of(batch: Batch) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """The records as bulk readers put them together from rows."""
    rows, payload = batch.rows(), batch.payload()

    def data(position: int, size: int) -> bytes | None:
        return None if size < 0 else bytes(payload[position : position + size])

    return [
        (
            batch.header.base_offset + rows[at],
            batch.timestamp_of(rows[at + 1]),
            data(rows[at + 2], rows[at + 3]),
            data(rows[at + 4], rows[at + 5]),
        )
        for at in range(0, len(rows), COLUMNS)
    ]


SETS = {
    "v0, absolute offsets with holes": (
        wrapper(0, 7, [message(0, offset, b"k%d" % offset) for offset in (0, 2, 5, 7)]),
        [(offset, -1, NONE) for offset in (0, 2, 5, 7)],
    ),
    "v1, relative offsets with holes": (
        wrapper(1, 15, [message(1, inner, b"k", timestamp=inner + 1) for inner in (0, 2, 6, 7, 8)], timestamp=9),
        [(7, 1, CREATE), (9, 3, CREATE), (13, 7, CREATE), (14, 8, CREATE), (15, 9, CREATE)],
    ),
    "v1 out of order": (
        wrapper(1, 1, [message(1, 0, timestamp=9), message(1, 1, timestamp=-1)], timestamp=9),
        [(0, 9, CREATE), (1, -1, CREATE)],
    ),
    "v1 at offset 0, as old librdkafka sends it": (
        wrapper(1, 0, [message(1, inner) for inner in range(3)]),
        [(0, -1, CREATE), (1, -1, CREATE), (2, -1, CREATE)],
    ),
    "v1 whose records begin above 0": (
        wrapper(1, 12, [message(1, 3, timestamp=1), message(1, 5, timestamp=2)], timestamp=2),
        [(10, 1, CREATE), (12, 2, CREATE)],
    ),
    "append time, whatever the records say": (
        wrapper(1, 9, [message(1, 0, timestamp=5), message(1, 1, timestamp=6)], timestamp=77, attributes=8),
        [(8, 77, APPEND), (9, 77, APPEND)],
    ),
    "create time around records that say append time": (
        wrapper(1, 9, [message(1, 0, timestamp=5, attributes=8)], timestamp=5),
        [(9, 5, CREATE)],
    ),
    "v1 around v0, the broker's fault": (
        wrapper(1, 22, [message(0, 0), message(0, 3), message(0, 5)], "snappy", attributes=8),
        [(17, -1, NONE), (20, -1, NONE), (22, -1, NONE)],
    ),
    "v1 around v0 with a time": (
        wrapper(1, 1, [message(0, 0), message(1, 1, timestamp=3)], timestamp=44, attributes=8),
        [(0, -1, NONE), (1, 44, APPEND)],
    ),
    "v0 around v1": (wrapper(0, 6, [message(1, 6, timestamp=3)]), [(6, 3, NONE)]),
    "timestamps at the ends of 64 bits": (
        wrapper(1, 1, [message(1, 0, timestamp=-(2**63)), message(1, 1, timestamp=2**63 - 1)], timestamp=2**63 - 1),
        [(0, -(2**63), CREATE), (1, 2**63 - 1, CREATE)],
    ),
    "a wrapper with a key": (wrapper(0, 4, [message(0, 4)], key=b"unread"), [(4, -1, NONE)]),
    "an end before the last message's": (
        wrapper(0, 5, [message(0, 5, None, b"whole"), message(0, 6, None, b"cut")[:-1]]),
        [(5, -1, NONE)],
    ),
    "an end within a length": (wrapper(0, 5, [message(0, 5), b"\0" * 11]), [(5, -1, NONE)]),
}


@pytest.mark.parametrize(("data", "expected"), SETS.values(), ids=SETS)
def test_a_set_is_read_as_kafka_reads_it(data: bytes, expected: list[tuple[int, int, str]]) -> None:
    batch = read_batch(data)
    records = batch.records()
    assert [(record.offset, record.timestamp, record.timestamp_type) for record in records] == expected
    assert rows_of(batch) == [(record.offset, record.timestamp, record.key, record.value) for record in records]
    assert batch.base_offset == expected[0][0]
    assert [batch.record(record.offset) for record in records] == records
    holes = set(range(expected[0][0], expected[-1][0])) - {offset for offset, *_ in expected}
    assert [batch.record(hole) for hole in holes] == [None] * len(holes)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("magic", [0, 1])
def test_every_codec_is_read_and_joined(magic: int, codec: str) -> None:
    fields = [(b"key", b"x" * 70_000), (None, b""), (b"", None), (b"k", b"a\nb")]
    plain = [message(magic, at, key, value, 1000 + at) for at, (key, value) in enumerate(fields)]
    batches = [read_batch(data) for data in plain] if codec == "none" else [read_batch(wrapper(magic, 3, plain, codec))]
    records = [record for batch in batches for record in batch.records()]
    assert [(record.offset, record.key, record.value) for record in records] == [
        (at, key, value) for at, (key, value) in enumerate(fields)
    ]
    assert [record.timestamp for record in records] == [1000 + at if magic else -1 for at in range(4)]
    assert b"".join(batch.joined() for batch in batches) == b"x" * 70_000 + b"\n\n\na\nb\n"
    assert [batch.measured() for batch in batches] == [len(batch.joined()) for batch in batches]


# --- what is refused --------------------------------------------------------------------------------------------------


def patched(data: bytes, position: int, layout: str, number: int) -> bytes:
    """A message with one number changed and a new checksum."""
    changed = bytearray(data)
    struct.pack_into(layout, changed, position, number)
    return sealed(bytes(changed))


REFUSED = {
    "too few bytes to tell the format": (V0[:16], MalformedBatch),
    "v0 cut within the header": (V0[:17], MalformedBatch),
    "v1 cut within the header": (V1[:25], MalformedBatch),
    "v0 cut before its end": (V0[:-1], MalformedBatch),
    "a length below that of any message": (patched(V0, 8, ">i", 13), MalformedBatch),
    "a length below that of v1": (patched(V1, 8, ">i", 21), MalformedBatch),
    "a negative length": (patched(V0, 8, ">i", -1), MalformedBatch),
    "a length of 2 GiB": (patched(V0, 8, ">i", 2**31 - 1), MalformedBatch),
    "a wrong checksum in v0": (V0[:-1] + b"?", CorruptBatch),
    "a wrong checksum in v1": (V1[:-1] + b"?", CorruptBatch),
    "a wrong checksum in a wrapper": (V0_LZ4[:-1] + b"?", CorruptBatch),
    "a negative offset": (patched(V0, 0, ">q", -1), MalformedBatch),
    "an offset that none follows": (patched(V1, 0, ">q", 2**63 - 1), MalformedBatch),
}


@pytest.mark.parametrize(("data", "error"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_message_is_refused_by_name_and_place(data: bytes, error: type[StorageError]) -> None:
    with pytest.raises(error) as raised:
        read_batch(data, path="some.log", file_position=4096)
    assert (raised.value.path, raised.value.position) == ("some.log", 4096)


INNER = message(1, 0, None, b"inner", 5)
REFUSED_INSIDE = {
    "a key longer than the message": (patched(V0, 18, ">i", 2**31 - 1), MalformedBatch),
    "a value longer than the message": (patched(V0, 26, ">i", 7), MalformedBatch),
    "a key that leaves no space for a value's size": (patched(V0, 18, ">i", 12), MalformedBatch),
    "a wrapper without a value": (message(1, 3, None, None, attributes=1), MalformedBatch),
    "a wrapper without a message": (wrapper(1, 3, []), MalformedBatch),
    "a wrapper with less than a message": (wrapper(1, 3, [INNER[:-1]]), MalformedBatch),
    "a set in a set": (wrapper(1, 3, [wrapper(1, 0, [INNER])]), MalformedBatch),
    **{
        f"{CODECS[codec]}, which came with v2": (wrapper(1, 3, [INNER], CODECS[codec]), MalformedBatch)
        for codec in CODECS_SINCE_V2
    },
    "codec 7": (message(0, 3, None, b"?", attributes=7), UnsupportedFormat),
    "no gzip where it says so": (message(0, 3, None, b"?", attributes=1), MalformedBatch),
    "a wrong checksum inside": (wrapper(0, 3, [INNER[:-1] + b"?"]), CorruptBatch),
    "a length below that of any message, inside": (wrapper(0, 3, [patched(V0, 8, ">i", 13)]), MalformedBatch),
    "a negative length inside": (wrapper(0, 3, [patched(V0, 8, ">i", -1)]), MalformedBatch),
    "a length below that of v1, inside": (wrapper(0, 3, [patched(message(0, 0), 16, ">B", 1)]), MalformedBatch),
    "a magic of 2 inside": (wrapper(1, 3, [patched(INNER, 16, ">B", 2)]), MalformedBatch),
    "an offset inside above the wrapper's": (wrapper(1, 1, [message(1, 0), message(1, 2)]), MalformedBatch),
    "a key longer than its message, inside": (wrapper(0, 3, [patched(V0, 18, ">i", 99)]), MalformedBatch),
}


@pytest.mark.parametrize(("data", "error"), REFUSED_INSIDE.values(), ids=REFUSED_INSIDE)
def test_what_holds_no_records_is_refused_by_name_and_place(data: bytes, error: type[StorageError]) -> None:
    batch = read_batch(data, path="some.log", file_position=4096)
    questions: list[Callable[[], object]] = [
        batch.records,
        batch.rows,
        batch.joined,
        batch.measured,
        lambda: batch.record(3),
    ]
    if batch.header.is_wrapper:
        questions += [lambda: batch.base_offset, batch.payload]
    for question in questions:
        with pytest.raises(error) as raised:
            question()
        assert (raised.value.path, raised.value.position) == ("some.log", 4096)
        assert raised.value.offset == batch.header.base_offset


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
@pytest.mark.parametrize("magic", [0, 1])
def test_a_set_is_not_inflated_beyond_the_bound(magic: int, codec: str) -> None:
    data = wrapper(magic, 0, [message(magic, 0, None, bytes(4 << 20))], codec)
    with pytest.raises(DecompressionLimit):
        read_batch(data).payload(1 << 20)
    assert len(read_batch(data).payload(5 << 20)) > 4 << 20


@pytest.mark.security("A length or a count is checked against the available bytes before memory is allocated.")
@pytest.mark.promise("Memory, open files and the time per request are bounded, whatever the files contain.")
def test_a_length_that_lies_costs_no_memory() -> None:
    lies = [patched(V0, 18, ">i", 2**31 - 1), patched(V0, 26, ">i", 2**31 - 1)]
    lies += [wrapper(0, 3, [lie]) for lie in (*lies, patched(V0, 8, ">i", 2**31 - 1))]
    tracemalloc.start()
    try:
        for lie in lies:
            with pytest.raises(MalformedBatch):
                read_batch(lie).joined()
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


# --- lz4 of v0 --------------------------------------------------------------------------------------------------------


def test_v0_takes_any_header_checksum_of_lz4_and_v1_only_the_right_one() -> None:
    frame = bytearray(compress("lz4", message(0, 0)))
    for checksum in (0x1A, 0x82, 0x00):
        frame[6] = checksum
        assert len(read_batch(message(0, 0, None, bytes(frame), attributes=3)).records()) == 1
        if checksum != 0x82:
            with pytest.raises(MalformedBatch):
                read_batch(message(1, 0, None, bytes(frame), attributes=3)).records()


def test_the_header_checksum_of_a_frame_is_that_of_lz4() -> None:
    assert header_checksum(b"\x60\x40") == 0x82
    assert header_checksum(bytes.fromhex("04224d186040")) == 0x1A  # what Kafka took it over, for v0


def test_a_frame_with_its_content_size_is_mended_at_another_place() -> None:
    right = lz4.frame.compress(b"hello", block_linked=False, store_size=True)
    assert header_checksum(right[4:14]) == right[14]
    wrong = bytearray(right)
    wrong[14] ^= 0xFF
    assert with_right_checksum(wrong) == right
    assert [bytes(with_right_checksum(right[:size])) for size in range(15)] == [right[:size] for size in range(15)]


# --- runs -------------------------------------------------------------------------------------------------------------


def plain(magic: int, offset: int, timestamp: int = 5, attributes: int = 0) -> bytes:
    return message(magic, offset, b"k", b"v%d" % offset, timestamp, attributes)


RUNS = {
    "v0": ([plain(0, 1), plain(0, 3), plain(0, 4)], 3, 4, -1),
    "v1": ([plain(1, 1, 7), plain(1, 3, 9), plain(1, 4, 8)], 3, 4, 9),
    "until the format changes": ([plain(0, 1), plain(0, 2), plain(1, 3)], 2, 2, -1),
    "until the type of timestamp changes": ([plain(1, 1), plain(1, 2), plain(1, 3, 5, 8)], 2, 2, 5),
    "until a wrapper": ([plain(0, 1), plain(0, 2), wrapper(0, 3, [plain(0, 3)])], 2, 2, -1),
    "until a wrong checksum": ([plain(0, 1), plain(0, 2), plain(0, 3)[:-1] + b"?"], 2, 2, -1),
    "until a wrong length": ([plain(0, 1), plain(0, 2), patched(plain(0, 3), 8, ">i", 2)], 2, 2, -1),
    "until a wrong field": ([plain(0, 1), plain(0, 2), patched(plain(0, 3), 18, ">i", 99)], 2, 2, -1),
    "until offsets do not rise": ([plain(0, 1), plain(0, 2), plain(0, 2)], 2, 2, -1),
    "until the bytes end": ([plain(0, 1), plain(0, 2), plain(0, 3)[:-1]], 2, 2, -1),
    "not of a wrapper": ([wrapper(0, 3, [plain(0, 3)]), plain(0, 4)], 0, -1, -1),
    "not of a negative offset": ([plain(0, -5), plain(0, 2)], 0, -1, -1),
    "not to an offset that none follows": ([plain(0, 1), plain(0, 2), plain(0, 2**63 - 1)], 2, 2, -1),
    "one alone": ([plain(1, 8, -1)], 1, 8, -1),
    "nothing": ([], 0, -1, -1),
}


@pytest.mark.parametrize(("data", "count", "last", "timestamp"), RUNS.values(), ids=RUNS)
def test_a_run_reaches_as_far_as_messages_are_of_one_kind_and_sound(
    module: ModuleType, data: list[bytes], count: int, last: int, timestamp: int
) -> None:
    size = sum(len(each) for each in data[:count])
    assert module.run(b"".join(data), 1 << 20) == (size, count, last, timestamp)


def test_a_run_is_no_longer_than_asked_unless_its_first_message_is(module: ModuleType) -> None:
    data = b"".join(plain(0, offset) for offset in range(5))
    size = len(plain(0, 0))
    assert [module.run(data, size_max)[1] for size_max in (1, size, 2 * size - 1, 2 * size, 9 * size)] == [
        1,
        1,
        1,
        2,
        5,
    ]


def test_a_run_is_a_batch_with_true_bounds() -> None:
    messages = [plain(1, offset, 1000 - offset, 8) for offset in (3, 4, 9)]
    data = memoryview(b"".join(messages))
    header = run_header(parse_header(data), data)
    assert (header.is_run, header.base_offset, header.last_offset, header.next_offset) == (True, 3, 9, 10)
    assert (header.count, header.size, header.max_timestamp, header.timestamp_type) == (3, len(data), 997, APPEND)
    batch = Batch(header, data)
    batch.check()
    one_by_one = [record for each in messages for record in read_batch(each).records()]
    assert batch.records() == one_by_one == [batch.record(offset) for offset in (3, 4, 9)]
    assert rows_of(batch) == [(r.offset, r.timestamp, r.key, r.value) for r in one_by_one]
    assert (bytes(batch.joined()), batch.measured(), int(batch.base_offset)) == (b"v3\nv4\nv9\n", 9, 3)
    with pytest.raises(CorruptBatch):
        Batch(header, memoryview(bytes(data[:-1]) + b"?")).check()


def test_a_message_that_no_other_joins_keeps_its_header() -> None:
    data = memoryview(plain(0, 3) + plain(1, 4))
    header = parse_header(data)
    assert run_header(header, data) is header


# --- random bytes ----------------------------------------------------------------------------------------------------


@given(message_sets(), st.integers(0, 1), st.integers(-1, 9), st.sampled_from(CODECS))
def test_hostile_bytes_are_refused_by_name_or_read(data: bytes, magic: int, offset: int, codec: str) -> None:
    for candidate in (data, sealed(data) if len(data) > 16 else data, wrapper(magic, offset, [data], codec)):
        try:
            batch = read_batch(candidate)
            records = batch.records()
            assert len(batch.rows()) == len(records) * COLUMNS
            assert batch.measured() == len(batch.joined())
            assert batch.base_offset == (records[0].offset if records else batch.header.base_offset)
        except REFUSALS:
            pass
