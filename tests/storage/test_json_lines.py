"""Lines of JSON into a batch: what a line may be, and the error of a wrong one."""

from __future__ import annotations

import base64
import json
import sys
import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

import pytest
from fixtures.logs.random_json_lines import ANY, LINE, PIECES, STYLE, Style, mutated_lines, written
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from offsetfs.storage.native import json_lines as native_json_lines
from offsetfs.storage.records.compression.compression import Buffer, Compression
from offsetfs.storage.records.format import codec
from offsetfs.storage.records.format.batch import read_batch
from offsetfs.storage.records.format.batch_builder import BatchBuilder, record_size
from offsetfs.storage.records.format.batch_cursor import BatchCursor
from offsetfs.storage.records.format.batch_header import HEADER_SIZE
from offsetfs.storage.records.format.record import Header
from offsetfs.storage.records.json import json_line
from offsetfs.storage.records.json.json_line import LineFault, WrongLine
from offsetfs.storage.reference import json_lines as reference_json_lines
from offsetfs.storage.reference.codec import EncodableRecord
from offsetfs.storage.reference.json_lines import JsonRules, JsonSplit

pytestmark = pytest.mark.unit

NOW = 1795253676123


@pytest.fixture(params=[native_json_lines, reference_json_lines], ids=["compiled", "plain"])
def module(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


def taken(module: ModuleType, data: bytes, **more: Any) -> tuple[JsonSplit, list[EncodableRecord]]:
    """What `split_json` says of all of `data`, and the records it makes: key, value, headers, timestamp."""
    target = bytearray(len(data) + 100)
    cursor = BatchCursor(target, 0, 0, more.pop("base_timestamp", None))
    count_max = more.pop("count_max", 1000)
    split = module.split_json(data, 0, len(data), cursor, JsonRules(**{"now_ms": NOW, **more}), count_max)
    records = codec.decode(target[: split.position], split.offset_delta)
    assert not any(target[split.position :])
    assert [record[0] for record in records] == list(range(len(records)))
    base = split.base_timestamp or 0
    return split, [(key, value, headers, base + delta) for _, delta, key, value, headers in records]


def record_of(module: ModuleType, line: bytes, **more: Any) -> EncodableRecord:
    split, records = taken(module, line + b"\n", **more)
    assert (split.fault, split.start, len(records)) == (None, len(line) + 1, 1)
    return records[0]


# --- lines that are right ------------------------------------------------------------------------------------------

RIGHT = {
    "a line of records.ndjson": (
        b'{"topic":"orders","partition":0,"offset":42,"timestamp":5,"timestamp_type":"CreateTime",'
        b'"key":"k","value":"v","headers":[{"key":"h","value":"x"}]}',
        (b"k", b"v", (("h", b"x"),), 5),
    ),
    "nothing": (b"{}", (None, None, (), NOW)),
    "nulls": (b'{"key":null,"value":null,"headers":null,"timestamp":null}', (None, None, (), NOW)),
    "null under a name of base64": (b'{"key_b64":null,"value_b64":null}', (None, None, (), NOW)),
    "empty strings": (b'{"key":"","value_b64":"","headers":[{"key":""}]}', (b"", b"", (("", None),), NOW)),
    "any order": (b'{"timestamp":7,"headers":[],"value":"v","key":"k"}', (b"k", b"v", (), 7)),
    "blanks everywhere": (
        b' \t{ "key" :\t"k" ,\r"headers" : [ { "key" : "h" } , { "value" : null , "key" : "i" } ] } \r',
        (b"k", None, (("h", None), ("i", None)), NOW),
    ),
    "a carriage return at the end": (b'{"value":"v"}\r', (None, b"v", (), NOW)),
    "base64": (
        b'{"key_b64":"/w==","value_b64":"+/8=","headers":[{"key_b64":"/v8B","value_b64":"AA=="}]}',
        (b"\xff", b"\xfb\xff", (("\udcfe\udcff\x01", b"\0"),), NOW),
    ),
    "base64 with escapes": (b'{"value_b64":"\\u0041\\/8\\u003d"}', (None, b"\x03\xff", (), NOW)),
    "escapes": (
        b'{"value":"\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\u00e9\\u20AC"}',
        (None, '"\\/\b\f\n\r\t\0é€'.encode(), (), NOW),
    ),
    "a pair": (b'{"value":"\\ud83d\\uDE00"}', (None, "😀".encode(), (), NOW)),
    "the last character": (b'{"value":"\\udbff\\udfff"}', (None, "\U0010ffff".encode(), (), NOW)),
    "UTF-8": ('{"value":"é€😀\x7f\u2028"}'.encode(), (None, "é€😀\x7f\u2028".encode(), (), NOW)),
    "names with escapes": (b'{"\\u006bey":"k","v\\u0061lue\\u005fb64":"AA=="}', (b"k", b"\0", (), NOW)),
    "fields that are ignored": (
        b'{"topic":{"b":[1,-0.5e+7,true,false,null,{}]},"offset":"x","partition":[],"timestamp_type":{"key":1},"value":"v"}',
        (None, b"v", (), NOW),
    ),
    "ignored fields that repeat": (b'{"offset":1,"offset":2,"topic":{"a":1,"a":2}}', (None, None, (), NOW)),
    "no timestamp but -1": (b'{"timestamp":-1}', (None, None, (), -1)),
    "a timestamp of -0": (b'{"timestamp":-0}', (None, None, (), 0)),
    "the last timestamp": (b'{"timestamp":9223372036854775807}', (None, None, (), 2**63 - 1)),
    "64 levels": (b'{"topic":' + b"[" * 63 + b"]" * 63 + b"}", (None, None, (), NOW)),
}


@pytest.mark.parametrize(("line", "record"), RIGHT.values(), ids=RIGHT)
def test_a_line_becomes_a_record(module: ModuleType, line: bytes, record: EncodableRecord) -> None:
    assert record_of(module, line) == record
    assert oracle(line) == record


def test_strings_of_each_length_are_taken(module: ModuleType) -> None:
    for size in range(40):
        for piece in ("x", "é", "\\n", "😀", '\\"'):
            text = "y" * size + piece + "z" * (size % 9)
            value = json.loads(f'"{text}"').encode()
            assert record_of(module, f'{{"key":"{text}","value":"{text}"}}'.encode()) == (value, value, (), NOW)


def test_each_byte_of_base64_is_taken(module: ModuleType) -> None:
    for size in range(9):
        for byte in range(256):
            value = bytes([byte]) * size
            line = b'{"value_b64":"%s"}' % base64.b64encode(value)
            assert record_of(module, line)[1] == value


# --- lines that are wrong ------------------------------------------------------------------------------------------

DEEP = b'{"topic":' + b'[{"b":' * 32
WRONG = {
    "no object": (b"[1]", 0, json_line.NOT_AN_OBJECT),
    "a string": (b' "v"', 1, json_line.NOT_AN_OBJECT),
    "a byte order mark": (b"\xef\xbb\xbf{}", 0, json_line.NOT_AN_OBJECT),
    "an object that does not end": (b'{"value":"v"', 12, json_line.UNFINISHED),
    "a string that does not end": (b'{"value":"v', 11, json_line.UNFINISHED),
    "a name without a value": (b'{"value"', 8, json_line.UNFINISHED),
    "a value that does not begin": (b'{"value": ', 10, json_line.UNFINISHED),
    "a timestamp that does not begin": (b'{"timestamp":', 13, json_line.UNFINISHED),
    "headers that do not begin": (b'{"headers":', 11, json_line.UNFINISHED),
    "headers that do not end": (b'{"headers":[', 12, json_line.UNFINISHED),
    "a header that does not end": (b'{"headers":[{"key":', 19, json_line.UNFINISHED),
    "an ignored value that does not begin": (b'{"topic":', 9, json_line.UNFINISHED),
    "an ignored list that does not end": (b'{"topic":[1', 11, json_line.UNFINISHED),
    "a name without quotes": (b"{value:1}", 1, json_line.NO_NAME),
    "a name in single quotes": (b"{'value':1}", 1, json_line.NO_NAME),
    "a comma behind the last field": (b'{"value":"v",}', 13, json_line.NO_NAME),
    "no colon": (b'{"value" "v"}', 9, json_line.NO_COLON),
    "no comma": (b'{"value":"v" "key":"k"}', 13, json_line.NO_COMMA),
    "no comma in a list": (b'{"topic":[1 2]}', 12, json_line.NO_COMMA_IN_LIST),
    "no comma between headers": (b'{"headers":[{"key":""}{"key":""}]}', 22, json_line.NO_COMMA_IN_LIST),
    "a list closed by a brace": (b'{"topic":[1}', 11, json_line.NO_COMMA_IN_LIST),
    "an object closed by a bracket": (b'{"topic":{"b":1]', 15, json_line.NO_COMMA),
    "a second object": (b'{"value":"v"} {}', 14, json_line.SURPLUS),
    "a NUL behind the object": (b"{}\0", 2, json_line.SURPLUS),
    "NaN": (b'{"topic":NaN}', 9, json_line.NO_VALUE),
    "Infinity": (b'{"topic":Infinity}', 9, json_line.NO_VALUE),
    "-Infinity": (b'{"topic":-Infinity}', 9, json_line.NO_NUMBER),
    "half of a literal": (b'{"topic":tru}', 9, json_line.NO_VALUE),
    "a literal that goes on": (b'{"topic":nullx}', 13, json_line.NO_COMMA),
    "a comma behind the last item": (b'{"topic":[1,]}', 12, json_line.NO_VALUE),
    "a comment": (b'{"topic":/**/1}', 9, json_line.NO_VALUE),
    "a number that begins with 0": (b'{"topic":01}', 9, json_line.NO_NUMBER),
    "a number that ends with a point": (b'{"topic":1.}', 9, json_line.NO_NUMBER),
    "a number without an exponent": (b'{"topic":1e+}', 9, json_line.NO_NUMBER),
    "a number of two points": (b'{"topic":1.5.2}', 9, json_line.NO_NUMBER),
    "a number with a plus": (b'{"topic":+1}', 9, json_line.NO_VALUE),
    "a number in hex": (b'{"topic":0x10}', 10, json_line.NO_COMMA),
    "a tab in a string": (b'{"value":"a\tb"}', 11, json_line.RAW_CONTROL),
    "a NUL in a string": (b'{"value":"abcdefgh\0"}', 18, json_line.RAW_CONTROL),
    "an unknown escape": (b'{"value":"\\x41"}', 10, json_line.NO_ESCAPE),
    "an escape of three digits": (b'{"value":"a\\u041"}', 11, json_line.NO_ESCAPE),
    "an escape that is cut": (b'{"value":"\\', 10, json_line.NO_ESCAPE),
    "an escape of four digits that is cut": (b'{"value":"\\u00', 10, json_line.NO_ESCAPE),
    "the first half of a pair": (b'{"value":"\\ud83d"}', 10, json_line.HALF_PAIR),
    "the second half of a pair": (b'{"value":"\\ude00"}', 10, json_line.HALF_PAIR),
    "two first halves": (b'{"value":"\\ud83d\\ud83d"}', 10, json_line.HALF_PAIR),
    "a first half and no digits": (b'{"value":"\\ud83d\\uxxxx"}', 10, json_line.HALF_PAIR),
    "half of a pair in a field that is ignored": (b'{"topic":"\\ud83d"}', 10, json_line.HALF_PAIR),
    "half of a pair in a name": (b'{"\\ud83d":1}', 2, json_line.HALF_PAIR),
    "a byte that is not UTF-8": (b'{"value":"a\xff"}', 11, json_line.NOT_UTF8),
    "a character that is cut": (b'{"value":"\xe2\x82"}', 10, json_line.NOT_UTF8),
    "a character cut by the end of the line": (b'{"value":"\xe2\x82', 10, json_line.NOT_UTF8),
    "half of a pair in UTF-8": (b'{"value":"\xed\xa0\x80"}', 10, json_line.NOT_UTF8),
    "a longer form than needed": (b'{"value":"\xc0\x80"}', 10, json_line.NOT_UTF8),
    "base64 without padding": (b'{"value_b64":"YQ"}', 13, json_line.NOT_BASE64),
    "base64 with too little padding": (b'{"value_b64":"YQ="}', 13, json_line.NOT_BASE64),
    "base64 of padding alone": (b'{"value_b64":"===="}', 13, json_line.NOT_BASE64),
    "base64 that goes on": (b'{"value_b64":"YQ==YQ=="}', 13, json_line.NOT_BASE64),
    "base64 with padding inside": (b'{"value_b64":"Y=Q="}', 13, json_line.NOT_BASE64),
    "base64 for URLs": (b'{"value_b64":"YQ-_"}', 13, json_line.NOT_BASE64),
    "base64 with bits left over": (b'{"value_b64":"YR=="}', 13, json_line.NOT_BASE64),
    "base64 with a blank": (b'{"value_b64":"YQ= "}', 13, json_line.NOT_BASE64),
    "base64 with a character above 7F": ('{"value_b64":"YQé="}'.encode(), 13, json_line.NOT_BASE64),
    "base64 in a header": (b'{"headers":[{"key_b64":"!"}]}', 23, json_line.NOT_BASE64),
    "65 levels": (DEEP + b"}]" * 32 + b"}", 9 + 6 * 31 + 1, json_line.TOO_DEEP),
    "a million levels": (b'{"topic":' + b"[" * 1_000_000, 72, json_line.TOO_DEEP),
    "a key twice": (b'{"key":"a","key":"b"}', 11, json_line.TWICE),
    "a key in both forms": (b'{"key_b64":"YQ==","key":"b"}', 18, json_line.TWICE),
    "a value twice, once with escapes": (b'{"value":1e,"v\\u0061lue":1}', 9, json_line.VALUE_NO_TEXT),
    "a null and a value": (b'{"value":null,"v\\u0061lue":"v"}', 14, json_line.TWICE),
    "headers twice": (b'{"headers":null,"headers":[]}', 16, json_line.TWICE),
    "a timestamp twice": (b'{"timestamp":1, "timestamp":1}', 16, json_line.TWICE),
    "a header's key twice": (b'{"headers":[{"key":"h","key_b64":""}]}', 23, json_line.TWICE),
    "a value that is a number": (b'{"value":5}', 9, json_line.VALUE_NO_TEXT),
    "a value that is an object": (b'{"value": {"a":1}}', 10, json_line.VALUE_NO_TEXT),
    "a key that is true": (b'{"key":true}', 7, json_line.NO_TEXT),
    "a header's value that is a number": (b'{"headers":[{"key":"h","value":1}]}', 31, json_line.NO_TEXT),
    "a timestamp below -1": (b'{"timestamp":-2}', 13, json_line.NO_TIMESTAMP),
    "a timestamp of 64 bits": (b'{"timestamp":9223372036854775808}', 13, json_line.NO_TIMESTAMP),
    "a timestamp of 70 bits": (b'{"timestamp":1180591620717411303424}', 13, json_line.NO_TIMESTAMP),
    "a timestamp with a fraction": (b'{"timestamp":1.0}', 13, json_line.NO_TIMESTAMP),
    "a timestamp with an exponent": (b'{"timestamp":1e3}', 13, json_line.NO_TIMESTAMP),
    "a timestamp that is a string": (b'{"timestamp":"5"}', 13, json_line.NO_TIMESTAMP),
    "a timestamp that is a date": (b'{"timestamp":2026-11-21}', 13, json_line.NO_NUMBER),
    "headers that are an object": (b'{"headers":{"h":"x"}}', 11, json_line.NO_HEADERS),
    "kcat's headers": (b'{"headers":["h","x"]}', 12, json_line.NO_HEADERS),
    "a header that is null": (b'{"headers":[null]}', 12, json_line.NO_HEADERS),
    "a comma behind the last header": (b'{"headers":[{"key":"h"},]}', 24, json_line.NO_HEADERS),
    "a header without a key": (b'{"headers":[{"key":"h"},{"value":"x"}]}', 24, json_line.NO_HEADER_KEY),
    "a header whose key is null": (b'{"headers":[{"key":null}]}', 19, json_line.NO_HEADER_KEY),
}


REMEDY = (
    ": a record has key, value, headers and timestamp; to take whole lines as values write to append, "
    "use --value-is-line (append, spark import), or wrap them: jq -c '{value: tojson}'"
)
OF_A_HEADER = ": a header has key (or key_b64) and value (or value_b64)"


@pytest.mark.parametrize(
    ("line", "position", "names"),
    [
        (b'{"id":1,"name":"x"}', 1, '"id", "name"'),
        (b'{"key":"a","vlue":"b"}', 11, '"vlue"'),
        (b'{"Key":"a","offset":1,"k":[{"x":1}],"value":"v","l":2', 1, '"Key", "k", "l"'),
        (b'{"v\\u0061l":"' + b"x" * 9000 + b'"}', 1, '"val"'),
        (b'{"%s":1}' % (b"n" * 50), 1, '"%s"' % ("n" * 40)),
        (b"{" + b",".join(b'"f%d":1' % n for n in range(9)) + b"}", 1, '"f0", "f1", "f2", "f3", "f4"'),
        (b'{"headers":[{"key":"h","vlue":"x"}]}', 23, '"vlue"'),
    ],
)
def test_fields_that_no_record_has_are_refused_by_their_names(
    module: ModuleType, line: bytes, position: int, names: str
) -> None:
    split = module.split_json(
        line + b"\n", 0, len(line) + 1, BatchCursor(bytearray(9999), 0, 0, None), JsonRules(NOW), 9
    )
    remedy = OF_A_HEADER if b"headers" in line else REMEDY
    assert (split.start, split.fault) == (0, LineFault(position, f"unknown field {names}{remedy}"))


@pytest.mark.parametrize(("line", "position", "reason"), WRONG.values(), ids=WRONG)
def test_a_line_that_is_wrong_states_where_and_why(module: ModuleType, line: bytes, position: int, reason: str) -> None:
    before = b'{"value":"before"}\n\n'
    split, records = taken(module, before + line + b'\n{"value":"behind"}\n')
    assert split.fault == LineFault(position, reason)
    assert (split.start, records) == (len(before), [(None, b"before", (), NOW)])
    assert oracle(line) == "wrong"


def test_each_way_to_be_wrong_is_in_the_table() -> None:
    reasons = {reason for _, _, reason in WRONG.values()} | {json_line.KEY_NEEDED, json_line.OUT_OF_TIME}
    assert reasons == {value for name, value in vars(json_line).items() if name.isupper() and isinstance(value, str)}


def test_a_record_without_a_key_is_refused_where_one_is_needed(module: ModuleType) -> None:
    data = b'{"key":""}\n{"key":"k","value":null}\n{"value":"v"}\n'
    split, records = taken(module, data, needs_key=True)
    assert (split.fault, split.start) == (LineFault(0, json_line.KEY_NEEDED), 36)
    assert [record[0] for record in records] == [b"", b"k"]
    assert len(taken(module, data)[1]) == 3


@pytest.mark.parametrize(("timestamp", "is_taken"), [(4, False), (5, True), (9, True), (10, False), (-1, True)])
def test_a_timestamp_outside_of_what_the_topic_takes_is_refused(
    module: ModuleType, timestamp: int, is_taken: bool
) -> None:
    data = b'{"timestamp":6}\n\n' + b'{"timestamp":%d}\n' % timestamp
    split, records = taken(module, data, now_ms=7, earliest=5, latest=9)
    assert (split.fault is None, len(records)) == (is_taken, 1 + is_taken)
    if not is_taken:
        assert (split.fault, split.start) == (LineFault(0, json_line.OUT_OF_TIME), 17)


def test_one_line_is_parsed_alone() -> None:
    assert json_line.parse(b'{"key":"k"}') == (b"k", None, [], None, None)
    assert json_line.parse(b" \t\r") is None
    with pytest.raises(WrongLine, match="byte 10: nothing but blanks"):
        json_line.parse(b'{"key":""}x')


# --- lines into a batch --------------------------------------------------------------------------------------------


def test_blank_lines_are_stepped_over(module: ModuleType) -> None:
    split, records = taken(module, b'\n \t\r\n{"value":"v"}\n\n\r\n')
    assert (split.start, split.fault, [record[1] for record in records]) == (22, None, [b"v"])


def test_a_line_without_its_newline_stays(module: ModuleType) -> None:
    split, records = taken(module, b'{"value":"a"}\n{"value":"b"}')
    assert (split.start, len(records)) == (14, 1)


def test_what_was_taken_is_summed_up(module: ModuleType) -> None:
    data = b'{"value":"abc","timestamp":7}\n{"timestamp":9}\n{"value":"","timestamp":-1}\n{"value_b64":"/w=="}\n'
    split, records = taken(module, data, now_ms=8)
    assert (split.base_timestamp, split.max_timestamp, split.values_bytes) == (7, 9, 4 + 1 + 1 + 2)
    assert [record[3] for record in records] == [7, 9, -1, 8]


def test_nothing_taken_sums_up_to_nothing(module: ModuleType) -> None:
    assert taken(module, b"\n")[0] == (1, 0, 0, None, -1, 0, 0, None)
    assert module.split_json(b"", 0, 0, BatchCursor(bytearray(3), 2, 5, 77), JsonRules(NOW), 9) == (
        0,
        2,
        5,
        77,
        -1,
        0,
        0,
        None,
    )


def test_records_count_on_from_the_batch_they_join(module: ModuleType) -> None:
    target = bytearray(b"#" * 100)
    split = module.split_json(b'xx{"timestamp":5}\n', 2, 18, BatchCursor(target, 10, 3, 9), JsonRules(NOW), 100)
    assert split == (18, 17, 4, 9, 5, 1, 0, None)
    assert codec.decode(target[10:17], 1) == [(3, -4, None, None, ())]
    assert target[:10] + target[17:] == b"#" * 93


@pytest.mark.parametrize(("base", "timestamp"), [(-1, 2**63 - 1), (2**63 - 1, -1)])
def test_timestamps_that_are_too_far_apart_wrap_around_and_come_back(
    module: ModuleType, base: int, timestamp: int
) -> None:
    target = bytearray(100)
    line = b'{"timestamp":%d}\n' % timestamp
    split = module.split_json(line, 0, len(line), BatchCursor(target, 0, 0, base), JsonRules(NOW), 1)
    delta = codec.decode(target[: split.position], 1)[0][1]
    assert (base + delta + 2**63) % 2**64 - 2**63 == timestamp


def test_it_stops_when_the_next_record_does_not_fit_and_writes_nothing_beyond(module: ModuleType) -> None:
    data = b'{"key":"k","value":"\\u00e9","headers":[{"key":"h","value_b64":"AAA="}]}\n' * 3
    size = record_size(b"k", "é".encode(), (("h", b"\0\0"),))
    for space in range(3 * size + 3):
        target = bytearray(b"#" * (space + 8))
        split = module.split_json(
            data, 0, len(data), BatchCursor(memoryview(target)[:space], 0, 0, None), JsonRules(NOW), 100
        )
        taken_count = min(space // size, 3)
        assert (split.start, split.position, split.offset_delta) == (72 * taken_count, size * taken_count, taken_count)
        assert split.record_bytes == (size if taken_count < 3 else 0)
        assert target[split.position :] == b"#" * (space + 8 - split.position)


def test_it_stops_at_the_count_asked_for_and_at_the_last_offset_delta(module: ModuleType) -> None:
    data = b'{"value":"a"}\n' * 3
    for count_max in (0, 2):
        split, records = taken(module, data, count_max=count_max)
        assert (split.start, len(records)) == (14 * count_max, count_max)
    split = module.split_json(data, 0, len(data), BatchCursor(bytearray(99), 0, 2**31 - 2, 0), JsonRules(NOW), 100)
    assert (split.start, split.offset_delta) == (28, 2**31)


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, lambda data: memoryview(b"xx" + data)[2:]])
def test_lines_of_any_buffer_are_taken(module: ModuleType, wrap: Callable[[bytes], Buffer]) -> None:
    target = bytearray(20)
    cursor = BatchCursor(memoryview(target), 0, 0, None)
    assert module.split_json(wrap(b'{"value":"a"}\n'), 0, 14, cursor, JsonRules(0), 9)[:3] == (14, 8, 1)


