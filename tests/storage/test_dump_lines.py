"""Record lines of a dump: both twins write the same, and bytes become the text that Java makes of them."""

import os
from array import array
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetfs.storage.cluster.java_text import printed
from offsetfs.storage.dump import _dump, dump_pure
from offsetfs.storage.dump import lines as dump_lines
from offsetfs.storage.dump.dump_pure import LineStyle
from offsetfs.storage.records import codec

pytestmark = pytest.mark.unit

# Bytes that decide how a decoder goes on: the ends of each range of lead and continuation bytes.
EDGES = bytes.fromhex("41 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f3 f4 f5 f7 f8 ff")
edgy = st.lists(st.sampled_from(EDGES), max_size=12).map(bytes)
texts = st.one_of(edgy, st.binary(max_size=80), st.text(max_size=40).map(str.encode))
names = st.one_of(st.text(max_size=8), edgy.map(lambda data: data.decode("utf-8", "surrogateescape")))
headers = st.lists(st.tuples(names, st.none() | st.binary(max_size=4)), max_size=3)
timestamps = st.integers(-1, 2**41) | st.sampled_from([-1, 0, 2**63 - 1])
records = st.lists(st.tuples(st.none() | texts, st.none() | texts, headers, timestamps), min_size=1, max_size=8)
longs = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)
styles = st.builds(
    LineStyle,
    base_offset=longs,
    base_timestamp=longs,
    append_time=st.none() | longs,
    timestamp_label=st.sampled_from([b"CreateTime", b"LogAppendTime"]),
    base_sequence=st.sampled_from([-(2**31), -1, 0, 7, 2**31 - 3, 2**31 - 1]),
    metadata=st.booleans(),
    data=st.booleans(),
    offset_min=st.just(-(2**63)) | longs,
    offset_end=st.just(2**63 - 1) | longs,
)


def payload_of(given_records: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]]) -> bytes:
    base = given_records[0][3]
    if any(not -(2**63) <= record[3] - base < 2**63 for record in given_records):
        base = 0
    return codec.encode(given_records, base, 0)


@pytest.mark.twins
@given(records, styles, st.integers(0, 3000), st.integers(0, 40))
def test_both_twins_write_the_same_lines_and_stop_at_the_same_record(
    some_records: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]],
    style: LineStyle,
    size: int,
    used: int,
) -> None:
    payload = payload_of(some_records)
    rows = codec.scan(payload, len(some_records))
    results = []
    for twin in (dump_pure, _dump):
        target = bytearray(size + used)
        done, end = twin.format_records(payload, rows, 0, style, target, used)
        results.append((done, bytes(target[used:end])))
    assert results[0] == results[1]


@pytest.mark.twins
@given(st.lists(st.integers(-(2**31), 2**31 - 1) | st.integers(0, 3), max_size=20), longs, longs)
def test_both_twins_find_the_same_gaps(deltas: list[int], base_offset: int, last_offset: int) -> None:
    rows = array("q", [number for delta in deltas for number in (delta, *[0] * (codec.COLUMNS - 1))])
    gaps = array("q"), array("q")
    assert dump_pure.follow(rows, base_offset, last_offset, gaps[0]) == _dump.follow(
        rows, base_offset, last_offset, gaps[1]
    )
    assert gaps[0] == gaps[1]


def test_a_gap_is_named_by_the_offsets_around_it() -> None:
    rows = array("q", [number for delta in (0, 1, 5, 6) for number in (delta, *[0] * (codec.COLUMNS - 1))])
    gaps = array("q")
    assert dump_lines.follow(rows, 100, 97, gaps) == 106
    assert list(gaps) == [97, 100, 101, 105]


def test_nothing_is_missing_before_the_first_record() -> None:
    gaps = array("q")
    assert dump_lines.follow(array("q", [0] * codec.COLUMNS), 100, dump_pure.NO_OFFSET, gaps) == 100
    assert not gaps


def test_the_compiled_twin_is_used_unless_the_plain_one_is_asked_for() -> None:
    assert dump_lines.IS_COMPILED is (os.environ.get("OFFSETFS_PURE") != "1")


@pytest.mark.parametrize("twin", [dump_pure, _dump], ids=["plain", "compiled"])
@pytest.mark.parametrize(
    ("column", "value"), [(2, 10**6), (3, 10**6), (4, -1), (5, 10**6), (6, -1), (6, 10**6)], ids=str
)
def test_rows_of_another_payload_are_refused(twin: ModuleType, column: int, value: int) -> None:
    payload = codec.encode([(b"k", b"v", (), 0)], 0, 0)
    rows = codec.scan(payload, 1)
    rows[column] = value
    style = LineStyle(0, 0, None, b"CreateTime", -1, metadata=True, data=True)
    with pytest.raises(ValueError, match="another payload"):
        twin.format_records(payload, rows, 0, style, bytearray(1 << 20), 0)


def lines_of(some_records: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]]) -> str:
    written = bytearray()
    buffer = dump_lines.LineBuffer(written.extend, size=64)
    payload = codec.encode(some_records, 1000, 0)
    style = LineStyle(7, 1000, None, b"CreateTime", 3, metadata=True, data=True)
    buffer.records(payload, codec.scan(payload, len(some_records)), style)
    buffer.flush()
    return written.decode()


def test_a_line_says_everything_about_a_record() -> None:
    headers = (("a", b"1"), ("b", None))
    assert lines_of([(b"k1", b"hello", headers, 1000), (None, None, (), 1001), (b"", b"", (), -1)]) == (
        "| offset: 7 CreateTime: 1000 keySize: 2 valueSize: 5 sequence: 3 headerKeys: [a,b] key: k1 payload: hello\n"
        "| offset: 8 CreateTime: 1001 keySize: -1 valueSize: -1 sequence: 4 headerKeys: []\n"
        "| offset: 9 CreateTime: -1 keySize: 0 valueSize: 0 sequence: 5 headerKeys: [] key:  payload: \n"
    )


def test_a_line_longer_than_the_buffer_makes_it_grow() -> None:
    value = b"x" * 100_000
    assert lines_of([(None, value, (), 1000), (None, b"y", (), 1000)]).count("x") == len(value)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain", "plain"),
        ("ζήτα 数据 🙂".encode(), "ζήτα 数据 🙂"),
        (b"a\xffb", "a�b"),
        (b"\x80\xbf", "��"),
        (b"\xc3", "�"),
        (b"\xc3A", "�A"),
        (b"\xc0\xaf", "��"),
        (b"\xed\xa0\x80", "�"),  # a surrogate is one, for Java
        (b"\xed\xa0", "�"),
        (b"\xe2\x82", "�"),
        (b"\xe2\x82A", "�A"),
        (b"\xe2AB", "�AB"),
        (b"\xe0\x80\x80", "���"),
        (b"\xf0\x9f\x99", "�"),
        (b"\xf0\x9fA", "�A"),
        (b"\xf0\x9f\x99A", "�A"),
        (b"\xf0\x8f\xbf\xbf", "����"),
        (b"\xf4\x90\x80\x80", "����"),
        (b"\xf5\x80\x80\x80", "����"),
        (b"\xf8\x88\x80\x80\x80", "�����"),
    ],
)
def test_bytes_that_are_no_text_become_what_java_prints(data: bytes, text: str) -> None:
    assert printed(data).decode() == text
