"""The open batch: what fits and what does not, what a sealed batch says of itself, and that buffers are used again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetfs.storage.records.compression.compression import CODECS, Compression
from offsetfs.storage.records.format import codec
from offsetfs.storage.records.format.batch import HEADER_SIZE, build, read_batch, stamp
from offsetfs.storage.records.format.batch_builder import RECORD_OVERHEAD_MAX, BatchBuilder, SealedBatch, record_size
from offsetfs.storage.records.format.record import Headers

pytestmark = pytest.mark.unit


def lines_of(sealed: SealedBatch) -> bytes:
    return bytes(read_batch(sealed.data).joined())


def test_a_new_builder_is_empty() -> None:
    builder = BatchBuilder(1000)
    assert builder.is_empty
    assert (builder.count, builder.size, builder.values_bytes, builder.max_timestamp) == (0, HEADER_SIZE, 0, -1)


@pytest.mark.parametrize("bytes_max", [-1, 0, HEADER_SIZE + 6, 2**31])
def test_a_batch_that_holds_nothing_or_has_no_size_field_is_refused(bytes_max: int) -> None:
    with pytest.raises(ValueError, match="a batch of"):
        BatchBuilder(bytes_max)


@pytest.mark.parametrize("name", CODECS)
def test_a_sealed_batch_is_the_one_that_build_makes(name: str) -> None:
    builder = BatchBuilder(10_000, Compression(name))
    builder.append(b"k", b"v", (("h", None),), 50)
    builder.append(None, None, (), 40)
    builder.append(b"", b"x" * 3000, (), 60)
    sealed = builder.seal()
    records = [(b"k", b"v", (("h", None),), 50), (None, None, (), 40), (b"", b"x" * 3000, (), 60)]
    assert sealed.data == build(records, codec=name)
    assert (sealed.count, sealed.max_timestamp, sealed.size) == (3, 60, len(sealed.data))


@pytest.mark.parametrize("name", CODECS)
def test_lines_go_in_and_come_out(name: str) -> None:
    data = b"".join(b"line %d\n" % n for n in range(500)) + b"rest"
    builder = BatchBuilder(1 << 20, Compression(name))
    assert builder.split(data, 0, len(data), 1000) == len(data) - 4
    sealed = builder.seal()
    assert lines_of(sealed) == data[:-4]
    assert (sealed.count, sealed.values_bytes) == (500, len(data) - 4)
    assert {record.timestamp for record in read_batch(sealed.data).records()} == {1000}


def test_timestamps_are_kept_whatever_their_order() -> None:
    builder = BatchBuilder(1000)
    for timestamp, line in ((500, b"a\n"), (400, b"b\n"), (-1, b"c\n"), (2**62, b"d\n")):
        assert builder.split(line, 0, 2, timestamp) == 2
    sealed = builder.seal()
    assert [record.timestamp for record in read_batch(sealed.data).records()] == [500, 400, -1, 2**62]
    assert (sealed.max_timestamp, read_batch(sealed.data).header.base_timestamp) == (2**62, 500)


def test_a_timestamp_below_minus_one_is_refused_and_changes_nothing() -> None:
    builder = BatchBuilder(1000)
    with pytest.raises(ValueError, match="a timestamp of -2"):
        builder.append(None, b"v", (), -2)
    with pytest.raises(ValueError, match="a timestamp of -2"):
        builder.split(b"v\n", 0, 2, -2)
    assert (builder.is_empty, builder.size) == (True, HEADER_SIZE)


def test_a_timestamp_too_far_from_the_first_needs_another_batch() -> None:
    builder = BatchBuilder(1000)
    assert builder.append(None, b"v", (), -1)
    assert not builder.append(None, b"v", (), 2**63 - 1)
    assert builder.split(b"a\n", 0, 2, 2**63 - 1) == 0
    assert builder.append(None, b"v", (), 2**63 - 2)
    assert (builder.count, builder.max_timestamp) == (2, 2**63 - 2)
    builder.reset()
    assert builder.append(None, b"v", (), 2**63 - 1)
    assert builder.append(None, b"v", (), -1)


def test_split_takes_what_fits_and_goes_on_after_a_reset() -> None:
    data = b"".join(b"%04d\n" % n for n in range(1000))
    builder, start, seen, batch_count = BatchBuilder(500), 0, b"", 0
    while start < len(data):
        start = builder.split(data, start, len(data), 7)
        is_full = 500 - builder.size < record_size(None, b"0000", offset_delta=builder.count)
        assert is_full or start == len(data)
        sealed = builder.seal()
        assert (sealed.size, sealed.values_bytes) == (builder.size, len(lines_of(sealed)))
        seen += lines_of(sealed)
        batch_count += 1
        builder.reset()
    assert seen == data
    assert batch_count > 10


def test_what_does_not_fit_is_refused_whole() -> None:
    builder = BatchBuilder(200)
    assert builder.append(b"key", b"value", (), 9)
    before = (builder.count, builder.size, builder.values_bytes, builder.max_timestamp)
    assert not builder.append(b"k" * 100, b"v" * 100, (), 10)
    assert not builder.append(None, None, (("h" * 200, None),), 10)
    assert builder.split(b"x" * 150 + b"\n", 0, 151, 10) == 0
    assert (builder.count, builder.size, builder.values_bytes, builder.max_timestamp) == before
    assert lines_of(builder.seal()) == b"value\n"


def test_the_size_of_a_record_determines_whether_it_can_ever_fit() -> None:
    for value_size in range(300):
        value = b"v" * value_size
        fits = record_size(None, value) <= 250 - HEADER_SIZE
        assert BatchBuilder(250).append(None, value, (), 2**62) == fits
        line = value + b"\n"
        assert (BatchBuilder(250).split(line, 0, len(line), 2**62) == len(line)) == fits


def test_a_batch_may_be_filled_to_its_last_byte() -> None:
    space = 200 - HEADER_SIZE
    value = b"v" * (space - record_size(None, b"v" * 100) + 100)
    builder = BatchBuilder(200)
    assert builder.append(None, value, (), 0)
    assert builder.size == 200
    assert not builder.append(None, None, (), 0)
    assert builder.split(b"\n", 0, 1, 0) == 0
    assert lines_of(builder.seal()) == value + b"\n"


def test_a_sealed_batch_can_be_stamped_in_place() -> None:
    builder = BatchBuilder(200, Compression("lz4"))
    builder.append(None, b"v", (), 0)
    sealed = builder.seal()
    stamp(sealed.data, 77, 3)
    assert (read_batch(sealed.data).header.base_offset, read_batch(sealed.data).header.leader_epoch) == (77, 3)


@pytest.mark.parametrize("name", CODECS)
def test_a_builder_makes_one_batch_after_the_other_in_the_same_memory(name: str) -> None:
    builder = BatchBuilder(200, Compression(name))
    sealed = []
    for line in (b"a" * 99, b"b"):
        builder.append(None, line, (), 0)
        sealed.append(builder.seal())
        assert lines_of(sealed[-1]) == line + b"\n"
        builder.reset()
    assert sealed[0].data.obj is sealed[1].data.obj


@pytest.mark.parametrize("name", CODECS[1:])
def test_a_batch_that_does_not_compress_stays_compressed_and_states_its_size(name: str) -> None:
    noise = bytes(range(256))
    builder = BatchBuilder(400, Compression(name))
    builder.append(None, noise, (), 0)
    sealed = builder.seal()
    assert sealed.size == len(sealed.data) == read_batch(sealed.data).header.size > builder.size
    assert read_batch(sealed.data).header.codec_name == name


def test_nothing_goes_into_a_sealed_batch() -> None:
    builder = BatchBuilder(200)
    builder.append(None, b"v", (), 0)
    builder.seal()
    with pytest.raises(AssertionError):
        builder.append(None, b"v", (), 0)
    with pytest.raises(AssertionError):
        builder.split(b"v\n", 0, 2, 0)


DATA = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=5), DATA), max_size=3)


@settings(max_examples=150, deadline=None)
@given(DATA, DATA, HEADERS, st.integers(-(2**62), 2**62), st.integers(0, 2**31 - 1))
def test_the_computed_size_is_the_encoded_size(
    key: bytes | None, value: bytes | None, headers: Headers, timestamp_delta: int, offset_delta: int
) -> None:
    timestamp = max(timestamp_delta, 0)
    encoded = codec.encode([(key, value, headers, timestamp)], timestamp - timestamp_delta, offset_delta)
    foretold = record_size(key, value, headers, timestamp_delta=timestamp_delta, offset_delta=offset_delta)
    assert foretold == len(encoded)
    if not headers:  # five more bytes for each of the two sizes and one for the header count
        assert foretold <= RECORD_OVERHEAD_MAX + 11 + len(key or b"") + len(value or b"")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.booleans(), DATA, st.integers(-1, 2**62)), min_size=1), st.integers(100, 2000))
def test_whatever_goes_in_comes_out_in_order(steps: list[tuple[bool, bytes | None, int]], bytes_max: int) -> None:
    builder, taken = BatchBuilder(bytes_max), []
    for is_line, value, timestamp in steps:
        if is_line:
            value = (value or b"").replace(b"\n", b"")
            line = value + b"\n"
            is_taken = builder.split(line, 0, len(line), timestamp) == len(line)
        else:
            is_taken = builder.append(b"k", value, (), timestamp)
        if is_taken:
            taken.append((value, timestamp))
        assert builder.size <= bytes_max
        assert (builder.count, builder.values_bytes) == (len(taken), sum(len(value or b"") + 1 for value, _ in taken))
    if taken:
        sealed = builder.seal()
        assert [(record.value, record.timestamp) for record in read_batch(sealed.data).records()] == taken
        assert sealed.max_timestamp == max(timestamp for _, timestamp in taken)
