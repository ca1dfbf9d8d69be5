"""Varints: the table of Kafka's ByteUtilsTest, the edges of 32 and 64 bits, and what is no varint."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.records.format import varint

pytestmark = pytest.mark.unit

INTS = {
    0: "00",
    -1: "01",
    1: "02",
    63: "7e",
    -64: "7f",
    64: "8001",
    -65: "8101",
    8191: "fe7f",
    -8192: "ff7f",
    8192: "808001",
    -8193: "818001",
    1048575: "feff7f",
    -1048576: "ffff7f",
    1048576: "80808001",
    134217727: "feffff7f",
    -134217728: "ffffff7f",
    134217728: "8080808001",
    2**31 - 1: "feffffff0f",
    -(2**31): "ffffffff0f",
}
LONGS = {
    2**31: "8080808010",
    17179869183: "feffffff7f",
    17179869184: "808080808001",
    2**63 - 1: "feffffffffffffffff01",
    -(2**63): "ffffffffffffffffff01",
}


@pytest.mark.parametrize(("value", "encoded"), INTS.items())
def test_a_varint_has_the_bytes_that_kafka_writes(value: int, encoded: str) -> None:
    assert varint.encode(value).hex() == encoded
    assert varint.decode(bytes.fromhex(encoded), 0, len(encoded) // 2) == (value, len(encoded) // 2)


@pytest.mark.parametrize(("value", "encoded"), [*INTS.items(), *LONGS.items()])
def test_a_varlong_has_the_bytes_that_kafka_writes(value: int, encoded: str) -> None:
    assert varint.encode_long(value).hex() == encoded
    assert varint.decode_long(bytes.fromhex(encoded), 0, len(encoded) // 2) == (value, len(encoded) // 2)
    assert varint.size(value) == len(encoded) // 2


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1])
def test_a_varint_refuses_more_than_32_bits(value: int) -> None:
    with pytest.raises(ValueError, match="32 bits"):
        varint.encode(value)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_a_varlong_refuses_more_than_64_bits(value: int) -> None:
    with pytest.raises(ValueError, match="64 bits"):
        varint.encode_long(value)


@pytest.mark.parametrize("encoded", ["", "80", "ffff", "80808080", "8080808080", "ffffffffff01"])
def test_bytes_that_are_no_varint_are_refused(encoded: str) -> None:
    with pytest.raises(MalformedBatch):
        varint.decode(bytes.fromhex(encoded), 0, len(encoded) // 2)


@pytest.mark.parametrize("encoded", ["", "80", "80" * 9, "80" * 10, "ff" * 10 + "01"])
def test_bytes_that_are_no_varlong_are_refused(encoded: str) -> None:
    with pytest.raises(MalformedBatch):
        varint.decode_long(bytes.fromhex(encoded), 0, len(encoded) // 2)


def test_surplus_bits_of_the_last_byte_are_dropped_as_in_java() -> None:
    assert varint.decode(bytes.fromhex("ffffffff7f"), 0, 5) == (-(2**31), 5)
    assert varint.decode_long(bytes.fromhex("ff" * 9 + "7f"), 0, 10) == (-(2**63), 10)


def test_nothing_is_read_at_or_beyond_the_end() -> None:
    with pytest.raises(MalformedBatch, match="runs over the end"):
        varint.decode(b"\x80\x01", 0, 1)
    assert varint.decode(b"\xff\x80\x01", 1, 3) == (64, 3)


@settings(max_examples=200, deadline=None)
@given(st.integers(-(2**63), 2**63 - 1))
def test_every_long_round_trips_with_the_computed_size(value: int) -> None:
    encoded = varint.encode_long(value)
    assert varint.decode_long(encoded, 0, len(encoded)) == (value, len(encoded))
    assert len(encoded) == varint.size(value)
