"""JSON into values of Protobuf: Google's library reads them as the values from which the JSON was made."""

from __future__ import annotations

import base64
import json
import struct
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from fixtures.logs.random_protobuf import Messages, message_class, messages, proto_text
from fixtures.logs.schema_records import schema_record, write_schemas
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given, settings
from schemas.test_protobuf_decoding import ORDER, described, field, message_of

from offsetfs.schemas.catalog import SchemaCatalog
from offsetfs.schemas.column_json import JsonColumns
from offsetfs.schemas.decoding import DirectorySchemas
from offsetfs.schemas.encoding import LineEncoder
from offsetfs.schemas.given_values import DoesNotFit, read_json
from offsetfs.schemas.json_texts import JsonTexts
from offsetfs.schemas.protobuf_arrow import ProtobufDecoder
from offsetfs.schemas.protobuf_encoding import ProtobufEncoder
from offsetfs.schemas.protobuf_schema import MessageType, parsed
from offsetfs.schemas.schema_files import FileSchema
from offsetfs.storage import LogDirectory

pytestmark = pytest.mark.unit


def shown(kind: MessageType, values: list[bytes], *, is_base64: bool = False) -> list[bytes]:
    """Return values as `decoded/` shows them."""
    rows = array("i", range(len(values)))
    column, faults = ProtobufDecoder(kind, kind).decode(
        pa.array(values, pa.binary()), rows, array("i", [0] * len(values))
    )
    assert not faults
    columns = JsonColumns(is_base64)
    columns.add(column)
    return [text.as_py() for text in columns.texts()]


def known(message: Message) -> bool:
    """Return whether a message has no unknown field, such as a number that a closed enum lacks."""
    if len(UnknownFieldSet(message)):
        return False
    inner: list[Any] = []
    for each, value in message.ListFields():
        if each.message_type is not None:
            is_map = each.message_type.GetOptions().map_entry
            inner += value.values() if is_map else [value] if hasattr(value, "DESCRIPTOR") else value
    return all(known(each) for each in inner if hasattr(each, "DESCRIPTOR"))


@pytest.mark.long
@settings(max_examples=300)
@given(messages())
def test_the_json_of_decoded_values_is_encoded_to_values_that_google_reads_as_the_same(given: Messages) -> None:
    library = message_class(given.writer)
    for kind in (described(given.writer), message_of(proto_text(given.writer))):
        encoder = ProtobufEncoder(kind)
        for is_base64 in (False, True):
            before = shown(kind, list(given.values), is_base64=is_base64)
            values = [encoder.encoded(read_json(line)) for line in before]
            assert shown(kind, values, is_base64=is_base64) == before
            for value, origin in zip(values, given.values, strict=True):
                found, expected = library.FromString(value), library.FromString(origin)
                if known(expected):
                    assert _text(found) == _text(expected)


def _text(message: Message) -> str:
    """Return a message as text: unlike messages, those with NaN are equal."""
    return str(text_format.MessageToString(message))


FULL = {
    "id": -7,
    "customer": "ü",
    "line": {"sku": "a", "pieces": 0},
    "lines": [{"sku": "b"}, {}],
    "notes": {"a": 1, "": -1},
    "cash": {"sku": "c"},
    "at": "2026-12-01T10:30:00.250+01:00",
    "waits": ["PT-1.5S", "3s", "PT0S"],
    "limit": 0,
    "extra": {"k": [1.5, None, "x", {"y": True}], "n": -0.0},
    "any": {"type_url": "t/x", "value_b64": "/w=="},
    "mask": {"paths": ["a.b"]},
    "nothing": {},
    "before": {"id": 2, "before_b64": base64.b64encode(field(1, 3)).decode()},
    "state": "PAID",
}


def test_a_value_of_each_type_is_shown_as_it_was_given() -> None:
    kind = message_of(ORDER)
    (found,) = shown(kind, [ProtobufEncoder(kind).encoded(FULL)])
    expected = {
        **FULL,
        "line": {"sku": "a", "pieces": 0},
        "lines": [{"sku": "b", "pieces": None}, {"sku": "", "pieces": None}],
        "card": None,
        "cash": {"sku": "c", "pieces": None},
        "at": "2026-12-01T09:30:00.250000000Z",
        "waits": ["PT-1.5S", "PT3S", "PT0S"],
        "extra": '{"k":[1.5,null,"x",{"y":true}],"n":0}',
        "nothing": "",
    }
    before = expected.pop("before")
    decoded = json.loads(found)
    assert decoded.pop("before") == (field(1, 2) + field(15, field(1, 3))).decode() and before
    assert decoded == expected


