"""Any bytes as values of Protobuf, and any text or descriptor as a schema: by both decoders, and as arrays of Arrow."""

from __future__ import annotations

import base64
import contextlib
from array import array
from collections.abc import Iterator
from types import ModuleType

import pyarrow as pa

from offsetfs.schemas.formats import InvalidSchema, SchemasDiffer
from offsetfs.schemas.protobuf_arrow import ProtobufDecoder
from offsetfs.schemas.protobuf_format import ProtobufReader, ProtobufValueDecoder
from offsetfs.schemas.protobuf_program import ProtobufProgram, compiled
from offsetfs.schemas.protobuf_schema import MessageType, ProtoSchema, parsed
from offsetfs.storage.native import protobuf as native
from offsetfs.storage.reference import protobuf as reference

_ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Order {
  int64 id = 1;
  repeated Line lines = 2;
  map<string, Line> notes = 3;
  oneof how { string card = 4; Line cash = 5; Order order = 6; }
  repeated sint32 numbers = 7;
  google.protobuf.Timestamp at = 8;
  google.protobuf.BoolValue yes = 9;
  google.protobuf.Value value = 10;
  State state = 300;
  fixed64 far = 536870911;
  message Line { bytes sku = 1; optional float price = 2; bool on = 3; }
  enum State { NEW = 0; PAID = 70000; }
}
message Other { uint32 id = 1; message Inner { message Third { message Last { int32 a = 1; } } } }
"""
_GROUPS = """
message Old {
  required int32 id = 1;
  optional group Part = 2 { optional string a = 1; repeated Old more = 3; }
  repeated group Item = 4 { repeated double x = 1 [packed = true]; map<int32, bytes> m = 2; }
  optional Old next = 5;
}
"""
_WRITER = """
syntax = "proto3";
package shop;
message Order { int64 id = 1; repeated Line lines = 2; message Line { string sku = 1; } bool state = 300; }
"""


def _schema(text: str) -> ProtoSchema:
    return parsed(text, lambda name: None)


def _message(text: str) -> MessageType:
    found = _schema(text).message((0,))
    assert found is not None
    return found


_PAIRS = [(_message(one), _message(two)) for one, two in ((_ORDER, _ORDER), (_GROUPS, _GROUPS), (_WRITER, _ORDER))]


_PROGRAMS = [compiled(writer, reader) for writer, reader in _PAIRS]
_DECODERS = [ProtobufDecoder(writer, reader) for writer, reader in _PAIRS]
_BY_PATH = ProtobufValueDecoder(_schema(_ORDER), ProtobufReader(_schema(_ORDER), _PAIRS[0][1]))


def values(data: bytes) -> None:
    """Decode values, which the first byte of each divides, by one of the schemas."""
    if not data:
        return
    number = data[0] % len(_PAIRS)
    rows: list[bytes] = []
    at = 1
    while at < len(data) and len(rows) < 8:
        rows.append(data[at + 1 : at + 1 + data[at]])
        at += 1 + data[at]
    column = pa.array([None, *rows], pa.binary())
    program = _PROGRAMS[number]
    assert _outcome(native, program, column) == _outcome(reference, program, column)
    picks, skips = array("i", range(len(column))), array("i", bytes(4 * len(column)))
    decoded, faults = _DECODERS[number].decode(column, picks, skips)
    decoded.validate(full=True)
    assert len(decoded) == len(column) and len({fault.row for fault in faults}) == len(faults)
    for path in (None, b"", data[:3]):  # values with paths in front
        found, _ = _BY_PATH.decode(column, picks, 0, path)
        found.validate(full=True)
        assert len(found) == len(column)


def _outcome(module: ModuleType, program: ProtobufProgram, column: pa.Array) -> object:
    decoder = module.ProtobufColumnDecoder(program.code, program.root, program.columns, program.children)
    validity, ends, data = column.buffers()
    picks, skips = array("i", range(len(column))), array("i", bytes(4 * len(column)))
    decoder.decode(ends, data if data is not None else b"", validity, picks, skips)
    faults = list(decoder.faults)
    return faults, [
        (
            part.count,
            part.null_count,
            *(None if one is None else bytes(one) for one in (part.validity, part.ends, part.data)),
        )
        for part in decoder.finish()
    ]


def types(data: bytes) -> None:
    """Parse a schema as text, or as a descriptor, resolve it with itself and with another, and decode a value by it."""
    for text in (data.decode("utf-8", "replace"), base64.b64encode(data).decode()):
        with contextlib.suppress(InvalidSchema, SchemasDiffer):
            schema = parsed(text, {"a.proto": _ORDER, "b.proto": text}.get)
            kind = schema.message((0,))
            if kind is None:
                continue
            with contextlib.suppress(SchemasDiffer):
                compiled(_PAIRS[0][0], kind)
            decoder = ProtobufDecoder(kind, kind)
            column = pa.array([data, b"", None], pa.binary())
            decoded, _ = decoder.decode(column, array("i", (0, 1, 2)), array("i", (0, 0, 0)))
            decoded.validate(full=True)


def seeds(name: str) -> Iterator[bytes]:
    """Yield schemas, and values that some of the schemas fit."""
    if name == "protobuf-schemas":
        yield from (text.encode() for text in (_ORDER, _GROUPS, _WRITER))
        yield b'edition="2023"; import "a.proto"; option features.field_presence = IMPLICIT; message A { Order o = 1;}'
        yield base64.b64decode(
            "CgtvcmRlci5wcm90bxIEc2hvcCIoCgVPcmRlchIKCgJpZBgBIAEoAxoTCgRMaW5lEgsKA3NrdRgBIAEoCWIGcHJvdG8z"
        )
        return
    line = b"\x0a\x01a\x15\x00\x00\x80\x3f\x18\x01"
    order = (
        b"\x08\x07\x12\x0a"
        + line
        + b"\x1a\x0f\x0a\x01k\x12\x0a"
        + line
        + b"\x22\x01c\x2a\x00\x3a\x02\x01\x02\x42\x02\x08\x05\x4a\x00"
    )
    order += b"\x52\x02\x20\x01\xe0\x12\x01\xf9\xff\xff\xff\x0f" + bytes(8)
    old = b"\x08\x01\x13\x0a\x01x\x14\x23\x0a\x08" + bytes(8) + b"\x12\x05\x08\x01\x12\x01z\x24\x2a\x02\x08\x02"
    for number, value in ((0, order), (1, old), (2, order), (0, b"\x04\x02\x00" + order)):
        yield bytes([number, len(value)]) + value + bytes([len(value)]) + value
