"""Schemas of Protobuf: the text of real `.proto` files beside Google's descriptors, and errors with their line."""

from __future__ import annotations

import base64
import importlib
import json
from array import array
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)

from offsetfs.schemas.formats import InvalidSchema, SchemasDiffer
from offsetfs.schemas.protobuf_arrow import ProtobufDecoder, protobuf_members
from offsetfs.schemas.protobuf_builtin import BUILTIN
from offsetfs.schemas.protobuf_declarations import FileDeclaration, MessageDeclaration
from offsetfs.schemas.protobuf_descriptors import parsed_descriptors
from offsetfs.schemas.protobuf_format import ProtobufReader, ProtobufValueDecoder, path_of
from offsetfs.schemas.protobuf_schema import MessageType, ProtoSchema, parsed
from offsetfs.schemas.protobuf_text import parsed_text

pytestmark = pytest.mark.unit

GOOGLE = Path(importlib.import_module("google.type").__path__[0]).parent
FILES = sorted(str(path.relative_to(GOOGLE.parent)) for path in GOOGLE.rglob("*.proto"))
WELL_KNOWN = (
    any_pb2, duration_pb2, empty_pb2, field_mask_pb2, source_context_pb2, struct_pb2, timestamp_pb2, wrappers_pb2,
)  # fmt: skip
FOLDER = Path(__file__).parents[1] / "golden" / "schemas"
SHOP = base64.b64decode("CgtvcmRlci5wcm90bxIEc2hvcCIoCgVPcmRlchIKCgJpZBgBIAEoAxoTCgRMaW5lEgsKA3NrdRgBIAEoCWIGcHJvdG8z")


def schema_of(text: str, **imports: str) -> ProtoSchema:
    return parsed(text, imports.get)


def message_of(text: str) -> MessageType:
    found = schema_of(text).message((0,))
    assert found is not None
    return found


def form(messages: list[MessageDeclaration]) -> list[Any]:
    """Return messages as they can be compared: names of types without their scope."""
    return [
        (
            message.name,
            message.is_map_entry,
            [(each.name, each.values) for each in message.enums],
            [
                (each.name, each.number, each.type.rpartition(".")[2], each.is_repeated, each.is_delimited, each.oneof)
                for each in message.fields
            ],
            form(message.messages),
        )
        for message in messages
    ]


def whole(file: FileDeclaration) -> Any:
    return file.package, file.syntax, form(file.messages), [(each.name, each.values) for each in file.enums]


@pytest.mark.parametrize("name", FILES)
def test_the_text_of_a_real_file_declares_what_its_descriptor_does(name: str) -> None:
    module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    text = parsed_text((GOOGLE.parent / name).read_text(), name)
    (descriptor,) = parsed_descriptors(module.DESCRIPTOR.serialized_pb)
    assert whole(text) == whole(descriptor)


def test_built_in_files_are_those_of_google() -> None:
    modules = {module.DESCRIPTOR.name: module for module in WELL_KNOWN}
    names = [name for name in BUILTIN if name.startswith("google/type/")]
    modules |= {name: importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2") for name in names}
    assert set(modules) == {name for name in BUILTIN if name.startswith("google/")} - {
        "google/protobuf/descriptor.proto"
    }
    for name, module in modules.items():
        (descriptor,) = parsed_descriptors(module.DESCRIPTOR.serialized_pb)
        assert whole(parsed_text(BUILTIN[name], name)) == whole(descriptor), name


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("message A {", "line 1 ends in place of a name"),
        ('syntax = "proto3";\nmessage A {\n  int32 a 1;\n}', "line 3 has '1' in place of '='"),
        ("message A { int32 a = 0; }", "the field number 0; it is between 1 and 536870911"),
        ("message A { int32 a = 1;\n B b = 2; }", "line 2: the field b has the type 'B', which neither the schema nor"),
        ("message A { int32 a = 1; int32 b = 1; }", "A has two fields with the same number"),
        ("message A { int32 a = 1; int64 a = 2; }", "A has two fields with the same name"),
        ("message A {} message A {}", "A is declared twice"),
        ('syntax = "proto4";', "the syntax 'proto4', which is not known"),
        ('edition = "1999";', "the edition '1999', which is not known"),
        ("message A { map<double, int32> m = 1; }", "a map with keys of type 'double'"),
        ("message A { /* int32 a = 1; }", "line 1 begins a comment that does not end"),
        ("\n\nmessage A { int32 a = 1 @; }", "line 3 has '@', which no .proto file has there"),
        ("message A { option (x) = { a: {", "ends within the value of an option"),
        ("message A {" * 40, "is nested too deeply"),
        ('import "b.proto"; message A { B b = 1; }', "import b.proto: line 1 has 'mess'"),
    ],
)
def test_a_text_that_is_no_schema_is_refused_with_its_line(text: str, reason: str) -> None:
    with pytest.raises(InvalidSchema) as caught:
        parsed(text, {"b.proto": "mess {"}.get).message((0,))
    assert reason in str(caught.value)


