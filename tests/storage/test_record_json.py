"""Records as lines of JSON: what a line looks like, that it is complete, and that the implementations agree."""

from __future__ import annotations

import base64
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetfs.storage import files
from offsetfs.storage.errors import DecompressionLimit, MalformedBatch
from offsetfs.storage.native import codec as native_codec
from offsetfs.storage.native import record_json as native_record_json
from offsetfs.storage.records.compression.compression import Buffer
from offsetfs.storage.records.format import batch_chain, codec, varint
from offsetfs.storage.records.format.batch import Batch, build, read_batch, set_append_time
from offsetfs.storage.records.format.batch_builder import BatchBuilder
from offsetfs.storage.records.format.record import Headers, Record
from offsetfs.storage.records.json import json_line, record_json
from offsetfs.storage.records.json.batch_json import joined_json, measured_json
from offsetfs.storage.reference import codec as reference_codec
from offsetfs.storage.reference import record_json as reference_record_json
from offsetfs.storage.reference.codec import EncodableRecord

pytestmark = pytest.mark.unit

GOLDEN = Path(__file__).parents[1] / "golden"
PREFIX = record_json.line_prefix("orders", 0)
TIME = 1795253676123


@pytest.fixture(params=[native_record_json, reference_record_json], ids=["compiled", "plain"])
def module(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


def lines_of(module: ModuleType, records: Sequence[EncodableRecord], **frame: int | bytes | None) -> bytes:
    payload = codec.encode(records, TIME, 0)
    frame = {"prefix": PREFIX, "base_offset": 42, "base_timestamp": TIME, **frame}
    lines = module.join_json(payload, len(records), **frame)
    assert module.measure_json(payload, len(records), **frame) == len(lines)
    assert (type(lines), lines.count(b"\n")) == (bytearray, len(lines.splitlines()))
    return bytes(lines)


def line_with(value: bytes, **frame: int | bytes | None) -> bytes:
    return lines_of(record_json, [(b"k", value, (), TIME)], **frame)


def field(name: str, data: bytes | None) -> dict[str, str | None]:
    """A field as Python's `json` reads it."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_b64": base64.b64encode(data).decode()}


def object_of(record: Record, topic: str = "orders", partition: int = 0) -> dict[str, object]:
    """What the line of a record stands for."""
    return {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": record.timestamp_type,
        **field("key", record.key),
        **field("value", record.value),
        "headers": [
            {**field("key", name.encode("utf-8", "surrogateescape")), **field("value", value)}
            for name, value in record.headers
        ],
    }


# --- the line ------------------------------------------------------------------------------------------------------


def test_a_line_has_eight_fields_in_order_and_no_blanks(module: ModuleType) -> None:
    assert lines_of(module, [(b"k", b"v", (("h", b"x"),), TIME)]) == (
        b'{"topic":"orders","partition":0,"offset":42,"timestamp":1795253676123,"timestamp_type":"CreateTime",'
        b'"key":"k","value":"v","headers":[{"key":"h","value":"x"}]}\n'
    )


SHOWN = {
    "null key and value": ((None, None, ()), b'"key":null,"value":null,"headers":[]'),
    "empty key and value": ((b"", b"", ()), b'"key":"","value":"","headers":[]'),
    "bytes that are not UTF-8": ((b"\xff", b"\x80abc", ()), b'"key_b64":"/w==","value_b64":"gGFiYw==","headers":[]'),
    "base64 without padding": ((None, b"\xff\xff\xff", ()), b'"key":null,"value_b64":"////","headers":[]'),
    "a NUL, which is UTF-8": ((None, b"a\0b", ()), b'"key":null,"value":"a\\u0000b","headers":[]'),
    "the NUL of Java's writers": ((None, b"a\xc0\x80b", ()), b'"key":null,"value_b64":"YcCAYg==","headers":[]'),
    "half of a pair": ((None, b"\xed\xa0\x80", ()), b'"key":null,"value_b64":"7aCA","headers":[]'),
    "a character of four bytes": ((None, "😀".encode(), ()), '"key":null,"value":"😀","headers":[]'.encode()),
    "separators of lines in Unicode": (
        (None, "\u2028\u2029\x85".encode(), ()),
        '"key":null,"value":"\u2028\u2029\x85","headers":[]'.encode(),
    ),
    "escapes": (
        (None, b'"\\/\b\f\n\r\t\x00\x1f\x7f', ()),
        b'"key":null,"value":"\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f","headers":[]',
    ),
    "headers": (
        (None, None, (("", None), ("a", b""), ("a", b"\xfe"))),
        b'"key":null,"value":null,'
        b'"headers":[{"key":"","value":null},{"key":"a","value":""},{"key":"a","value_b64":"/g=="}]',
    ),
    "a header's key that is not UTF-8": (
        (None, None, (("\udcff", b"v"),)),
        b'"key":null,"value":null,"headers":[{"key_b64":"/w==","value":"v"}]',
    ),
}


@pytest.mark.parametrize(("record", "shown"), SHOWN.values(), ids=SHOWN)
def test_key_value_and_headers_are_shown(
    module: ModuleType, record: tuple[bytes | None, bytes | None, Headers], shown: bytes
) -> None:
    assert lines_of(module, [(*record, TIME)]).partition(b'"CreateTime",')[2] == shown + b"}\n"


NUMBERS = [0, 1, 9, 10, 11, 99, 100, 999, 1000, 9999, 10000, 99999, 123456789, 10**18, 2**62, 2**63 - 1]


@pytest.mark.parametrize("number", NUMBERS)
def test_offsets_and_timestamps_are_written_in_full(module: ModuleType, number: int) -> None:
    payload = codec.encode([(None, None, (), 5)], 5, 0)
    for sign in (1, -1):
        line = module.join_json(payload, 1, prefix=PREFIX, base_offset=sign * number, base_timestamp=sign * number)
        shown = json.loads(line)
        assert (shown["offset"], shown["timestamp"]) == (sign * number, sign * number)


def test_hostile_sums_wrap_around_as_a_java_long_does(module: ModuleType) -> None:
    payload = codec.encode([(None, None, (), 9)], 0, 1)
    line = module.join_json(payload, 1, prefix=PREFIX, base_offset=2**63 - 1, base_timestamp=2**63 - 9)
    assert (json.loads(line)["offset"], json.loads(line)["timestamp"]) == (-(2**63), -(2**63))


def test_with_append_time_all_records_have_it(module: ModuleType) -> None:
    lines = lines_of(module, [(None, None, (), TIME), (None, None, (), -1)], append_time=77)
    shown = [json.loads(line) for line in lines.splitlines()]
    assert [(each["timestamp"], each["timestamp_type"]) for each in shown] == [(77, "LogAppendTime")] * 2


RANGES = {
    "all": (None, None, [42, 43, 44]),
    "from the middle": (43, None, [43, 44]),
    "to the middle": (None, 44, [42, 43]),
    "one": (43, 44, [43]),
    "none": (44, 43, []),
    "beyond any offset": (2**70, None, []),
    "below any offset": (None, -(2**70), []),
    "wider than all": (-(2**70), 2**70, [42, 43, 44]),
}


@pytest.mark.parametrize(("offset_from", "offset_to", "offsets"), RANGES.values(), ids=RANGES)
def test_a_range_shows_only_its_records(
    module: ModuleType, offset_from: int | None, offset_to: int | None, offsets: list[int]
) -> None:
    lines = lines_of(module, [(None, b"v", (), TIME)] * 3, offset_from=offset_from, offset_to=offset_to)
    assert [json.loads(line)["offset"] for line in lines.splitlines()] == offsets


def test_each_byte_is_shown_wherever_it_stands(module: ModuleType) -> None:
    """Strings are looked at in words of eight bytes: each byte stands once at each place of a word."""
    values = [
        b"x" * place + bytes([byte]) + b"y" * rest for byte in range(256) for place in range(9) for rest in (0, 9)
    ]
    lines = lines_of(module, [(None, value, (), TIME) for value in values])
    shown = [json.loads(line) for line in lines.splitlines(keepends=False)]
    assert [{name: each[name] for name in each if name.startswith("value")} for each in shown] == [
        field("value", value) for value in values
    ]


EDGES_OF_UTF8 = [0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF]
EDGES_OF_UTF8 += [0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF]


def test_valid_utf8_is_what_python_accepts(module: ModuleType) -> None:
    seconds = (0x20, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0)
    tails = [b"", b"\x80", b"\xbf", b"\x80\x80", b"\x7f\x80", b"\x80\xc0", b"\x80\x80\x80"]
    values = [bytes([lead, second]) + tail for lead in EDGES_OF_UTF8 for second in seconds for tail in tails]
    values += [b"1234567" + value for value in values]
    lines = lines_of(module, [(None, value, (), TIME) for value in values])
    shown = [json.loads(line) for line in lines.split(b"\n")[:-1]]
    assert [{name: each[name] for name in each if name.startswith("value")} for each in shown] == [
        field("value", value) for value in values
    ]


def test_a_topic_is_escaped_like_any_string() -> None:
    assert json.loads(record_json.line_prefix('a"\n', 7) + b"0}") == {"topic": 'a"\n', "partition": 7, "offset": 0}


def test_a_prefix_longer_than_any_topic_makes_is_refused(module: ModuleType) -> None:
    with pytest.raises(ValueError, match="a prefix of 1025 bytes"):
        module.join_json(b"", 0, prefix=b"x" * 1025, base_offset=0, base_timestamp=0)
    line = module.join_json(b"\x0c\0\0\0\1\1\0", 1, prefix=b"x" * 1024, base_offset=0, base_timestamp=0)
    assert line.startswith(b"x" * 1024 + b'0,"timestamp":0,')


# --- what it may take ----------------------------------------------------------------------------------------------

FRAME = {"prefix": PREFIX, "base_offset": 0, "base_timestamp": 0}


def test_lines_of_more_bytes_than_allowed_are_refused_and_their_length_too(module: ModuleType) -> None:
    payload = codec.encode([(None, b"\0" * 100, (), 0)] * 10, 0, 0)
    size = module.measure_json(payload, 10, **FRAME)
    assert len(module.join_json(payload, 10, **FRAME, bytes_max=size)) == size
    for question in (module.join_json, module.measure_json):
        with pytest.raises(DecompressionLimit, match="more than"):
            question(payload, 10, **FRAME, bytes_max=size - 1)


def test_what_is_no_payload_counts_before_what_is_too_much(module: ModuleType) -> None:
    payload = codec.encode([(None, b"v", (), 0)] * 10, 0, 0) + b"\0"
    for question in (module.join_json, module.measure_json):
        with pytest.raises(MalformedBatch):
            question(payload, 10, **FRAME, bytes_max=100)


def test_text_six_times_as_long_as_its_record_fits(module: ModuleType) -> None:
    for size in (1, 100, 3000, 100_000):
        line = lines_of(module, [(b"\x1f" * size, b"\x01" * size, (("\x02" * size, b"\x03" * size),), TIME)])
        assert len(line) > 4 * 6 * size
        assert json.loads(line)["headers"] == [{"key": "\x02" * size, "value": "\x03" * size}]


def test_a_value_that_turns_out_not_to_be_text_at_its_last_byte_is_base64(module: ModuleType) -> None:
    for size in (0, 7, 8, 1000, 100_000):
        value = b"\x01" * size + b"\xff"
        assert json.loads(line_with(value))["value_b64"] == base64.b64encode(value).decode()


# --- payloads that are none ----------------------------------------------------------------------------------------


def framed(body: bytes) -> bytes:
    return varint.encode(len(body)) + body


WHOLE = b"\0\0\0\1\1\0"  # null key, null value, no headers
MALFORMED = {
    "no bytes": (b"", 1),
    "a negative count": (framed(WHOLE), -1),
    "fewer records than counted": (framed(WHOLE), 2),
    "more records than counted": (framed(WHOLE) * 2, 1),
    "a count beyond 64 bits": (framed(WHOLE), 2**70),
    "an empty body": (b"\0" + WHOLE, 1),
    "a body of 2 GiB": (varint.encode(2**31 - 1) + WHOLE, 1),
    "a timestamp that does not stop": (framed(b"\0" + b"\xff" * 10 + b"\1" + WHOLE[2:]), 1),
    "an offset delta that does not stop": (framed(b"\0\0" + b"\xff" * 5 + b"\1" + WHOLE[3:]), 1),
    "a key longer than the record": (framed(b"\0\0\0" + varint.encode(100) + b"k" * 9) + framed(WHOLE) * 20, 21),
    "a negative header count": (framed(WHOLE[:-1] + varint.encode(-1)), 1),
    "more headers than bytes": (framed(WHOLE[:-1] + varint.encode(2**31 - 1) + b"\0" * 8), 1),
    "a header name of null": (framed(WHOLE[:-1] + varint.encode(1) + b"\1\1"), 1),
    "bytes left over in a record": (framed(WHOLE + b"\0"), 1),
    "bytes left over behind the records": (framed(WHOLE) + b"\0", 1),
}


@pytest.mark.parametrize(("payload", "count"), MALFORMED.values(), ids=MALFORMED)
def test_a_payload_that_is_none_is_refused_in_the_words_of_the_codec(
    module: ModuleType, payload: bytes, count: int
) -> None:
    with pytest.raises(MalformedBatch) as said:
        (native_codec if module is native_record_json else reference_codec).measure(payload, count)
    for question in (module.join_json, module.measure_json):
        with pytest.raises(MalformedBatch) as answer:
            question(payload, count, **FRAME)
        assert answer.value.reason == said.value.reason


def test_any_negative_size_reads_as_null(module: ModuleType) -> None:
    body = b"\0\0\0" + varint.encode(-7) + varint.encode(-(2**31)) + varint.encode(1) + b"\2h" + varint.encode(-2)
    shown = json.loads(module.join_json(framed(body), 1, **FRAME))
    assert (shown["key"], shown["value"], shown["headers"]) == (None, None, [{"key": "h", "value": None}])


def test_a_batch_that_counts_no_records_shows_none(module: ModuleType) -> None:
    assert module.join_json(b"\xff\xff\xff", 0, **FRAME) == b""
    assert module.measure_json(b"\xff\xff\xff", 0, **FRAME) == 0


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, lambda data: memoryview(b"xx" + data)[2:]])
def test_any_buffer_is_read(module: ModuleType, wrap: Callable[[bytes], Buffer]) -> None:
    payload = codec.encode([(b"k", b"v", (("h", b"x"),), 0)], 0, 0)
    assert json.loads(module.join_json(wrap(payload), 1, **FRAME))["headers"] == [{"key": "h", "value": "x"}]


def test_other_threads_run_while_lines_are_made() -> None:
    payload = codec.encode([(b"k" * 9, b"v" * 100, (), 0)] * 30_000, 0, 0)
    interval, is_inside, is_done, was_seen_inside = sys.getswitchinterval(), False, False, False

    def call() -> None:
        nonlocal is_inside, is_done
        for _ in range(10):
            is_inside = True
            native_record_json.join_json(payload, 30_000, **FRAME)
            native_record_json.measure_json(payload, 30_000, **FRAME)
            is_inside = False
        is_done = True

    sys.setswitchinterval(3600)  # a thread then runs until it gives the interpreter lock away by itself
    try:
        thread = threading.Thread(target=call)
        thread.start()
        while not is_done:
            was_seen_inside |= is_inside
            time.sleep(0)  # not to wait: to give the lock away
        thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert was_seen_inside


# --- batches -------------------------------------------------------------------------------------------------------


def golden_batches() -> Iterator[Batch]:
    for path in sorted(GOLDEN.rglob("*.log")):
        with files.open_file(str(path)) as log:
            yield from batch_chain.batches(log, 0, log.size(), on_damage=lambda error, position: None)


def test_every_golden_batch_is_shown_as_what_its_records_are() -> None:
    magics, count = set(), 0
    for batch in golden_batches():
        records = batch.records()
        lines = bytes(joined_json(batch, PREFIX))
        assert [json.loads(line) for line in lines.split(b"\n")[:-1]] == [object_of(record) for record in records]
        assert lines == record_json.lines_of(records, PREFIX)
        assert measured_json(batch, PREFIX) == len(lines)
        magics.add(batch.header.magic)
        count += len(records)
    assert magics == {0, 1, 2} and count > 5000


def test_a_batch_shows_a_range_of_its_records() -> None:
    batches = [batch for batch in golden_batches() if len(batch.records()) > 2]
    for batch in {batch.header.magic: batch for batch in batches}.values():
        first, second, third = [record.offset for record in batch.records()][:3]
        lines = joined_json(batch, PREFIX, offset_from=second, offset_to=third)
        assert [json.loads(line)["offset"] for line in lines.splitlines()] == [second] != [first]
        assert measured_json(batch, PREFIX, offset_from=second, offset_to=third) == len(lines)


def test_a_batch_of_append_time_shows_it() -> None:
    data = build([(None, b"v", (), 5), (None, b"w", (), 6)], base_offset=3)
    set_append_time(data, 99)
    shown = [json.loads(line) for line in joined_json(read_batch(data), PREFIX).splitlines()]
    assert [(each["timestamp"], each["timestamp_type"]) for each in shown] == [(99, "LogAppendTime")] * 2


@pytest.mark.parametrize("question", [joined_json, measured_json])
def test_a_batch_that_is_malformed_states_where(question: Callable[..., object]) -> None:
    data = build([(None, b"v", (), 5)], base_offset=3)
    data[60] = 7
    batch = read_batch(data, path="x.log", file_position=12, check=False)
    with pytest.raises(MalformedBatch) as error:
        question(batch, PREFIX)
    assert (error.value.path, error.value.position, error.value.offset) == ("x.log", 12, 3)


# --- round trips ---------------------------------------------------------------------------------------------------

TEXT = st.text(st.characters(codec="utf-8"), max_size=20).map(str.encode)
ODD = st.lists(st.sampled_from([b'"', b"\\", b"\n", b"\0", b"\x1f", b"\xff", b"\xc3\xa9", "😀".encode(), b"abcdefgh"]))
DATA = st.none() | st.binary(max_size=40) | TEXT | ODD.map(b"".join)
NAME = st.text(max_size=8) | st.binary(max_size=8).map(lambda name: name.decode("utf-8", "surrogateescape"))
HEADERS = st.lists(st.tuples(NAME.filter(lambda name: is_storable(name)), DATA), max_size=3)
RECORDS = st.lists(st.tuples(DATA, DATA, HEADERS, st.integers(-1, 2**62)), min_size=1, max_size=12)


def is_storable(name: str) -> bool:
    try:
        name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(RECORDS, st.integers(0, 2**62), st.sampled_from([None, -1, TIME]))
def test_lines_have_all_fields_and_make_the_same_records(
    records: list[EncodableRecord], base_offset: int, append_time: int | None
) -> None:
    data = build(records, base_offset=base_offset)
    if append_time is not None:
        set_append_time(data, append_time)
    batch = read_batch(data)
    lines = bytes(joined_json(batch, PREFIX))
    assert_shown(batch.records(), lines)
    assert measured_json(batch, PREFIX) == len(lines)
    builder = BatchBuilder(1 << 20)
    assert builder.split_json(lines, 0, len(lines), 7).start == len(lines)
    again = read_batch(builder.seal().data).records()
    assert [as_appended(record) for record in again] == [as_appended(record) for record in batch.records()]


def assert_shown(records: list[Record], lines: bytes) -> None:
    assert [json.loads(line) for line in lines.split(b"\n")[:-1]] == [object_of(record) for record in records]
    lines.decode()
    for record, line in zip(records, lines.split(b"\n"), strict=False):
        parsed = json_line.parse(line)
        assert parsed == (record.key, record.value, list(record.headers), record.timestamp, None)


def as_appended(record: Record) -> EncodableRecord:
    return record.key, record.value, record.headers, record.timestamp