OUTSIDE = {
    "a start below 0": (-1, 3, 0, 0, 0),
    "an end beyond the source": (0, 4, 0, 0, 0),
    "an end before the start": (2, 1, 0, 0, 0),
    "a position below 0": (0, 3, -1, 0, 0),
    "a position beyond the target": (0, 3, 11, 0, 0),
    "a negative offset delta": (0, 3, 0, -1, 0),
    "a time below -1": (0, 3, 0, 0, -2),
}


@pytest.mark.parametrize(("start", "end", "position", "delta", "now"), OUTSIDE.values(), ids=OUTSIDE)
def test_what_lies_outside_is_refused(
    module: ModuleType, start: int, end: int, position: int, delta: int, now: int
) -> None:
    with pytest.raises(ValueError):
        module.split_json(b"{}\n", start, end, BatchCursor(bytearray(10), position, delta, None), JsonRules(now), 100)


def test_other_threads_run_while_lines_are_taken() -> None:
    source = b'{"key":"kkkkkkkk","value":"%s"}\n' % (b"x" * 999) * 8000
    target = bytearray(len(source))
    interval, is_inside, is_done, was_seen_inside = sys.getswitchinterval(), False, False, False

    def call() -> None:
        nonlocal is_inside, is_done
        for _ in range(10):
            is_inside = True
            native_json_lines.split_json(
                source, 0, len(source), BatchCursor(target, 0, 0, None), JsonRules(NOW), 1 << 30
            )
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


