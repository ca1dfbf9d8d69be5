"""Messages by their schemas: what is in them, and Kafka's words for what is not."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetfs.storage.cluster.kafka_messages import Field, MalformedMessage, Message, json_text, read, unsigned_at
from offsetfs.storage.coordinators import consumer_offsets

pytestmark = pytest.mark.unit

POINT = (Field("x", "int32"), Field("y", "int32"))
PLAIN = Message(
    (
        Field("name", "string"),
        Field("note", "string", nullable=True),
        Field("data", "bytes", since=1),
        Field("points", POINT, many=True),
        Field("old", "bool", until=0),
    ),
    last_version=1,
)
FLEXIBLE = Message(
    (
        Field("id", "uuid"),
        Field("port", "uint16"),
        Field("place", POINT, nullable=True),
        Field("rank", "int8", tag=1, default=-1),
        Field("names", "string", many=True, nullable=True, tag=0, default=None),
    ),
    flexible_since=0,
)


def text(value: str | None) -> bytes:
    return b"\xff\xff" if value is None else struct.pack(">h", len(value)) + value.encode()


def test_fields_of_the_version_are_read_and_no_others() -> None:
    body = text("a") + text(None) + struct.pack(">iii", 1, -3, 4)
    version_0 = {"name": "a", "note": None, "points": [{"x": -3, "y": 4}], "old": True}
    assert read(PLAIN, body + b"\1", 0) == (version_0, len(body) + 1)
    body = text("a") + text("b") + struct.pack(">i2si", 2, b"\0\xff", 0)
    assert read(PLAIN, b"??" + body, 1, 2) == (
        {"name": "a", "note": "b", "data": b"\0\xff", "points": []},
        len(body) + 2,
    )


def test_a_flexible_message_has_short_lengths_and_tags_in_any_place() -> None:
    head = bytes(15) + b"\1" + struct.pack(">H", 65535) + b"\xff"
    tags = b"\3" + b"\1\1\x05" + b"\0\4\3\2a\1" + b"\x4d\2zz"
    assert read(FLEXIBLE, head + tags, 0)[0] == {
        "id": "AAAAAAAAAAAAAAAAAAAAAQ",
        "port": 65535,
        "place": None,
        "rank": 5,
        "names": ["a", ""],
    }


def test_a_tagged_field_that_is_the_default_is_not_shown() -> None:
    head = bytes(16) + b"\0\1" + b"\1" + struct.pack(">ii", 1, 2) + b"\0"
    fields = {"id": "A" * 22, "port": 1, "place": {"x": 1, "y": 2}}
    assert read(FLEXIBLE, head + b"\1\1\1\xff", 0)[0] == fields
    assert read(FLEXIBLE, head + b"\0", 0)[0] == fields


@pytest.mark.parametrize(
    ("message", "data", "reason"),
    [
        (PLAIN, b"", "null"),
        (PLAIN, text(None), "non-nullable field name was serialized as null"),
        (PLAIN, b"\0\5abc", "Error reading byte array of 5 byte(s): only 3 byte(s) available"),
        (
            PLAIN,
            text("") + text("") + struct.pack(">i", 7),
            "Tried to allocate a collection of size 7, but there are only 0 bytes remaining.",
        ),
        (PLAIN, text("") + text("") + struct.pack(">i", -1), "non-nullable field points was serialized as null"),
        (FLEXIBLE, bytes(18) + b"\xff" + b"\xff" * 5, "Varint is too long"),
        (FLEXIBLE, bytes(18) + b"\xff\1\7\xff\xff\xff\xff\x0f", "-1"),
    ],
    ids=["empty", "null name", "cut name", "many points", "null points", "endless count", "negative tag"],
)
def test_unreadable_records_are_printed_with_kafkas_message(message: Message, data: bytes, reason: str) -> None:
    with pytest.raises(MalformedMessage) as caught:
        read(message, data, 0)
    assert str(caught.value).startswith(reason)


@given(st.sampled_from(sorted(consumer_offsets.TYPES)), st.integers(0, 4), st.binary(max_size=60))
def test_whatever_the_bytes_only_one_error_comes(type_id: int, version: int, data: bytes) -> None:
    message = consumer_offsets.TYPES[type_id].value
    try:
        fields, position = read(message, data, version)
    except MalformedMessage:
        return
    assert position <= len(data)
    assert json_text(fields).startswith("{")


def test_an_unsigned_varint_is_a_java_int() -> None:
    assert unsigned_at(b"\xac\x02", 0) == (300, 2)
    assert unsigned_at(b"\xff\xff\xff\xff\x0f", 0) == (-1, 5)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": [1, None, True, False], "b": {}}, '{"a":[1,null,true,false],"b":{}}'),
        ('ü🙂/"\\\b\f\n\r\t\x01\x1f\x7f', '"ü🙂/\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001F\x7f"'),
        (b"\0\xff\xfe", '"AP/+"'),
        (100.0, "100.0"),
        (0.001, "0.001"),
        (-0.0, "-0.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (1.5e-4, "1.5E-4"),
        (-1e300, "-1.0E300"),
        (math.nan, '"NaN"'),
        (-math.inf, '"-Infinity"'),
    ],
    ids=repr,
)
def test_json_is_written_as_jackson_writes_it(value: object, expected: str) -> None:
    assert json_text(value) == expected
