"""Values of google.protobuf.Struct, Value and ListValue as JSON text."""

from __future__ import annotations

import json
import math
import struct

import numpy as np
import pyarrow as pa

from offsetfs.schemas.protobuf_wire import FIXED64, LENGTH, VARINT, Damaged, fields_of

DEPTH_MAX = 100
"""Values within each other: protects the stack."""


def json_array(raw: pa.BinaryArray, name: str) -> tuple[pa.StringArray, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Return messages with this full name as JSON, and the rows that are damaged, which are null."""
    texts: list[str | None] = []
    damaged = []
    for row, data in enumerate(raw.to_pylist()):
        try:
            texts.append(None if data is None else json_text(data, name))
        except Damaged:
            texts.append(None)
            damaged.append(row)
    return pa.array(texts, pa.string()), np.array(damaged, np.int64)


def json_text(data: bytes, name: str) -> str:
    """Return a message as JSON. `Damaged`."""
    value = {"Struct": _struct, "ListValue": _list, "Value": _value}[name.rpartition(".")[2]](data, 0)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _check(depth: int) -> None:
    if depth > DEPTH_MAX:
        raise Damaged("values are nested too deeply")


def _struct(data: bytes, depth: int) -> dict[str, object]:
    _check(depth)
    made: dict[str, object] = {}
    for number, wire, entry in fields_of(data):
        if number == 1 and wire == LENGTH and isinstance(entry, bytes):
            key, parts = "", b""
            for inner, inner_wire, part in fields_of(entry):
                if inner_wire == LENGTH and isinstance(part, bytes):
                    key = _text(part) if inner == 1 else key
                    parts += part if inner == 2 else b""
            made[key] = _value(parts, depth + 1)
    return made


def _list(data: bytes, depth: int) -> list[object]:
    _check(depth)
    parts = [part for number, wire, part in fields_of(data) if (number, wire) == (1, LENGTH)]
    return [_value(part, depth + 1) for part in parts if isinstance(part, bytes)]


def _value(data: bytes, depth: int) -> object:
    """Return a value. The last of its kinds counts; parts of the same message are merged."""
    _check(depth)
    kind, content = 0, b""
    value: object = None
    for number, wire, part in fields_of(data):
        if (number, wire) == (1, VARINT):
            kind, value = 1, None
        elif (number, wire) == (4, VARINT):
            kind, value = 4, part != 0
        elif (number, wire) == (2, FIXED64) and isinstance(part, bytes):
            kind, value = 2, _number(struct.unpack("<d", part)[0])
        elif number == 3 and wire == LENGTH and isinstance(part, bytes):
            kind, value = 3, _text(part)
        elif number in (5, 6) and wire == LENGTH and isinstance(part, bytes):
            content = content + part if kind == number else part
            kind = number
    if kind in (5, 6):
        return _struct(content, depth + 1) if kind == 5 else _list(content, depth + 1)
    return value


def _number(number: float) -> float | int | str:
    """Return a number as JSON has it; one that JSON has not as text, as Google's libraries write a double."""
    if math.isnan(number) or math.isinf(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    return int(number) if number.is_integer() and abs(number) < 1 << 53 else number


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Damaged("a text is not UTF-8") from None