# --- into the open batch of a writer -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["none", "lz4"])
def test_a_builder_takes_lines_of_json_beside_all_others(name: str) -> None:
    builder = BatchBuilder(1000, Compression(name))
    data = b'{"key":"k","value":"v","timestamp":70}\n{"timestamp":50}\n'
    assert builder.split_json(data, 0, len(data), NOW).start == len(data)
    assert (builder.count, builder.values_bytes, builder.max_timestamp) == (2, 3, 70)
    builder.append(b"a", b"b", (), 60)
    assert builder.split(b"line\n", 0, 5, 80) == 5
    assert builder.split_json(b"{}\n", 0, 3, 90).offset_delta == 5
    sealed = builder.seal()
    records = read_batch(sealed.data).records()
    assert [(record.key, record.value, record.timestamp) for record in records] == [
        (b"k", b"v", 70),
        (None, None, 50),
        (b"a", b"b", 60),
        (None, b"line", 80),
        (None, None, 90),
    ]
    assert (sealed.max_timestamp, read_batch(sealed.data).header.base_timestamp) == (90, 70)
    assert sealed.values_bytes == len(read_batch(sealed.data).joined())


def test_a_builder_keeps_what_came_before_a_wrong_line() -> None:
    builder = BatchBuilder(1000)
    split = builder.split_json(b'{"value":"v"}\n{"value":1}\n', 0, 26, NOW)
    assert (split.start, split.fault) == (14, LineFault(9, json_line.VALUE_NO_TEXT))
    assert (builder.count, builder.values_bytes) == (1, 2)
    assert builder.split_json(b"x\n", 0, 2, NOW).fault == LineFault(0, json_line.NOT_AN_OBJECT)
    assert builder.split_json(b"{}\n", 0, 3, NOW, needs_key=True).fault == LineFault(0, json_line.KEY_NEEDED)
    assert (builder.count, builder.max_timestamp) == (1, NOW)


