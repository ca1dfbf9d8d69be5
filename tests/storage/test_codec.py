"""The record codec: what a payload is and is not, and that the compiled codec and its reference never differ."""

from __future__ import annotations

import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.native import codec as native_codec
from offsetfs.storage.records.compression.compression import Buffer
from offsetfs.storage.records.format import codec, varint
from offsetfs.storage.reference import codec as reference_codec
from offsetfs.storage.reference.codec import EncodableRecord

pytestmark = pytest.mark.unit

READERS = ("scan", "decode", "join", "measure")
KAFKA_TWO_RECORDS = bytes.fromhex("20000000086b6579310c76616c756531002400e1bf2202086b6579320c76616c75653200")


@pytest.fixture(params=[native_codec, reference_codec], ids=["compiled", "plain"])
def module(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


def framed(body: bytes) -> bytes:
    return varint.encode(len(body)) + body


def field(data: bytes | None) -> bytes:
    return varint.encode(-1) if data is None else varint.encode(len(data)) + data


# --- the records that Kafka writes ---------------------------------------------------------------------------------


def test_records_are_encoded_to_kafkas_bytes(module: ModuleType) -> None:
    records = [(b"key1", b"value1", (), 283843), (b"key2", b"value2", (), 1234)]
    assert module.encode(records, 283843, 0) == KAFKA_TWO_RECORDS


def test_kafkas_records_are_decoded(module: ModuleType) -> None:
    assert module.decode(KAFKA_TWO_RECORDS, 2) == [(0, 0, b"key1", b"value1", ()), (1, -282609, b"key2", b"value2", ())]
    assert module.join(KAFKA_TWO_RECORDS, 2) == b"value1\nvalue2\n"
    assert module.measure(KAFKA_TWO_RECORDS, 2) == 14


def test_a_scanned_row_states_where_key_value_and_headers_are(module: ModuleType) -> None:
    payload = module.encode([(None, b"v", (), 7), (b"key", None, (("h", None), ("n", b"12")), 5)], 7, 3)
    rows = module.scan(payload, 2)
    assert (type(rows), rows.typecode) == (array, "q")
    first, second = rows[:8].tolist(), rows[8:].tolist()
    assert first == [3, 0, 5, -1, 6, 1, 8, 0]
    assert second == [4, -2, 13, 3, 17, -1, 18, 2]
    assert payload[13:16] == b"key"
    assert codec.headers(payload, 18, 2) == (("h", None), ("n", b"12"))


def test_find_returns_the_row_of_one_record_or_none(module: ModuleType) -> None:
    payload = module.encode([(b"a", b"1", (), 0), (b"b", b"2", (), 0), (b"c", b"3", (), 0)], 0, 0)
    assert module.find(payload, 3, 1) == tuple(module.scan(payload, 3)[8:16])
    assert module.find(payload, 3, 3) is None
    assert module.find(payload, 3, 2**40) is None


def test_find_returns_the_first_of_records_with_the_same_delta(module: ModuleType) -> None:
    payload = module.encode([(None, b"first", (), 0)], 0, 5) + module.encode([(None, b"second", (), 0)], 0, 5)
    assert module.find(payload, 2, 5)[5] == len("first")


def test_find_does_not_look_behind_the_record(module: ModuleType) -> None:
    payload = module.encode([(None, b"whole", (), 0)], 0, 0) + b"\xff" * 20
    assert module.find(payload, 2, 0)[5] == len("whole")


def test_null_empty_and_odd_contents_come_back(module: ModuleType) -> None:
    records = [
        (None, None, (), -1),
        (b"", b"", (("", b""), ("", None)), 0),
        (b"\0\n\xff", b"\r\n", (("schlüssel", b"\n"), ("twice", b"1"), ("twice", b"2")), 2**62),
    ]
    decoded = module.decode(module.encode(records, 0, 0), 3)
    assert [(key, value, headers, time) for _, time, key, value, headers in decoded] == records


def test_header_names_that_are_no_utf8_come_back(module: ModuleType) -> None:
    body = b"\0\0\0" + field(None) + field(None) + varint.encode(1) + field(b"\xff\xfeh") + field(b"v")
    (_, _, _, _, headers) = module.decode(framed(body), 1)[0]
    assert headers == (("\udcff\udcfeh", b"v"),)
    assert module.encode([(None, None, headers, 0)], 0, 0) == framed(body)


@pytest.mark.parametrize("records", [3, 3000], ids=["with the lock", "without"])
def test_a_survey_states_when_the_records_are_and_which_have_no_key(module: ModuleType, records: int) -> None:
    content = [(None if number % 3 else b"k", b"value", (), 50 - number % 3) for number in range(records)]
    payload = module.encode(content, 100, 0)
    assert module.survey(payload, records, 100) == (48, 50, records * 2 // 3)
    untimed = module.encode([(b"k", None, (), -1)], 100, 0)
    assert module.survey(untimed, 1, 100) == (2**63 - 1, -1, 0), "as Kafka: -1 is no timestamp"
    assert module.survey(untimed, 1, -(2**63) + 50) == (2**63 - 51, 2**63 - 51, 0), "as a Java long"


def test_a_survey_refuses_offset_deltas_that_do_not_count_from_0(module: ModuleType) -> None:
    with pytest.raises(MalformedBatch, match="record 0 has an offset delta of 1"):
        module.survey(module.encode([(None, b"v", (), 0)], 0, 1), 1, 0)
    with pytest.raises(MalformedBatch, match="1 bytes left over"):
        module.survey(module.encode([(None, b"v", (), 0)], 0, 0) + b"x", 1, 0)


def test_a_null_value_is_an_empty_line(module: ModuleType) -> None:
    payload = module.encode([(b"k", None, (), 0), (b"k", b"", (), 0), (b"k", b"x", (), 0)], 0, 0)
    assert module.join(payload, 3) == b"\n\nx\n"
    assert module.measure(payload, 3) == 4


def test_any_negative_size_reads_as_null(module: ModuleType) -> None:
    body = b"\0\0\0" + varint.encode(-7) + varint.encode(-(2**31)) + varint.encode(1) + field(b"h") + varint.encode(-2)
    assert module.decode(framed(body), 1) == [(0, 0, None, None, (("h", None),))]
    assert module.scan(framed(body), 1)[3] == -1


def test_the_attributes_of_a_record_are_not_looked_at(module: ModuleType) -> None:
    payload = bytearray(KAFKA_TWO_RECORDS)
    payload[1] = 0xFF
    assert module.decode(payload, 2) == module.decode(KAFKA_TWO_RECORDS, 2)


def test_a_batch_that_counts_no_records_is_not_looked_into(module: ModuleType) -> None:
    for payload in (b"", b"\xff\xff\xff"):
        assert module.decode(payload, 0) == []
        assert module.join(payload, 0) == b""
        assert module.measure(payload, 0) == 0
        assert len(module.scan(payload, 0)) == 0
        assert module.find(payload, 0, 0) is None


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, lambda data: memoryview(b"xx" + data)[2:]])
def test_any_buffer_is_read(module: ModuleType, wrap: Callable[[bytes], Buffer]) -> None:
    payload = wrap(KAFKA_TWO_RECORDS)
    assert module.join(payload, 2) == b"value1\nvalue2\n"
    assert module.decode(payload, 2)[0][2:4] == (b"key1", b"value1")
    assert module.find(payload, 2, 1)[0] == 1


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_any_buffer_is_encoded(module: ModuleType, wrap: Callable[[bytes], Buffer]) -> None:
    records = [(wrap(b"key1"), wrap(b"value1"), (), 283843), (wrap(b"key2"), wrap(b"value2"), (), 1234)]
    assert module.encode(records, 283843, 0) == KAFKA_TWO_RECORDS


