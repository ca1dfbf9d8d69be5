"""Any bytes as values of JSON Schema, and any text as a schema: by both decoders, and as arrays of Arrow."""

from __future__ import annotations

import contextlib
import json
from array import array
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pyarrow as pa

from offsetfs.schemas.formats import InvalidSchema
from offsetfs.schemas.json_columns import JsonDecoder, JsonProgram, members_of
from offsetfs.schemas.json_schema import parsed
from offsetfs.storage.native import json_values as native
from offsetfs.storage.reference import json_values as reference

_LINE = {"type": "object", "properties": {"text": {"type": "string"}, "price": {"type": "number"}, "any": {}}}
_ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "lines": {"type": "array", "items": _LINE},
        "labels": {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": _LINE}},
        "on": {"type": "boolean"},
        "é": {"type": "null"},
    },
}
_CHAIN = {"properties": {"n": {"type": "integer"}, "more": {"type": "array", "items": {"$ref": "#"}}}}
_SCHEMAS: list[Any] = [
    _ORDER,
    _CHAIN,
    {"type": "integer"},
    {"type": "number"},
    {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
    {"allOf": [_LINE, {"$ref": "#/$defs/more"}], "$defs": {"more": {"properties": {"more": {"enum": [True]}}}}},
    {"oneOf": [_LINE, {"type": "null"}, {"$anchor": "a", "confluent:tags": ["PII"]}]},
]
_TYPES = [parsed(json.dumps(schema)) for schema in _SCHEMAS]


def values(data: bytes) -> None:
    """Decode values, which the first byte of each divides, by one of the schemas."""
    if not data:
        return
    kind = _TYPES[data[0] % len(_TYPES)]
    rows: list[bytes] = []
    at = 1
    while at < len(data) and len(rows) < 8:
        rows.append(data[at + 1 : at + 1 + data[at]])
        at += 1 + data[at]
    column = pa.array([None, *rows], pa.binary())
    program = JsonProgram(kind)
    assert _outcome(native, program, column) == _outcome(reference, program, column)
    decoded, faults = JsonDecoder(kind).decode(column, array("i", range(len(column))), 0)
    decoded.validate(full=True)
    wrong = {fault.row for fault in faults}
    for row, value in enumerate(decoded.to_pylist()):
        if row and row not in wrong:
            assert (json.loads(rows[row - 1]) is None) == (value is None)


def _outcome(module: ModuleType, program: JsonProgram, column: pa.Array) -> object:
    decoder = program.decoder(module.JsonColumnDecoder)
    validity, ends, data = column.buffers()
    decoder.decode(ends, data if data is not None else b"", validity, array("i", range(len(column))), 0)
    faults = list(decoder.faults)
    return faults, [
        (
            part.count,
            part.null_count,
            *(None if one is None else bytes(one) for one in (part.validity, part.ends, part.data)),
        )
        for part in decoder.finish()
    ]


def schemas(data: bytes) -> None:
    """Parse a schema, with itself as a reference, and decode a value by it."""
    with contextlib.suppress(InvalidSchema, UnicodeDecodeError):
        kind = parsed(data.decode(), {"self.json": data.decode()})
        assert sum(1 for _ in members_of(kind))
        decoded, _ = JsonDecoder(kind).decode(pa.array([data, b"", None], pa.binary()), array("i", (0, 1, 2)), 0)
        decoded.validate(full=True)


def seeds(name: str) -> Iterator[bytes]:
    """Yield schemas, and values that some of the schemas fit."""
    if name == "json-schemas":
        yield from (json.dumps(schema).encode() for schema in _SCHEMAS)
        return
    order = b'{"id":1.0e2,"lines":[{"text":"a\\u00e9","price":-2.5e-3,"any":[1]}],"labels":{"x":{"y":null}},"on":true}'
    chain = b'{"n":9223372036854775807,"more":[{"n":1}],"n":3}'
    texts = [order, chain, b"-12.50e1", b"0.30000000000000004", b'{"a":"b","a":null,"c":"\\ud83d\\ude00"}']
    for number, text in enumerate(texts):
        yield bytes([number, len(text)]) + text + bytes([len(text)]) + text