def test_a_descriptor_that_is_damaged_is_refused() -> None:
    for data in (SHOP[:-9], b"\x0a\x05a", b"\x22\x02\x12\x09", b"\x0a\x01\xff\x22\x00"):
        with pytest.raises(InvalidSchema, match="the descriptor"):
            schema_of(base64.b64encode(data).decode())


def test_a_set_of_descriptors_has_the_imports_of_its_last_file() -> None:
    files = descriptor_pb2.FileDescriptorSet()
    files.file.add().CopyFrom(descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax="proto3"))
    files.file[0].message_type.add(name="T").field.add(name="x", number=1, label=1, type=5)
    root = files.file.add(name="a.proto", syntax="proto3", dependency=["t.proto"])
    root.message_type.add(name="A").field.add(name="t", number=1, label=1, type=11, type_name=".t.T")
    kind = message_of(base64.b64encode(files.SerializeToString()).decode())
    assert ProtobufDecoder(kind, kind).type == pa.struct({"t": pa.struct({"x": pa.int32()})})


def test_imports_may_form_a_circle_and_lack_files_that_only_have_options() -> None:
    one = 'import "two.proto"; import "buf/validate.proto"; message A { optional B b = 1 [(buf.rule).max = 3]; }'
    two = 'import "one.proto"; message B { optional int32 x = 1; }'
    found = parsed(one, {"two.proto": two, "one.proto": 'import "two.proto";'}.get).message((0,))
    assert found is not None and isinstance(found.fields[0].type, MessageType)


def test_editions_have_features() -> None:
    text = """
    edition = "2023";
    option features.field_presence = IMPLICIT;
    message A {
      int32 a = 1;
      int32 b = 2 [features.field_presence = EXPLICIT];
      B c = 3 [features.message_encoding = DELIMITED];
      map<string, B> d = 4;
      message B { option features = { field_presence: EXPLICIT }; int32 x = 1; }
    }
    """
    a, b, c, d = message_of(text).fields
    assert [each.has_presence for each in (a, b, c)] == [False, True, True]
    assert (c.is_delimited, d.is_delimited, d.is_map) == (True, False, True)
    assert isinstance(c.type, MessageType) and c.type.fields[0].has_presence


def test_types_that_cannot_be_read_as_each_other_differ_and_others_do_not() -> None:
    kinds = {
        kind: message_of(f"message A {{ optional {kind} a = 1; }}") for kind in ("int32", "bool", "sint64", "string")
    }
    kinds |= {kind: message_of(f"message A {{ {kind} a = 1; }}") for kind in ("repeated int32", "map<string, string>")}
    ProtobufDecoder(kinds["int32"], kinds["bool"])
    ProtobufDecoder(kinds["int32"], kinds["repeated int32"])
    for writer, reader in (
        ("int32", "sint64"),
        ("string", "int32"),
        ("repeated int32", "int32"),
        ("int32", "map<string, string>"),
    ):
        with pytest.raises(SchemasDiffer, match=r"the field a is .* in the writer's schema, .* in the reader's"):
            ProtobufDecoder(kinds[writer], kinds[reader])