ILLEGAL_RECORDS = {
    "a timestamp below -1": ([(None, None, (), -2)], 0, 0),
    "a timestamp delta of 65 bits": ([(None, None, (), 2**63 - 1)], -1, 0),
    "a negative offset delta": ([(None, None, (), 0)], 0, -1),
    "an offset delta of 32 bits": ([(None, None, (), 0)] * 2, 0, 2**31 - 1),
}


@pytest.mark.parametrize(("records", "base_timestamp", "delta"), ILLEGAL_RECORDS.values(), ids=ILLEGAL_RECORDS)
def test_records_that_no_field_holds_are_not_encoded(
    module: ModuleType, records: list[EncodableRecord], base_timestamp: int, delta: int
) -> None:
    with pytest.raises(ValueError):
        module.encode(records, base_timestamp, delta)


# --- payloads that are none ----------------------------------------------------------------------------------------

WHOLE = b"\0\0\0" + field(b"k") + field(b"v") + b"\0"
MALFORMED = {
    "no bytes": (b"", 1),
    "a negative count": (framed(WHOLE), -1),
    "fewer records than counted": (framed(WHOLE), 2),
    "more records than counted": (framed(WHOLE) * 2, 1),
    "a count beyond any memory": (framed(WHOLE), 2**31 - 1),
    "a count beyond 64 bits": (framed(WHOLE), 2**70),
    "a body longer than the payload": (varint.encode(len(WHOLE) + 1) + WHOLE, 1),
    "a body of 2 GiB": (varint.encode(2**31 - 1) + WHOLE, 1),
    "an empty body": (varint.encode(0) + WHOLE, 1),
    "a negative body": (varint.encode(-5) + WHOLE, 1),
    "a body that ends before its fields": (varint.encode(len(WHOLE) - 1) + WHOLE, 1),
    "bytes left over in a record": (framed(WHOLE + b"\0"), 1),
    "bytes left over behind the records": (framed(WHOLE) + b"\0", 1),
    "a length that does not stop": (b"\xff" * 20, 1),
    "a timestamp that does not stop": (framed(b"\0" + b"\xff" * 10 + b"\1" + WHOLE[2:]), 1),
    "a timestamp that is cut": (framed(b"\0" + b"\xff" * 8), 1),
    "an offset delta that does not stop": (framed(b"\0\0" + b"\xff" * 5 + b"\1" + WHOLE[3:]), 1),
    "a key longer than the record": (framed(b"\0\0\0" + varint.encode(100) + b"k" * 9) + framed(WHOLE) * 20, 21),
    "a key of 2 GiB": (framed(b"\0\0\0" + varint.encode(2**31 - 1) + b"k" * 9), 1),
    "a value longer than the record": (framed(b"\0\0\0" + field(b"k") + varint.encode(7) + b"v" * 6), 1),
    "no header count": (framed(b"\0\0\0" + field(b"k") + field(b"v")), 1),
    "a negative header count": (framed(WHOLE[:-1] + varint.encode(-1)), 1),
    "more headers than bytes": (framed(WHOLE[:-1] + varint.encode(2**31 - 1) + b"\0" * 8), 1),
    "more headers than there are": (framed(WHOLE[:-1] + varint.encode(2) + field(b"h") + field(b"v")), 1),
    "fewer headers than there are": (framed(WHOLE[:-1] + varint.encode(1) + field(b"h") * 4), 1),
    "a header name of null": (framed(WHOLE[:-1] + varint.encode(1) + field(None) + field(b"v")), 1),
    "a header name longer than the record": (framed(WHOLE[:-1] + varint.encode(1) + varint.encode(9) + b"h"), 1),
    "a header value longer than the record": (
        framed(WHOLE[:-1] + varint.encode(1) + field(b"h") + varint.encode(9) + b"v"),
        1,
    ),
}


