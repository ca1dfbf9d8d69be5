"""A value that needs more memory than a batch may use is a fault of that value."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from offsetfs.schemas.avro_arrow import AvroDecoder
from offsetfs.schemas.avro_schema import parsed as parsed_avro
from offsetfs.schemas.json_columns import JsonDecoder
from offsetfs.schemas.json_schema import parsed as parsed_json
from offsetfs.schemas.protobuf_arrow import ProtobufDecoder
from offsetfs.schemas.protobuf_schema import parsed as parsed_protobuf
from offsetfs.storage.native import protobuf as native_protobuf
from offsetfs.storage.reference import avro as reference_avro
from offsetfs.storage.reference import decoded_columns

pytestmark = [pytest.mark.unit, pytest.mark.reference]

NAMES = [f"p{number}" for number in range(100)]
ROWS = array("i", range(4))


def decode_json(values: pa.Array) -> tuple[pa.Array, Sequence[Any]]:
    item = {"properties": {name: {"type": "integer"} for name in NAMES}}
    return JsonDecoder(parsed_json(json.dumps({"type": "array", "items": item}))).decode(values, ROWS, 0)


def decode_avro(values: pa.Array) -> tuple[pa.Array, Sequence[Any]]:
    fields = [{"name": name, "type": "long"} for name in NAMES]
    kind = parsed_avro(json.dumps({"type": "array", "items": {"type": "record", "name": "R", "fields": fields}}))
    return AvroDecoder(kind, kind).decode(values, ROWS, 0)


def decode_protobuf(values: pa.Array) -> tuple[pa.Array, Sequence[Any]]:
    fields = "".join(f"int64 {name} = {number};" for number, name in enumerate(NAMES, 1))
    text = f'syntax = "proto3"; message A {{ repeated B items = 1; }} message B {{ {fields} }}'
    kind = parsed_protobuf(text, lambda name: None).message((0,))
    assert kind is not None
    return ProtobufDecoder(kind, kind).decode(values, ROWS, array("i", [0] * 4))


@pytest.mark.parametrize(
    ("decode", "small", "large"),
    [
        (decode_json, b"[{}]", b"[" + b"{}," * 5000 + b"{}]"),
        (decode_avro, b"\2" + bytes(100) + b"\0", b"\x90\x4e" + bytes(100 * 5000) + b"\0"),
        (decode_protobuf, b"\n\0", b"\n\0" * 5000),
    ],
    ids=["JSON", "Avro", "Protobuf"],
)
def test_the_values_behind_one_that_is_too_large_are_decoded(
    decode: Any, small: bytes, large: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (decoded_columns, reference_avro, native_protobuf):
        monkeypatch.setattr(module, "MEMORY_BYTES_MAX", 1 << 20)
    found, faults = decode(pa.array([small, large, small, large], pa.binary()))
    found.validate(full=True)
    assert [fault.row for fault in faults] == [1, 3]
    assert found.is_null().to_pylist() == [False, True, False, True]
