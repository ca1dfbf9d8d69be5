"""Avro schemas: parsed, with names resolved, and bounded.

    parsed('{"type": "record", …}')   →   RecordType, UnionType, PrimitiveType, …

Follows Avro 1.12. A logical type that its schema does not allow is ignored, as the specification says. A name that the
text does not define is looked for in other schemas: those which the schema refers to in the registry.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from offsetfs.schemas.formats import InvalidSchema

__all__ = [
    "ArrayType",
    "AvroType",
    "EnumType",
    "FixedType",
    "InvalidSchema",
    "LogicalType",
    "MapType",
    "PrimitiveType",
    "RecordField",
    "RecordType",
    "UnionType",
    "parsed",
]

PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))

TEXT_BYTES_MAX = 8 << 20
"""The size of a schema: protects memory."""

DEPTH_MAX = 64
"""Types within each other: protects the stack."""

TYPES_MAX = 50_000
"""Types of a schema: protects time and memory."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*\Z")
_SIMPLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True, slots=True)
class LogicalType:
    """What values mean. `precision` and `scale` are those of a decimal, else 0."""

    name: str
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """One of `PRIMITIVES`."""

    name: str
    logical: LogicalType | None = None


@dataclass(frozen=True, slots=True)
class FixedType:
    name: str
    aliases: tuple[str, ...]
    size: int
    logical: LogicalType | None = None