def test_a_builder_states_how_large_the_record_is_that_does_not_fit() -> None:
    builder = BatchBuilder(HEADER_SIZE + 40)
    line = b'{"key":"%s","value":"%s"}\n' % (b"k" * 10, b"v" * 14)
    size = record_size(b"k" * 10, b"v" * 14)
    split = builder.split_json(line * 2, 0, 2 * len(line), NOW)
    assert (split.start, split.record_bytes, split.fault, builder.count) == (len(line), size, None, 1)
    before = (builder.count, builder.size, builder.values_bytes, builder.max_timestamp)
    assert builder.split_json(line, 0, len(line), NOW + 1).start == 0
    assert (builder.count, builder.size, builder.values_bytes, builder.max_timestamp) == before


def test_blank_lines_alone_leave_a_builder_empty() -> None:
    builder = BatchBuilder(1000)
    assert builder.split_json(b"\n\n", 0, 2, NOW).start == 2
    assert builder.is_empty and builder.max_timestamp == -1


# --- compared with Python's json -------------------------------------------------------------------------------------


def oracle(line: bytes) -> EncodableRecord | str | None:
    """The record of a line as Python's `json` and a page of rules have it; "wrong"; or None for a blank one."""
    try:
        text = line.decode()
        if not text.strip(" \t\r"):
            return None
        return record_by_rules(json.loads(text, object_pairs_hook=Pairs, parse_constant=refuse))
    except (ValueError, RecursionError):
        return "wrong"