# --- the path of a message -------------------------------------------------------------------------------------------

DEEP = "message A { message B { message C { message D { optional int32 x = 1; } } } optional int32 a = 1; }"


def test_paths_are_told_from_fields() -> None:
    assert path_of(b"\0\x08") == ((0,), 1)
    assert path_of(b"\x06\x04\x00\xd8\x04\x08") == ((2, 0, 300), 5)
    assert [path_of(data) for data in (b"", b"\x08\x05", b"\x02", b"\x02\xff")] == [None] * 4
    decoder = ProtobufValueDecoder(schema_of(DEEP), ProtobufReader(schema_of(DEEP), message_of(DEEP)))
    values = [
        b"\x00\x08\x07",
        b"\x08\x05",
        b"",
        b"\x08\x00\x00\x00\x00\x08\x07",
        b"\x02\x00\x08\x09",
        b"\x04\x00\x00",
        b"\x03",
    ]
    found, faults = decoder.decode(pa.array(values), array("i", range(len(values))), 0, None)
    assert found.to_pylist() == [{"a": 7}, {"a": 5}, {"a": None}, None, {"a": 9}, None, None]
    assert [(fault.row, decoder.reason(fault)) for fault in faults] == [
        (3, "the message is A.B.C.D, and the columns are those of A"),
        (5, "the message is A.B, and the columns are those of A"),
        (6, "the path of the message leads to no message of its schema"),
    ]


def test_paths_of_text_leave_out_groups_and_entries_of_maps_and_those_of_descriptors_do_not() -> None:
    text = 'syntax = "proto3"; message A { map<string, int32> m = 1; message B { int32 x = 1; } }'
    found = schema_of(text).message((0, 0))
    assert found is not None and found.name == "A.B" and schema_of(text).message((0, 1)) is None
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", syntax="proto3")
    file.message_type.add(name="A").nested_type.add(name="MEntry").options.map_entry = True
    file.message_type[0].nested_type.add(name="B")
    schema = schema_of(base64.b64encode(file.SerializeToString()).decode())
    found = schema.message((0, 1))
    assert found is not None and found.name == "A.B" and schema.message((0, 0)) is None


GOLDEN = json.loads((FOLDER / "records.json").read_text())
OTHERS = json.loads((FOLDER / "other_clients.json").read_text())


@pytest.mark.parametrize("record", [each for each in GOLDEN["records"] if "Protobuf" in each["by"]], ids=str)
def test_records_of_confluents_serializer_have_their_fields(record: dict[str, Any]) -> None:
    (schema, *_) = [
        each["schema"] for each in GOLDEN["schemas"] if record["name"] in (str(each["id"]), each["guid"])
    ]  # fmt: skip
    in_header = [bytes.fromhex(content)[17:] for _, content in record["headers"]]
    value = bytes.fromhex(record["bytes"])
    path, message = (in_header[0], value) if in_header else (None, value[5:])
    found = path_of(path or message)
    assert found is not None
    kind = schema_of(schema).message(found[0])
    assert kind is not None
    decoder = ProtobufValueDecoder(schema_of(schema), ProtobufReader(schema_of(schema), kind))
    decoded, faults = decoder.decode(pa.array([message]), array("i", (0,)), 0, path)
    assert not faults
    assert decoded.to_pylist() == [
        {"shop.Order": {"id": 7}, "shop.Refund": {"id": 7}, "shop.Order.Line": {"sku": "x"}}[kind.name]
    ]