@dataclass(frozen=True, slots=True)
class EnumType:
    name: str
    aliases: tuple[str, ...]
    symbols: tuple[str, ...]
    default: str | None


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array."""

    items: AvroType


@dataclass(frozen=True, slots=True)
class MapType:
    values: AvroType


@dataclass(frozen=True, slots=True)
class UnionType:
    branches: tuple[AvroType, ...]


@dataclass(eq=False, slots=True)
class RecordType:
    """A record; its fields may lead to itself."""

    name: str
    aliases: tuple[str, ...]
    fields: tuple[RecordField, ...] = ()
    tags: frozenset[str] = frozenset()
    """Those of Confluent, `confluent:tags`."""


@dataclass(eq=False, slots=True)
class RecordField:
    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()
    has_default: bool = False
    default: Any = field(default=None)
    """The value of JSON, as the schema has it."""
    tags: frozenset[str] = frozenset()


AvroType = PrimitiveType | FixedType | EnumType | ArrayType | MapType | UnionType | RecordType


def parsed(text: str, references: Sequence[str] = ()) -> AvroType:
    """Return the type that a schema defines; `references` are schemas whose names it uses, in the order of their use.

    `InvalidSchema` for anything else, and for a schema that is too large or too deep.
    """
    parser = _Parser()
    for reference in references:
        parser.parse(reference)
    return parser.parse(text)


class _Parser:
    def __init__(self) -> None:
        self._named: dict[str, AvroType] = {}
        self._count = 0

    def parse(self, text: str) -> AvroType:
        if len(text) > TEXT_BYTES_MAX:
            raise InvalidSchema(f"the schema has {len(text)} characters; {TEXT_BYTES_MAX} are read")
        try:
            described = json.loads(text)
        except RecursionError:
            raise InvalidSchema("the schema is nested too deeply") from None
        except ValueError as error:
            if _NAME.match(text.strip()):  # registries keep a primitive type without quotes
                described = text.strip()
            else:
                raise InvalidSchema(f"the schema is not JSON: {error}") from None
        return self._type(described, "", "", 0)

    def _type(self, described: object, namespace: str, place: str, depth: int) -> AvroType:
        self._count += 1
        if depth > DEPTH_MAX or self._count > TYPES_MAX:
            reason = "is nested too deeply" if depth > DEPTH_MAX else f"has more than {TYPES_MAX} types"
            raise InvalidSchema(f"the schema {reason}")
        if isinstance(described, str):
            return self._by_name(described, namespace, place)
        if isinstance(described, list):
            return self._union(described, namespace, place, depth)
        if not isinstance(described, dict) or "type" not in described:
            raise _invalid(place, "is not a type of Avro")
        kind = described["type"]
        if not isinstance(kind, str):  # {"type": {"type": …}}
            return self._type(kind, namespace, place, depth + 1)
        if kind == "array":
            return ArrayType(self._type(_member(described, "items", place), namespace, f"{place}[]", depth + 1))
        if kind == "map":
            return MapType(self._type(_member(described, "values", place), namespace, f"{place}{{}}", depth + 1))
        if kind in ("record", "error"):
            return self._record(described, namespace, place, depth)
        if kind == "enum":
            return self._enum(described, namespace, place)
        if kind == "fixed":
            return self._fixed(described, namespace, place)
        if kind in PRIMITIVES:
            return PrimitiveType(kind, _logical(described, kind, 0))
        return self._by_name(kind, namespace, place)

    def _by_name(self, name: str, namespace: str, place: str) -> AvroType:
        if name in PRIMITIVES:
            return PrimitiveType(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self._named.get(full) or self._named.get(name)
        if found is None:
            raise _invalid(place, f"has the type {name!r}, which neither the schema nor its references define")
        return found

    def _union(self, described: list[object], namespace: str, place: str, depth: int) -> UnionType:
        branches = tuple(self._type(branch, namespace, place, depth + 1) for branch in described)
        if any(isinstance(branch, UnionType) for branch in branches):
            raise _invalid(place, "is a union that has a union in it")
        return UnionType(branches)

    def _define(self, described: Mapping[str, object], namespace: str, place: str) -> tuple[str, str, tuple[str, ...]]:
        """Return full name, namespace and full aliases of a named type."""
        name = _member(described, "name", place)
        if not isinstance(name, str) or not _NAME.match(name):
            raise _invalid(place, f"has the name {name!r}; a name has letters, digits and underscores")
        given = described.get("namespace", namespace)
        if not isinstance(given, str):
            raise _invalid(place, "has a namespace that is not text")
        full = name if "." in name or not given else f"{given}.{name}"
        if full in self._named:
            raise _invalid(place, f"defines {full} for the second time")
        inner = full.rpartition(".")[0]
        aliases = _texts(described.get("aliases", []), place)
        return full, inner, tuple(alias if "." in alias or not inner else f"{inner}.{alias}" for alias in aliases)

    def _record(self, described: Mapping[str, object], namespace: str, place: str, depth: int) -> RecordType:
        name, inner, aliases = self._define(described, namespace, place)
        record = RecordType(name, aliases, tags=_tags(described))
        self._named[name] = record
        fields = _member(described, "fields", place)
        if not isinstance(fields, list):
            raise _invalid(place, "has fields that are not a list")
        record.fields = tuple(self._field(member, inner, place, depth) for member in fields)
        names = [member.name for member in record.fields]
        if len(set(names)) < len(names):
            raise _invalid(place, "has two fields with the same name")
        return record

    def _field(self, described: object, namespace: str, place: str, depth: int) -> RecordField:
        if not isinstance(described, dict):
            raise _invalid(place, "has a field that is not an object")
        name = _member(described, "name", place)
        if not isinstance(name, str) or not _SIMPLE_NAME.match(name):
            raise _invalid(place, f"has a field with the name {name!r}; a name has letters, digits and underscores")
        inner = f"{place}.{name}" if place else name
        # A logical type beside "type" is one of the field's type, as Java's parser takes it.
        kind = self._type(_member(described, "type", inner), namespace, inner, depth + 1)
        aliases = _texts(described.get("aliases", []), inner)
        has_default, default = "default" in described, described.get("default")
        return RecordField(name, kind, tuple(aliases), has_default, default, _tags(described))

    def _enum(self, described: Mapping[str, object], namespace: str, place: str) -> EnumType:
        name, _, aliases = self._define(described, namespace, place)
        symbols = _texts(_member(described, "symbols", place), place)
        default = described.get("default")
        if len(set(symbols)) < len(symbols):
            raise _invalid(place, "has the same symbol twice")
        if default is not None and default not in symbols:
            raise _invalid(place, f"has the default {default!r}, which is not among its symbols")
        made = EnumType(name, aliases, tuple(symbols), default if isinstance(default, str) else None)
        self._named[name] = made
        return made

    def _fixed(self, described: Mapping[str, object], namespace: str, place: str) -> FixedType:
        name, _, aliases = self._define(described, namespace, place)
        size = _member(described, "size", place)
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 24:
            raise _invalid(place, f"has the size {size!r}; a size is a number below {1 << 24}")
        made = FixedType(name, aliases, size, _logical(described, "fixed", size))
        self._named[name] = made
        return made


_TIMES = {
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "timestamp-nanos": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
    "local-timestamp-nanos": "long",
}


def _logical(described: Mapping[str, object], kind: str, size: int) -> LogicalType | None:
    name = described.get("logicalType")
    if name == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = described.get("precision"), described.get("scale", 0)
        if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or precision < 1:
            return None
        if kind == "fixed" and precision > _digits(size):
            return None
        return LogicalType("decimal", precision, scale)
    is_known = (
        (isinstance(name, str) and _TIMES.get(name) == kind)
        or (name == "uuid" and (kind == "string" or (kind == "fixed" and size == 16)))
        or (name == "duration" and kind == "fixed" and size == 12)
    )
    return LogicalType(str(name)) if is_known else None


def _digits(size: int) -> int:
    """Return how many decimal digits any number of so many bytes has."""
    return len(str((1 << (8 * min(size, 64) - 1)) - 1)) - 1 if size else 0


def _member(described: Mapping[str, object], name: str, place: str) -> object:
    if name not in described:
        raise _invalid(place, f"has no {name!r}")
    return described[name]


def _texts(given: object, place: str) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
        raise _invalid(place, "has names that are not a list of texts")
    return given


def _tags(described: Mapping[str, object]) -> frozenset[str]:
    given = described.get("confluent:tags")
    return frozenset(tag for tag in given if isinstance(tag, str)) if isinstance(given, list) else frozenset()


def _invalid(place: str, reason: str) -> InvalidSchema:
    return InvalidSchema(f"{place or 'the schema'} {reason}")