class Pairs(list[tuple[str, object]]):
    """The fields of an object, with those that repeat."""


def refuse(what: str) -> NoReturn:
    raise ValueError(what)


def record_by_rules(fields: object) -> EncodableRecord:
    check_strings(fields, 1)
    if not isinstance(fields, Pairs):
        raise ValueError("no object")
    if any(name not in PRINTED for name, _ in fields):
        raise ValueError("an unknown field")
    fields = known(fields, ("key", "key_b64", "value", "value_b64", "headers", "timestamp"))
    timestamp = fields.get("timestamp")
    if timestamp is not None and (type(timestamp) is not int or not -1 <= timestamp < 2**63):
        raise ValueError("a timestamp")
    headers = fields.get("headers")
    if headers is not None and (not isinstance(headers, list) or isinstance(headers, Pairs)):
        raise ValueError("headers")
    return (
        data_of(fields, "key"),
        data_of(fields, "value"),
        tuple(header_by_rules(header) for header in headers or ()),
        NOW if timestamp is None else timestamp,
    )


PRINTED: tuple[str, ...] = ("topic", "partition", "offset", "timestamp", "timestamp_type", "headers")
PRINTED += ("key", "key_b64", "value", "value_b64")


def header_by_rules(header: object) -> Header:
    if not isinstance(header, Pairs):
        raise ValueError("a header")
    if any(name not in ("key", "key_b64", "value", "value_b64") for name, _ in header):
        raise ValueError("an unknown field of a header")
    fields = known(header, ("key", "key_b64", "value", "value_b64"))
    if (key := data_of(fields, "key")) is None:
        raise ValueError("a header without a key")
    return key.decode("utf-8", "surrogateescape"), data_of(fields, "value")