@pytest.mark.parametrize(("payload", "count"), MALFORMED.values(), ids=MALFORMED)
def test_a_payload_that_is_none_is_refused_by_every_reader(module: ModuleType, payload: bytes, count: int) -> None:
    for name in READERS:
        with pytest.raises(MalformedBatch):
            getattr(module, name)(payload, count)


@pytest.mark.parametrize(("payload", "count"), MALFORMED.values(), ids=MALFORMED)
def test_find_answers_alike_on_a_payload_that_is_none(payload: bytes, count: int) -> None:
    for delta in (0, 1):
        assert outcome(native_codec.find, payload, count, delta) == outcome(reference_codec.find, payload, count, delta)


# --- lines to records ----------------------------------------------------------------------------------------------


def test_lines_become_records_and_come_back_as_lines(module: ModuleType) -> None:
    lines = b"first\n\nwith\r\n\0\xff\nrest"
    target = bytearray(200)
    assert module.split(lines, 0, len(lines), target, 10, 0, -3) == (len(lines) - 4, 50, 4)
    values = [b"first", b"", b"with\r", b"\0\xff"]
    assert module.decode(target[10:50], 4) == [(delta, -3, None, value, ()) for delta, value in enumerate(values)]
    assert module.join(target[10:50], 4) == lines[:-4]


