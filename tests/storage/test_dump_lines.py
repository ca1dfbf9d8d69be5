"""Record lines of a dump: both implementations write the same, and bytes become the text that Java makes of them."""

from array import array
from types import ModuleType

import pytest
from hypothesis import strategies as st

from offsetfs.kafka.protocol.java_text import printed
from offsetfs.storage.dump import printer as dump_lines
from offsetfs.storage.native import dump as native_dump
from offsetfs.storage.records.format import codec
from offsetfs.storage.reference import dump as reference_dump
from offsetfs.storage.reference.dump import LineStyle

pytestmark = pytest.mark.unit

# Bytes that decide how a decoder goes on: the ends of each range of lead and continuation bytes.
EDGES = bytes.fromhex("41 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f3 f4 f5 f7 f8 ff")
edgy = st.lists(st.sampled_from(EDGES), max_size=12).map(bytes)


def test_a_gap_is_named_by_the_offsets_around_it() -> None:
    rows = array("q", [number for delta in (0, 1, 5, 6) for number in (delta, *[0] * (codec.COLUMNS - 1))])
    gaps = array("q")
    assert dump_lines.follow(rows, 100, 97, gaps) == 106
    assert list(gaps) == [97, 100, 101, 105]


def test_nothing_is_missing_before_the_first_record() -> None:
    gaps = array("q")
    assert dump_lines.follow(array("q", [0] * codec.COLUMNS), 100, reference_dump.NO_OFFSET, gaps) == 100
    assert not gaps


@pytest.mark.parametrize("module", [reference_dump, native_dump], ids=["plain", "compiled"])
@pytest.mark.parametrize(
    ("column", "value"), [(2, 10**6), (3, 10**6), (4, -1), (5, 10**6), (6, -1), (6, 10**6)], ids=str
)
def test_rows_of_another_payload_are_refused(module: ModuleType, column: int, value: int) -> None:
    payload = codec.encode([(b"k", b"v", (), 0)], 0, 0)
    rows = codec.scan(payload, 1)
    rows[column] = value
    style = LineStyle(0, 0, None, b"CreateTime", -1, metadata=True, data=True)
    with pytest.raises(ValueError, match="another payload"):
        module.format_records(payload, rows, 0, style, bytearray(1 << 20), 0)


def lines_of(some_records: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]]) -> str:
    written = bytearray()
    buffer = dump_lines.LineBuffer(written.extend, size=64)
    payload = codec.encode(some_records, 1000, 0)
    style = LineStyle(7, 1000, None, b"CreateTime", 3, metadata=True, data=True)
    buffer.records(payload, codec.scan(payload, len(some_records)), style)
    buffer.flush()
    return written.decode()


def test_a_line_has_everything_of_a_record() -> None:
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
