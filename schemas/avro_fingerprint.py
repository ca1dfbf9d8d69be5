"""CRC-64-AVRO of the Parsing Canonical Form of an Avro schema, by which single-object values name it.

Follows the Avro specification, sections Parsing Canonical Form and Schema Fingerprints.
"""

from __future__ import annotations

import json

_PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
_EMPTY = 0xC15D213AA4D7A795
DEPTH_MAX = 200
"""The most types that contain one another."""

_WITH_NAMES = frozenset(("record", "error", "enum", "fixed"))


def fingerprint_of(text: str) -> str:
    """Return the fingerprint of a schema, 16 hexadecimal digits of the number. Raises what `canonical_form` raises."""
    number = _EMPTY
    for byte in canonical_form(text).encode():
        number = number >> 8 ^ _TABLE[(number ^ byte) & 0xFF]
    return f"{number:016x}"


def canonical_form(text: str) -> str:
    """Return the Parsing Canonical Form. ValueError for what is no JSON, no schema, or nested too deeply."""
    try:
        return _canonical(json.loads(text), "", DEPTH_MAX)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _canonical(schema: object, namespace: str, depth: int) -> str:
    if not depth:
        raise ValueError(f"nested more than {DEPTH_MAX} levels")
    if isinstance(schema, str):
        return _quoted(schema if schema in _PRIMITIVES else _full_name(schema, namespace))
    if isinstance(schema, list):
        return f"[{','.join(_canonical(branch, namespace, depth - 1) for branch in schema)}]"
    if not isinstance(schema, dict):
        raise ValueError("no schema")
    kind = schema.get("type")
    if not isinstance(kind, str) or kind in _PRIMITIVES:  # {"type": "int"}, {"type": {…}}
        return _canonical(kind, namespace, depth - 1)
    if kind == "array":
        return f'{{"type":"array","items":{_canonical(schema.get("items"), namespace, depth - 1)}}}'
    if kind == "map":
        return f'{{"type":"map","values":{_canonical(schema.get("values"), namespace, depth - 1)}}}'
    if kind not in _WITH_NAMES:
        return _canonical(kind, namespace, depth - 1)
    name = _text(schema.get("name"))
    own = schema.get("namespace")
    name = _full_name(name, namespace if own is None else _text(own))
    head = f'{{"name":{_quoted(name)},"type":"{kind}"'
    if kind == "enum":
        return f'{head},"symbols":[{",".join(_quoted(_text(symbol)) for symbol in _list(schema.get("symbols")))}]}}'
    if kind == "fixed":
        size = schema.get("size")
        if not isinstance(size, int | str):
            raise ValueError("a fixed type without a size")
        return f'{head},"size":{int(size)}}}'
    inner = name.rpartition(".")[0]
    return f'{head},"fields":[{",".join(_field(field, inner, depth - 1) for field in _list(schema.get("fields")))}]}}'


def _field(field: object, namespace: str, depth: int) -> str:
    if not isinstance(field, dict):
        raise ValueError("a field that is no object")
    return f'{{"name":{_quoted(_text(field.get("name")))},"type":{_canonical(field.get("type"), namespace, depth)}}}'


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _text(found: object) -> str:
    if not isinstance(found, str):
        raise ValueError("a name that is no text")
    return found


def _list(found: object) -> list[object]:
    if not isinstance(found, list):
        raise ValueError("fields or symbols that are no list")
    return found


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _row(number: int) -> int:
    for _ in range(8):
        number = number >> 1 ^ (_EMPTY if number & 1 else 0)
    return number


_TABLE = [_row(number) for number in range(256)]