def test_split_makes_the_bytes_that_encode_makes(module: ModuleType) -> None:
    lines = [b"x" * size for size in (0, 1, 55, 56, 57, 63, 64, 8000, 8191, 8192, 20000)]
    data = b"\n".join(lines) + b"\n"
    target = bytearray(len(data) + 300)
    _, position, delta = module.split(data, 0, len(data), target, 0, 60, 12345)
    assert bytes(target[:position]) == reference_codec.encode([(None, line, (), 12345) for line in lines], 0, 60)
    assert delta == 60 + len(lines)


def test_split_touches_only_its_range_of_the_source(module: ModuleType) -> None:
    target = bytearray(100)
    start, position, delta = module.split(b"aa\nbb\ncc\n", 3, 8, target, 0, 0, 0)
    assert (start, delta) == (6, 1)
    assert module.join(target[:position], 1) == b"bb\n"


def test_split_stops_before_a_record_that_does_not_fit(module: ModuleType) -> None:
    record_size = len(reference_codec.encode([(None, b"abc", (), 0)], 0, 0))
    for space in range(3 * record_size):
        target = bytearray(b"#" * (space + 8))
        view = memoryview(target)[:space]
        start, position, delta = module.split(b"abc\nabc\nabc\n", 0, 12, view, 0, 0, 0)
        assert delta == space // record_size
        assert (start, position) == (4 * delta, record_size * delta)
        assert target[position:] == b"#" * (space + 8 - position)


def test_split_stops_at_the_last_offset_delta_a_batch_can_hold(module: ModuleType) -> None:
    target = bytearray(100)
    start, _, delta = module.split(b"a\nb\nc\n", 0, 6, target, 0, 2**31 - 2, 0)
    assert (start, delta) == (4, 2**31)


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, lambda data: memoryview(b"xx" + data)[2:]])
def test_lines_of_any_buffer_are_split(module: ModuleType, wrap: Callable[[bytes], Buffer]) -> None:
    target = bytearray(20)
    assert module.split(wrap(b"ab\nc"), 0, 4, memoryview(target), 0, 0, 0) == (3, 9, 1)


OUTSIDE = {
    "a start below 0": (-1, 3, 0, 0),
    "an end beyond the source": (0, 4, 0, 0),
    "an end before the start": (2, 1, 0, 0),
    "a position below 0": (0, 3, -1, 0),
    "a position beyond the target": (0, 3, 11, 0),
    "a negative offset delta": (0, 3, 0, -1),
}


@pytest.mark.parametrize(("start", "end", "position", "delta"), OUTSIDE.values(), ids=OUTSIDE)
def test_split_refuses_what_lies_outside_its_buffers(
    module: ModuleType, start: int, end: int, position: int, delta: int
) -> None:
    with pytest.raises(ValueError):
        module.split(b"a\nb", start, end, bytearray(10), position, delta, 0)


