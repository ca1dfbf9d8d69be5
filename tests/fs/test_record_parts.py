"""What `<offset>.headers` says of a header, whatever bytes it is made of."""

from __future__ import annotations

import base64
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetfs.fs.caches import RecordContent
from offsetfs.fs.files.record_parts import header_lines
from offsetfs.storage.records.format.batch import build, read_batch
from offsetfs.storage.records.format.record import Header

pytestmark = pytest.mark.unit


def lines_of(*headers: Header) -> bytes:
    batch = read_batch(build([(None, b"", headers, 0)]))
    return header_lines(RecordContent(b"", 0, batch.records()[0], batch.header, 0))


@pytest.mark.parametrize(
    ("header", "line"),
    [
        (("source", b"web"), b"source: web"),
        (("source", b""), b"source: "),
        (("source", None), b"source"),
        (("", b"no name"), b": no name"),
        (("name", "für".encode()), "name: für".encode()),
        (("tab", b"a\tb"), b"tab: a\tb"),
        (("two lines", b"a\nb"), b"two lines:: YQpi"),
        (("return", b"a\r"), b"return:: YQ0="),
        (("binary", b"\xff\x00"), b"binary:: /wA="),
        (("a: b", b"c"), b"a%3A b: c"),
        (("100%", b"c"), b"100%25: c"),
        (("a\nb", None), b"a%0Ab"),
        (("\udcff", b"c"), b"%FF: c"),
    ],
)
def test_a_header_is_a_line(header: Header, line: bytes) -> None:
    assert lines_of(header) == line + b"\n"


def test_headers_keep_their_order_and_may_repeat() -> None:
    assert lines_of(("b", b"1"), ("a", b"2"), ("b", b"3")) == b"b: 1\na: 2\nb: 3\n"
    assert lines_of() == b""


NAMES = st.binary(max_size=9).map(lambda data: data.decode("utf-8", "surrogateescape"))


@given(st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=9)), max_size=5))
def test_any_headers_can_be_read_back(headers: list[Header]) -> None:
    found = []
    for line in lines_of(*headers).split(b"\n")[:-1]:
        name, colon, value = line.partition(b":")
        is_base64 = value.startswith(b": ")
        decoded = base64.b64decode(value[2:]) if is_base64 else value[1:]
        found.append((unquote_to_bytes(name).decode("utf-8", "surrogateescape"), decoded if colon else None))
    assert found == headers