def known(pairs: Pairs, names: tuple[str, ...]) -> dict[str, object]:
    fields = [(name, value) for name, value in pairs if name in names]
    bare = [name.removesuffix("_b64") for name, _ in fields]
    if len(set(bare)) < len(bare):
        raise ValueError("twice")
    return dict(fields)


def data_of(fields: dict[str, object], name: str) -> bytes | None:
    text = fields.get(name, fields.get(f"{name}_b64"))
    if text is not None and not isinstance(text, str):
        raise ValueError("no text")
    if text is None or name in fields:
        return None if text is None else text.encode()
    data = base64.b64decode(text, validate=True)
    if base64.b64encode(data).decode() != text:
        raise ValueError("bits left over")
    return data


def check_strings(value: object, depth: int) -> None:
    """Refuse half pairs, which Python lets pass, and what is nested too deep."""
    if isinstance(value, str):
        value.encode()
    elif isinstance(value, list):
        if depth > json_line.DEPTH_MAX:
            raise ValueError("too deep")
        for item in value:
            for part in item if isinstance(value, Pairs) else (item,):
                check_strings(part, depth + 1)


def assert_taken_as_the_oracle_says(line: bytes) -> None:
    expected = oracle(line)
    outcomes = []
    for module in (native_json_lines, reference_json_lines):
        for values_as_text in (False, True):
            target = bytearray(b"#" * (len(line) + 40))
            rules = JsonRules(NOW, values_as_text=values_as_text)
            split = module.split_json(line + b"\n", 0, len(line) + 1, BatchCursor(target, 0, 0, None), rules, 9)
            outcomes.append((split, target))
    assert outcomes[:2] == outcomes[2:]
    split, target = outcomes[0]
    assert split.fault is not None or outcomes[1] == outcomes[0]
    if expected == "wrong":
        assert (split.fault is not None, split.start, split.position) == (True, 0, 0)
        assert 0 <= split.fault.position <= len(line)
    elif expected is None:
        assert split == (len(line) + 1, 0, 0, None, -1, 0, 0, None)
    else:
        assert split.fault is None
        (_, delta, key, value, headers) = codec.decode(target[: split.position], 1)[0]
        assert (key, value, headers, split.base_timestamp + delta) == expected
        assert (split.start, split.max_timestamp) == (len(line) + 1, expected[3])
        assert split.values_bytes == len(value or b"") + 1