def test_struct_may_be_json_text_and_a_message_within_itself_bytes() -> None:
    encoder = ProtobufEncoder(message_of(ORDER))
    assert encoder.encoded({"extra": '{"k":true}'}) == encoder.encoded({"extra": {"k": True}})
    assert encoder.encoded({"before": "\b\2"}) == encoder.encoded({"before": {"id": 2}}) == field(15, field(1, 2))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([], "[] is not an object"),
        ({"nope": 1}, "nope: the schema has no such field"),
        ({"id": "7"}, "id: '7' is not a whole number"),
        ({"id": 1 << 63}, "id: 9223372036854775808 is out of the range of int64"),
        ({"id": True}, "id: true is not a whole number"),
        ({"customer": 7}, "customer: 7 is not text"),
        ({"customer": "\ud800"}, "customer: half of a surrogate pair is no character"),
        ({"line": {"pieces": 1 << 31}}, "line.pieces: 2147483648 is out of the range of int32"),
        ({"lines": {}}, "lines: {} is not a list"),
        ({"lines": [{}, {"sku": 1}]}, "lines[1].sku: 1 is not text"),
        ({"lines": [None]}, "lines[0]: null is not an object"),
        ({"notes": {"a": "1"}}, "notes.a: '1' is not a whole number"),
        ({"card": "1", "cash": {}}, "cash: card is there, too: of how, one can be"),
        ({"at": "yesterday"}, "at: 'yesterday' is not a time in ISO 8601"),
        ({"at": 7}, "at: 7 is not a time in ISO 8601"),
        ({"waits": ["P1D"]}, "waits[0]: 'P1D' is not a duration, such as PT3.5S"),
        ({"waits": ["PT999999999999S"]}, "waits[0]: 'PT999999999999S' is longer than 10000 years"),
        ({"limit": 1.5}, "limit: 1.5 is not a whole number"),
        ({"extra": "{"}, "extra: '{' is not JSON"),
        ({"extra": "[]"}, "extra: [] is not an object"),
        ({"extra": '{"a":1,"a":2}'}, 'extra: \'{"a":1,"a":2}\' is not JSON'),
        ({"any": {"value_b64": "?"}}, "any.value: is not base64"),
        ({"before": "\b"}, "before: the bytes are no message: it ends within a number"),
        ({"before": {"id": "x"}}, "before.id: 'x' is not a whole number"),
        ({"state": "OLD"}, "state: 'OLD' is not one of NEW, PAID, or a number"),
        ({"state": "4294967296"}, "state: 4294967296 is out of the range of int32"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_path_of_the_field(value: Any, reason: str) -> None:
    with pytest.raises(DoesNotFit) as refused:
        ProtobufEncoder(message_of(ORDER)).encoded(value)
    assert str(refused.value).startswith(reason)


@pytest.mark.parametrize(
    ("kind", "name", "reason"),
    [
        ("int32", "01", "m.01: the key '01' is not a whole number"),
        ("uint64", "-1", "m.-1: -1 is out of the range of uint64"),
        ("bool", "True", "m.True: the key 'True' is not true or false"),
    ],
)
def test_keys_of_maps_are_text_of_their_type(kind: str, name: str, reason: str) -> None:
    encoder = ProtobufEncoder(message_of(f'syntax = "proto3"; message A {{ map<{kind}, string> m = 1; }}'))
    with pytest.raises(DoesNotFit) as refused:
        encoder.encoded({"m": {name: "x"}})
    assert str(refused.value) == reason


@pytest.mark.parametrize("is_text", [True, False], ids=["text", "descriptor"])
def test_a_field_that_proto2_requires_is_missed(is_text: bool) -> None:
    text = 'syntax = "proto2"; message A { required int32 id = 1; optional int32 n = 2; }'
    kind = message_of(text)
    if not is_text:
        file = descriptor_pb2.FileDescriptorProto(name="a.proto")
        file.message_type.add(name="A").field.add(name="id", number=1, label=2, type=5)
        kind = described(file)
    with pytest.raises(DoesNotFit, match=r"^id: is missing, and the schema requires it$"):
        ProtobufEncoder(kind).encoded({})
    assert ProtobufEncoder(kind).encoded({"id": 0}) == b"\x08\0"


def test_numbers_too_large_for_a_double_are_refused() -> None:
    encoder = ProtobufEncoder(message_of('syntax = "proto3"; message A { double d = 1; float f = 2; }'))
    for name, text in (("d", b"1e400"), ("f", b"1e39"), ("f", b"-1e400")):
        with pytest.raises(DoesNotFit, match=rf"^{name}: .* is out of the range of (double|float)$"):
            encoder.encoded(read_json(b'{"%s":%s}' % (name.encode(), text)))
    assert encoder.encoded(read_json(b'{"d":-0,"f":"NaN"}')) == b"\x09" + struct.pack("<d", -0.0) + b"\x15" + bytes(
        struct.pack("<f", float("nan"))
    )


def test_values_of_a_message_within_itself_are_bounded_as_google_bounds_them() -> None:
    encoder = ProtobufEncoder(
        message_of('syntax = "proto3"; message A { repeated B b = 1; message B { repeated B b = 1; } }')
    )
    value: Any = {}
    for _ in range(300):
        value = {"b": [value]}
    with pytest.raises(DoesNotFit, match="messages are nested too deeply"):
        encoder.encoded(value)


# --- lines -----------------------------------------------------------------------------------------------------------

SHOP = """
syntax = "proto3"; package shop;
message Order {
  int64 id = 1; map<string, int32> m = 2;
  message Buyer { string name = 1; message Inner { bool b = 1; } }
}
message Ghost { bytes token = 1; }
"""


@pytest.fixture
def encoder(tmp_path: Path) -> Any:
    write_schemas(tmp_path, [schema_record("orders-value", 1, 3, SHOP, schemaType="PROTOBUF")])
    directory = LogDirectory.open(str(tmp_path), read_only=True)
    file = FileSchema("orders", "PROTOBUF", SHOP, "order.proto")
    schemas = DirectorySchemas(directory, {"plain": file, "9": file})
    schemas.refresh()
    yield lambda topic, line: LineEncoder(schemas, topic).encoded(line)
    directory.close()


Encode = Callable[[str, bytes], Any]


def value_of(line: bytes) -> bytes:
    return base64.b64decode(json.loads(line)["value_b64"])


@pytest.mark.parametrize(
    ("message", "value", "made"),
    [
        ("shop.Order", b'{"id":7}', b"\0\x08\x07"),
        ("shop.Order.Buyer", b'{"name":"z"}', b"\4\0\0\x0a\1z"),
        ("shop.Order.Buyer.Inner", b'{"b":true}', b"\6\0\0\0\x08\1"),
        ("shop.Ghost", b'{"token_b64":"/w=="}', b"\2\2\x0a\1\xff"),
    ],
)
def test_the_path_of_the_message_is_between_the_id_and_the_value(
    encoder: Encode, message: str, value: bytes, made: bytes
) -> None:
    line = b'{"value":%s,"value_schema":{"message":"%s"}}\n' % (value, message.encode())
    assert value_of(encoder("orders", line)) == b"\0\0\0\0\3" + made


def test_confluents_deserializer_reads_what_is_encoded(encoder: Encode) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Order")
    file.message_type.add(name="Ghost").field.add(name="token", number=1, type=12, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    ghost = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Ghost"))
    deserializer = ProtobufDeserializer(ghost, {"use.deprecated.format": False})
    line = encoder("orders", b'{"value":{"token_b64":"/w=="},"value_schema":{"message":"shop.Ghost"}}\n')
    found = deserializer(value_of(line), SerializationContext("orders", MessageField.VALUE))
    assert found == ghost(token=b"\xff")


def test_without_a_message_a_value_is_the_first_of_its_schema(encoder: Encode) -> None:
    assert value_of(encoder("orders", b'{"value":{"id":7}}\n')) == b"\0\0\0\0\3\0\x08\7"
    assert value_of(encoder("plain", b'{"value":{"id":7}}\n')) == b"\x08\7"
    fault = encoder("plain", b'{"value":{},"value_schema":{"message":"shop.Ghost"}}\n')
    assert fault.reason.endswith("without an id, a value is the first message, not shop.Ghost")


def test_the_id_of_a_line_is_in_front_although_a_file_has_the_schema(encoder: Encode) -> None:
    assert value_of(encoder("plain", b'{"value":{"id":7},"value_schema":9}\n')) == b"\0\0\0\0\x09\0\x08\7"


def test_a_value_whose_schema_is_in_a_header_gets_nothing_in_front(encoder: Encode) -> None:
    def line(header: bytes, rest: bytes = b"") -> bytes:
        text = base64.b64encode(b"\0\0\0\0\3" + header)
        return b'{"value":{"token":"t"},"headers":[{"key":"__value_schema_id","value_b64":"%s"}]%s}\n' % (text, rest)

    assert value_of(encoder("orders", line(b"\2\2"))) == b"\x0a\1t"
    assert value_of(encoder("orders", line(b"\2\2", b',"value_schema":{"id":3,"message":"shop.Ghost"}'))) == b"\x0a\1t"
    assert encoder("orders", line(b"")).reason == "token: the schema has no such field"
    assert encoder("orders", line(b"\2\x08")).reason == "orders-value/1: there is no message in the header's path"


def test_lines_name_messages_that_are_not_the_first() -> None:
    file = FileSchema("orders", "PROTOBUF", SHOP, "order.proto")
    values = pa.array([b"\0\0\0\0\3\0\x08\7", b"\0\0\0\0\3\2\2", b"\0\0\0\0\3\4\0\0"], pa.binary())
    decoder = JsonTexts().decoder(file, SchemaCatalog())
    column, faults = decoder.decode(values, array("i", range(3)), 5, None)
    assert not faults
    named = [json.loads(each.as_py()).get("message") for each in column.field("schema")]
    assert named == [None, "shop.Ghost", "shop.Order.Buyer"]


def test_every_message_has_the_path_by_which_it_is_found() -> None:
    for text in (SHOP, SHOP.replace("package shop;", "")):
        schema = parsed(text, lambda name: None)
        for path in ((0,), (0, 0), (0, 0, 0), (1,)):
            message = schema.message(path)
            assert message is not None and schema.path(message.name) == path
        assert schema.path("shop.Orde") is None and schema.path("shop") is None and schema.path("") is None