def test_split_refuses_a_timestamp_delta_of_65_bits(module: ModuleType) -> None:
    with pytest.raises(ValueError, match="64 bits"):
        module.split(b"a\n", 0, 2, bytearray(30), 0, 0, 2**63)


@pytest.fixture
def no_forced_switches() -> Iterator[None]:
    """A thread then runs until it gives the interpreter lock away by itself."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(3600)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.parametrize("work", ["split", "join"])
def test_other_threads_run_while_the_compiled_codec_works(work: str, no_forced_switches: None) -> None:
    source = (b"x" * 999 + b"\n") * 8000
    target = bytearray(len(source) + (1 << 20))
    _, size, count = native_codec.split(source, 0, len(source), target, 0, 0, 0)
    payload = memoryview(target)[:size]
    is_inside, is_done, was_seen_inside = False, False, False

    def call() -> None:
        nonlocal is_inside, is_done
        until = time.monotonic() + 10  # on a busy machine the other thread may get no core for many calls
        while not was_seen_inside and time.monotonic() < until:
            is_inside = True
            if work == "split":
                native_codec.split(source, 0, len(source), target, 0, 0, 0)
            else:
                native_codec.join(payload, count)
            is_inside = False
        is_done = True

    thread = threading.Thread(target=call)
    thread.start()
    while not is_done:
        was_seen_inside |= is_inside
        time.sleep(0)  # not to wait: to give the lock away
    thread.join()
    assert was_seen_inside


# --- the implementations are equal -----------------------------------------------------------------------------------

DATA = st.none() | st.binary(max_size=80)
HEADERS = st.lists(st.tuples(st.text(max_size=8), DATA), max_size=3)
RECORDS = st.lists(st.tuples(DATA, DATA, HEADERS, st.integers(-1, 2**62)), max_size=12)


def outcome(function: Callable[..., Any], *arguments: object) -> object:
    try:
        result = function(*arguments)
    except MalformedBatch:
        return "malformed"
    return result.tolist() if isinstance(result, array) else result


def assert_implementations_agree(payload: Buffer, count: int, deltas: tuple[int, ...] = (0, 1, 7)) -> None:
    outcomes = {name: outcome(getattr(reference_codec, name), payload, count) for name in READERS}
    assert {name: outcome(getattr(native_codec, name), payload, count) for name in READERS} == outcomes
    assert len({result == "malformed" for result in outcomes.values()}) == 1
    for delta in deltas:
        assert outcome(native_codec.find, payload, count, delta) == outcome(reference_codec.find, payload, count, delta)


@pytest.mark.long
@pytest.mark.reference
@settings(max_examples=250, deadline=None)
@given(RECORDS, st.integers(0, 2**62), st.integers(0, 2**30))
def test_the_implementations_encode_and_decode_alike(
    records: list[EncodableRecord], base_timestamp: int, offset_delta: int
) -> None:
    payload = reference_codec.encode(records, base_timestamp, offset_delta)
    assert native_codec.encode(records, base_timestamp, offset_delta) == payload
    decoded = native_codec.decode(payload, len(records))
    assert decoded == [
        (offset_delta + index, timestamp - base_timestamp, key, value, tuple(headers))
        for index, (key, value, headers, timestamp) in enumerate(records)
    ]
    assert_implementations_agree(payload, len(records), (offset_delta, offset_delta + 1))
    assert len(native_codec.join(payload, len(records))) == native_codec.measure(payload, len(records))


@pytest.mark.long
@pytest.mark.reference
@settings(max_examples=400, deadline=None)
@given(RECORDS.filter(bool), st.integers(-1, 1), st.data())
def test_the_implementations_agree_on_flipped_bits(
    records: list[EncodableRecord], surplus: int, data: st.DataObject
) -> None:
    payload = bytearray(reference_codec.encode(records, 0, 0))
    for bit in data.draw(st.lists(st.integers(0, 8 * len(payload) - 1), min_size=1, max_size=3)):
        payload[bit // 8] ^= 1 << bit % 8
    assert_implementations_agree(payload, len(records) + surplus)