@pytest.mark.long
@pytest.mark.reference
@settings(max_examples=400, deadline=None)
@given(LINE)
def test_what_json_writes_is_taken_as_json_reads_it(line: bytes) -> None:
    assert_taken_as_the_oracle_says(line)


@pytest.mark.long
@pytest.mark.reference
@settings(max_examples=300, deadline=None)
@given(ANY, STYLE)
def test_a_value_that_is_no_string_is_its_text_where_that_is_wanted(value: object, style: Style) -> None:
    text = written([("value", value)], style)
    assume(b"NaN" not in text and b"Infinity" not in text)  # no JSON, but Python writes it
    for module in (native_json_lines, reference_json_lines):
        (split, records) = taken(module, text + b"\n", values_as_text=True)
        assert split.fault is None
        if value is None or isinstance(value, str):
            assert records[0][1] == (None if value is None else value.encode())
        else:
            assert text[text.index(b":") + 1 : -1].strip(b" \t\r") == records[0][1]
            refused, _ = taken(module, text + b"\n")
            assert refused.fault is not None and refused.fault.reason == json_line.VALUE_NO_TEXT


@pytest.mark.parametrize(
    ("line", "position", "reason"),
    [
        (b'{"value":', 9, json_line.UNFINISHED),
        (b'{"value":[1', 11, json_line.UNFINISHED),
        (b'{"value":1e}', 9, json_line.NO_NUMBER),
        (b'{"value":NaN}', 9, json_line.NO_VALUE),
        (b'{"value":{"a":"\xff"}}', 15, json_line.NOT_UTF8),
        (b'{"value":' + b"[" * 99, 72, json_line.TOO_DEEP),
        (b'{"value_b64":1}', 13, json_line.NO_TEXT),
        (b'{"key":1}', 7, json_line.NO_TEXT),
        (b'{"headers":[{"key":"h","value":1}]}', 31, json_line.NO_TEXT),
    ],
)
def test_a_value_as_text_must_be_json_and_keys_and_headers_are_strings(
    module: ModuleType, line: bytes, position: int, reason: str
) -> None:
    split, records = taken(module, line + b"\n", values_as_text=True)
    assert (split.fault, records) == (LineFault(position, reason), [])


@pytest.mark.long
@pytest.mark.reference
@settings(max_examples=800, deadline=None)
@given(mutated_lines())
def test_what_is_hardly_json_is_taken_or_refused_as_json_does(line: bytes) -> None:
    assert_taken_as_the_oracle_says(line)


@pytest.mark.long
@pytest.mark.reference
@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join))
def test_what_only_looks_like_json_is_taken_or_refused_as_json_does(line: bytes) -> None:
    assert_taken_as_the_oracle_says(line)
    assert_taken_as_the_oracle_says(b'{"value":"' + line)
    assert_taken_as_the_oracle_says(b'{"topic":' + line + b"}")