@pytest.mark.parametrize(
    "record", [each for each in OTHERS if "PROTOBUF" in each["by"] or "franz" in each["by"]], ids=str
)
def test_records_of_kafkajs_and_franz_go_have_their_fields(record: dict[str, Any]) -> None:
    inner = "message R { optional int32 a = 1; }"
    text = f"{inner} message S {{ optional int32 a = 1; }} message T {{ message U {{ {_many(301)} }} }}"
    value = bytes.fromhex(record["bytes"])[5:]
    found = path_of(value)
    kind = schema_of(text).message((0,) if found is None else found[0])
    assert kind is not None
    decoder = ProtobufValueDecoder(schema_of(text), ProtobufReader(schema_of(text), kind))
    decoded, faults = decoder.decode(pa.array([value]), array("i", (0,)), 0, None)
    assert decoded.to_pylist() == [{"a": 5}] and not faults


def _many(count: int) -> str:
    return " ".join(f"message M{number} {{ optional int32 a = 1; }}" for number in range(count))


TAGGED = """
syntax = "proto3";
import "confluent/meta.proto";
import "person.proto";
message Order {
  int64 id = 1;
  string email = 2 [deprecated = true, (confluent.field_meta).tags = "PII", (.confluent.field_meta).tags = 'MAIL'];
  repeated string phones = 3 [(confluent.field_meta) = { doc: "tags" params { key: "tags" value: "no" } tags: "PII" }];
  map<string, string> notes = 4 [(confluent.field_meta) = { tags: ["PII", "FREE"], doc: "text" }];
  Person person = 5;
  Card card = 6;
  Tree tree = 7;
  string open = 8 [(other.field_meta).tags = "PII", (confluent.field_meta).doc = "PII"];
}
message Card { option (confluent.message_meta) = { tags: ["PCI"] }; string number = 1; }
message Tree { string leaf = 1 [(confluent.field_meta).tags = ["LEAF"]]; Tree left = 2; }
"""
PERSON = 'syntax = "proto3"; message Person { string name = 1 [(confluent.field_meta).tags = "PII"]; int32 age = 2; }'
TAGS = {
    "email": {"PII", "MAIL"},
    "phones": {"PII"},
    "notes": {"PII", "FREE"},
    "person.name": {"PII"},
    "card": {"PCI"},
    "tree.leaf": {"LEAF"},
}


def tags_of(schema: ProtoSchema) -> dict[str, set[str]]:
    message = schema.message((0,))
    assert message is not None
    return {".".join(each.path): set(each.tags) for each in protobuf_members(message) if each.tags}


def test_tags_of_confluent_are_those_of_fields_and_messages_also_of_imported_ones() -> None:
    assert tags_of(parsed(TAGGED, {"person.proto": PERSON}.get)) == TAGS


def test_a_descriptor_has_the_tags_of_its_options() -> None:
    meta_pb2 = importlib.import_module("confluent_kafka.schema_registry.confluent.meta_pb2")
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", syntax="proto3")
    order, card = file.message_type.add(name="Order"), file.message_type.add(name="Card")
    email = order.field.add(name="email", number=1, type=9, label=1)
    email.options.Extensions[meta_pb2.field_meta].tags.extend(["PII", "MAIL"])
    email.options.Extensions[meta_pb2.field_meta].doc = "text"
    order.field.add(name="card", number=2, type=11, label=1, type_name=".Card")
    card.field.add(name="number", number=1, type=9, label=1)
    card.options.Extensions[meta_pb2.message_meta].tags.append("PCI")
    text = base64.b64encode(file.SerializeToString()).decode()
    assert tags_of(schema_of(text)) == {"email": {"PII", "MAIL"}, "card": {"PCI"}}


def test_bytes_of_messages_that_are_nested_too_deeply_have_all_tags_within_them() -> None:
    deep = "".join(f"message M{at} {{ M{at + 1} next = 1; }} " for at in range(60))
    text = f'syntax = "proto3"; {deep} message M60 {{ string x = 1 [(confluent.field_meta).tags = "PII"]; }}'
    (path,) = tags_of(schema_of(text))
    assert set(path.split(".")) == {"next"}
