"""Any bytes as values of Avro, and any text as a schema: by both decoders, and as arrays of Arrow."""

from __future__ import annotations

import contextlib
import json
from array import array
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pyarrow as pa

from offsetfs.schemas.avro_arrow import AvroDecoder
from offsetfs.schemas.avro_program import AvroProgram, compiled
from offsetfs.schemas.avro_schema import AvroType, parsed
from offsetfs.schemas.formats import InvalidSchema, SchemasDiffer
from offsetfs.storage.native import avro as native
from offsetfs.storage.reference import avro as reference


def _record(name: str, *fields: tuple[Any, ...]) -> dict[str, Any]:
    described = [{"name": part[0], "type": part[1], **({"default": part[2]} if part[2:] else {})} for part in fields]
    return {"type": "record", "name": name, "fields": described}


def _logical(kind: str, name: str, **more: int) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


_LINE = _record("Line", ("text", "string"), ("price", ["null", "double", "string"]), ("on", "boolean"))
_ORDER = _record(
    "Order",
    ("id", "int"),
    ("lines", {"type": "array", "items": _LINE}),
    ("notes", {"type": "map", "values": ["null", "bytes"]}),
    ("state", {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}),
)
_NEWER = _record(
    "Order",
    ("lines", {"type": "array", "items": _LINE}),
    ("id", "double"),
    ("state", {"type": "enum", "name": "State", "symbols": ["PAID"]}),
    ("extra", {"type": "array", "items": ["null", "long"]}, [1, None]),
)
_TYPES = _record(
    "Types",
    ("money", _logical("bytes", "decimal", precision=12, scale=2)),
    ("at", _logical("long", "timestamp-micros")),
    ("span", {"type": "fixed", "name": "Span", "size": 12, "logicalType": "duration"}),
    ("key", {"type": "fixed", "name": "Key", "size": 16, "logicalType": "uuid"}),
    ("rate", "float"),
    ("day", _logical("int", "date")),
)
_CHAIN = _record("Node", ("n", "long"), ("next", ["null", "Node"]), ("more", {"type": "array", "items": "Node"}))
_EMPTY = {"type": "array", "items": _record("Nothing", ("a", "null"), ("b", {"type": "array", "items": "null"}))}

_PAIRS = [(_ORDER, _ORDER), (_ORDER, _NEWER), (_TYPES, _TYPES), (_CHAIN, _CHAIN), (_EMPTY, _EMPTY), ("string", "bytes")]


def _parsed(described: Any) -> AvroType:
    return parsed(json.dumps(described))


_COMPILED = [(_parsed(writer), _parsed(reader)) for writer, reader in _PAIRS]


def values(data: bytes) -> None:
    """Decode values, which the first byte of each divides, by one of the schemas."""
    if not data:
        return
    writer, reader = _COMPILED[data[0] % len(_COMPILED)]
    rows: list[bytes] = []
    at = 1
    while at < len(data) and len(rows) < 8:
        rows.append(data[at + 1 : at + 1 + data[at]])
        at += 1 + data[at]
    column = pa.array([None, *rows], pa.binary())
    program = compiled(writer, reader)
    assert _outcome(native, program, column) == _outcome(reference, program, column)
    decoded, _ = AvroDecoder(writer, reader).decode(column, array("i", range(len(column))), 0)
    decoded.validate(full=True)
    assert len(decoded.to_pylist()) == len(column)


def _outcome(module: ModuleType, program: AvroProgram, column: pa.Array) -> object:
    decoder = module.AvroColumnDecoder(program.code, program.root, program.columns, program.children, program.constants)
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


def types(data: bytes) -> None:
    """Parse a schema, resolve it with itself and with another, and decode a value by it."""
    with contextlib.suppress(InvalidSchema, SchemasDiffer, UnicodeDecodeError):
        kind = parsed(data.decode())
        with contextlib.suppress(SchemasDiffer):
            compiled(_COMPILED[0][0], kind)
        decoder = AvroDecoder(kind, kind)
        decoded, _ = decoder.decode(pa.array([data, b"", None], pa.binary()), array("i", (0, 1, 2)), 0)
        decoded.validate(full=True)


def seeds(name: str) -> Iterator[bytes]:
    """Yield schemas, and values that some of the schemas fit."""
    if name == "avro-types":
        yield from (json.dumps(described).encode() for pair in _PAIRS for described in pair)
        return
    order = b"\x0e" + b"\x04\x02a\x00\x01\x02b\x04\x02x\x00\x00" + b"\x02\x02k\x02\x02v\x00" + b"\x02"
    chain = b"\x02\x02\x04\x00\x00\x00"
    for number, value in (
        (0, order),
        (1, order),
        (2, b"\x04\x01\x02" + bytes(8) + bytes(28) + bytes(4) + b"\x02"),
        (3, chain),
        (4, b"\x04\x00\x00\x00"),
    ):
        yield bytes([number, len(value)]) + value + bytes([len(value)]) + value
