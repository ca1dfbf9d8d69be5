"""The program that decodes values of a writer's schema into columns of a reader's schema.

    compiled(writer, reader)   →   AvroProgram: numbers for `storage.records.avro`, and the shape of the columns

Follows the schema resolution of Avro 1.12: fields by name or alias, defaults, promotions, branches of unions, defaults
of enums. A type that contains itself cannot be a column of Arrow: its inner values stay bytes, in the writer's schema.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field

from offsetfs.schemas.avro_schema import (
    ArrayType,
    AvroType,
    EnumType,
    FixedType,
    MapType,
    PrimitiveType,
    RecordField,
    RecordType,
    UnionType,
)
from offsetfs.schemas.formats import SchemasDiffer
from offsetfs.storage.records import avro

COLUMNS_MAX = 10_000
"""Columns of a schema: a type that is used in many places has columns for each."""

DEFAULT_BYTES_MAX = 1 << 20
"""The encoded defaults of a schema: protects memory."""

DECIMAL_DIGITS_MAX = 38
"""Longer decimals stay bytes in the columns."""


@dataclass(slots=True)
class Shape:
    """A column and its children, as the reader's type defines it."""

    type: AvroType
    column: int
    is_raw: bool = False
    """The type contains itself; the column has the bytes of the writer."""
    names: list[str] = field(default_factory=list)
    """Of the children: fields, or members of a union."""
    children: list[Shape] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AvroProgram:
    """What a decoder needs."""

    code: array[int]
    root: int
    columns: array[int]
    children: array[int]
    constants: bytes
    shape: Shape
    places: Mapping[int, str]
    """The field of a node, by its position."""

    def place(self, node: int) -> str:
        """Return the field at which a fault was met; empty for the value itself."""
        return self.places.get(node, "")


def compiled(writer: AvroType, reader: AvroType) -> AvroProgram:
    """Return the program; `SchemasDiffer` if no value of the writer can be read as the reader's type."""
    return _Compiler().program(writer, reader)


_WIDTHS = {"int": 4, "long": 8, "float": 4, "double": 8}

_PROMOTIONS = {
    ("int", "int"): avro.INT,
    ("int", "long"): avro.LONG,
    ("int", "float"): avro.INT_AS_FLOAT,
    ("int", "double"): avro.INT_AS_DOUBLE,
    ("long", "long"): avro.LONG,
    ("long", "float"): avro.INT_AS_FLOAT,
    ("long", "double"): avro.INT_AS_DOUBLE,
    ("float", "float"): avro.FLOAT,
    ("float", "double"): avro.FLOAT_AS_DOUBLE,
    ("double", "double"): avro.DOUBLE,
    ("boolean", "boolean"): avro.BOOLEAN,
    ("null", "null"): avro.NULL,
    ("string", "string"): avro.TEXT,
    ("bytes", "string"): avro.TEXT,
    ("bytes", "bytes"): avro.BYTES,
    ("string", "bytes"): avro.BYTES,
}
"""The node that reads a primitive type of the writer as one of the reader."""

_DAY_MS, _FIRST_DAY, _LAST_DAY = 86_400_000, -719_162, 2_932_896  # 0001-01-01 and 9999-12-31
_FIRST_MS, _LAST_MS = _FIRST_DAY * _DAY_MS, (_LAST_DAY + 1) * _DAY_MS - 1
_FIRST_US, _LAST_US = _FIRST_MS * 1000, _LAST_MS * 1000 + 999
_NS_MAX = (1 << 63) - 2  # beyond it are NaT of pandas, and the infinity of DuckDB

_BOUNDS = {
    "date": (_FIRST_DAY, _LAST_DAY),
    "time-millis": (0, _DAY_MS - 1),
    "time-micros": (0, _DAY_MS * 1000 - 1),
    "timestamp-millis": (_FIRST_MS, _LAST_MS),
    "timestamp-micros": (_FIRST_US, _LAST_US),
    "timestamp-nanos": (-_NS_MAX, _NS_MAX),
    "local-timestamp-millis": (_FIRST_MS, _LAST_MS),
    "local-timestamp-micros": (_FIRST_US, _LAST_US),
    "local-timestamp-nanos": (-_NS_MAX, _NS_MAX),
}
"""The least and the most number of dates and times, as Python and Spark have them. DuckDB ends with a fatal error at a
time outside of its day, and a query at a timestamp far away."""

_DROPPED = {
    "null": avro.NULL,
    "boolean": avro.BOOLEAN,
    "int": avro.INT,
    "long": avro.LONG,
    "float": avro.FLOAT,
    "double": avro.DOUBLE,
    "bytes": avro.BYTES,
    "string": avro.BYTES,
}


class _Compiler:
    def __init__(self) -> None:
        self._code = array("q")
        self._columns = array("q")
        self._children = array("q")
        self._constants = bytearray()
        self._places: dict[int, str] = {}
        self._dropped: dict[RecordType, int] = {}  # nodes

    def program(self, writer: AvroType, reader: AvroType) -> AvroProgram:
        shape = self._shape(reader, ())
        root = self._node(writer, reader, shape, "")
        return AvroProgram(self._code, root, self._columns, self._children, bytes(self._constants), shape, self._places)

    # --- columns -----------------------------------------------------------------------------------------------------

    def _shape(self, reader: AvroType, within: tuple[RecordType, ...]) -> Shape:
        if isinstance(reader, UnionType):
            return self._union_shape(reader, within)
        if isinstance(reader, RecordType):
            if reader in within:
                return Shape(reader, self._column(avro.VARIABLE), is_raw=True)
            shape = Shape(reader, self._column(avro.STRUCT))
            shape.names = [member.name for member in reader.fields]
            children = [self._shape(member.type, (*within, reader)) for member in reader.fields]
        elif isinstance(reader, ArrayType):
            shape = Shape(reader, self._column(avro.ITEMS))
            children = [self._shape(reader.items, within)]
        elif isinstance(reader, MapType):
            shape = Shape(reader, self._column(avro.ITEMS))
            children = [Shape(PrimitiveType("string"), self._column(avro.VARIABLE)), self._shape(reader.values, within)]
        else:
            return Shape(reader, self._column(*_leaf_column(reader)))
        return self._with_children(shape, children)

    def _union_shape(self, reader: UnionType, within: tuple[RecordType, ...]) -> Shape:
        """Return the shape of a union: that of its only member beside null, or one with a child for each member."""
        others = [branch for branch in reader.branches if branch != PrimitiveType("null")]
        if len(others) == 1:
            return self._shape(others[0], within)
        if not others:
            return Shape(PrimitiveType("null"), self._column(avro.NOTHING))
        shape = Shape(UnionType(tuple(others)), self._column(avro.STRUCT))
        shape.names = [_name_of(member) for member in others]
        return self._with_children(shape, [self._shape(member, within) for member in others])

    def _column(self, kind: int, width: int = 0) -> int:
        number = len(self._columns) // avro.COLUMN_NUMBERS
        if number >= COLUMNS_MAX:
            raise SchemasDiffer(f"the schema has more than {COLUMNS_MAX} columns")
        self._columns.extend((kind, width, 0, 0))
        return number

    def _with_children(self, shape: Shape, children: list[Shape]) -> Shape:
        shape.children = children
        at = shape.column * avro.COLUMN_NUMBERS
        self._columns[at + 2 : at + 4] = array("q", (len(self._children), len(children)))
        self._children.extend(child.column for child in children)
        return shape

    # --- nodes -------------------------------------------------------------------------------------------------------

    def _emit(self, place: str, *numbers: int) -> int:
        node = len(self._code)
        self._code.extend(numbers)
        self._places[node] = place
        return node

    def _node(self, writer: AvroType, reader: AvroType, shape: Shape, place: str) -> int:
        """Return the node that reads a value of the writer's type into the columns of `shape`."""
        if isinstance(writer, UnionType):
            return self._branches(writer, reader, shape, place)
        if isinstance(reader, UnionType):
            return self._member(writer, reader, shape, place)
        if shape.is_raw:
            return self._emit(place, avro.RAW, shape.column, self._drop(writer, place))
        if isinstance(writer, RecordType) and isinstance(reader, RecordType):
            return self._record(writer, reader, shape, place)
        if isinstance(writer, ArrayType) and isinstance(reader, ArrayType):
            item = self._node(writer.items, reader.items, shape.children[0], f"{place}[]")
            return self._emit(place, avro.ARRAY, shape.column, -1, item)
        if isinstance(writer, MapType) and isinstance(reader, MapType):
            keys, values = shape.children
            value = self._node(writer.values, reader.values, values, f"{place}{{}}")
            return self._emit(place, avro.MAP, shape.column, keys.column, value)
        if isinstance(writer, EnumType) and isinstance(reader, EnumType) and _has_name(writer, reader):
            default = -1 if reader.default is None else reader.symbols.index(reader.default)
            numbers = {symbol: number for number, symbol in enumerate(reader.symbols)}
            symbols = [numbers.get(symbol, default) for symbol in writer.symbols]
            return self._emit(place, avro.ENUM, shape.column, len(symbols), *symbols)
        return self._leaf(writer, reader, shape, place)

    def _leaf(self, writer: AvroType, reader: AvroType, shape: Shape, place: str) -> int:
        if isinstance(writer, FixedType) and isinstance(reader, FixedType):
            is_equal = writer.size == reader.size and _has_name(writer, reader)
        else:
            is_equal = isinstance(writer, PrimitiveType) and isinstance(reader, PrimitiveType)
        if not is_equal or _scale(writer) != _scale(reader):
            raise _differ(writer, reader, place)
        assert isinstance(writer, PrimitiveType | FixedType) and isinstance(reader, PrimitiveType | FixedType)
        size = writer.size if isinstance(writer, FixedType) else 0
        logical = reader.logical.name if reader.logical else ""
        if logical == "decimal" and reader.logical and reader.logical.precision <= DECIMAL_DIGITS_MAX:
            if isinstance(writer, PrimitiveType) and writer.name not in ("bytes", "string"):
                raise _differ(writer, reader, place)
            return self._emit(place, avro.DECIMAL, shape.column, size, reader.logical.precision)
        if isinstance(writer, FixedType):
            if logical in ("uuid", "duration"):
                return self._emit(place, avro.UUID if logical == "uuid" else avro.DURATION, shape.column)
            return self._emit(place, avro.FIXED, shape.column, size)
        operation = _PROMOTIONS.get((writer.name, reader.name))
        if operation is None:
            raise _differ(writer, reader, place)
        if logical in _BOUNDS:
            within = avro.INT_WITHIN if operation == avro.INT else avro.LONG_WITHIN
            return self._emit(place, within, shape.column, *_BOUNDS[logical])
        return self._emit(place, operation, shape.column)

    def _branches(self, writer: UnionType, reader: AvroType, shape: Shape, place: str) -> int:
        """Return the node of a writer's union. A branch that does not fit the reader is a fault."""
        nodes, first = [], None
        for branch in writer.branches:
            try:
                nodes.append(self._node(branch, reader, shape, place))
            except SchemasDiffer as error:
                first = first or error
                nodes.append(-1)
        if first is not None and max(nodes) < 0:
            raise first
        return self._emit(place, avro.BRANCH, -1, len(nodes), *nodes)

    def _member(self, writer: AvroType, reader: UnionType, shape: Shape, place: str) -> int:
        """Return the node of a writer's type that is no union, for a union of the reader."""
        for matches in (_is_same, _is_readable):
            for branch in reader.branches:
                if matches(writer, branch):
                    return self._as_member(writer, branch, shape, place)
        raise _differ(writer, reader, place)

    def _as_member(self, writer: AvroType, branch: AvroType, shape: Shape, place: str) -> int:
        if branch == PrimitiveType("null"):
            return self._emit(place, avro.NULL, shape.column)
        if not isinstance(shape.type, UnionType):
            return self._node(writer, branch, shape, place)
        number = next(
            number for number, member in enumerate(shape.type.branches) if member is branch or member == branch
        )
        node = self._node(writer, branch, shape.children[number], place)
        return self._emit(place, avro.MEMBER, shape.column, number, node)

    def _record(self, writer: RecordType, reader: RecordType, shape: Shape, place: str) -> int:
        """Return the node of a record: the fields in the writer's order, then the defaults of those it lacks."""
        wanted = _fields_by_name(writer, reader)
        nodes = []
        for member in writer.fields:
            inner = f"{place}.{member.name}" if place else member.name
            if member.name in wanted:
                number = wanted.pop(member.name)
                nodes.append(self._node(member.type, reader.fields[number].type, shape.children[number], inner))
            else:
                nodes.append(self._drop(member.type, inner))
        for name, number in wanted.items():
            inner = f"{place}.{name}" if place else name
            nodes.append(self._default(reader.fields[number], shape.children[number], inner))
        return self._emit(place, avro.RECORD, shape.column, len(nodes), *nodes)

    def _default(self, member: RecordField, shape: Shape, place: str) -> int:
        """Return the node that appends the default of a field."""
        if not member.has_default:
            raise SchemasDiffer(f"the reader's schema has the field {place}, which is not written and has no default")
        kind, encoded = _encoded(member.default, member.type, place)
        node = self._node(kind, member.type, shape, place)
        start = len(self._constants)
        self._constants += encoded
        if len(self._constants) > DEFAULT_BYTES_MAX:
            raise SchemasDiffer(f"the defaults of the reader's schema have more than {DEFAULT_BYTES_MAX} bytes")
        return self._emit(place, avro.CONSTANT, -1, start, len(encoded), node) if encoded else node

    def _drop(self, writer: AvroType, place: str) -> int:
        """Return the node that reads a value of the writer and drops it. That of a record may contain itself."""
        if isinstance(writer, RecordType):
            if writer not in self._dropped:
                node = self._emit(place, avro.RECORD, -1, len(writer.fields), *(0 for _ in writer.fields))
                self._dropped[writer] = node
                for number, member in enumerate(writer.fields):
                    inner = self._drop(member.type, f"{place}.{member.name}" if place else member.name)
                    self._code[node + 3 + number] = inner
            return self._dropped[writer]
        if isinstance(writer, ArrayType):
            return self._emit(place, avro.ARRAY, -1, -1, self._drop(writer.items, f"{place}[]"))
        if isinstance(writer, MapType):
            return self._emit(place, avro.MAP, -1, -1, self._drop(writer.values, f"{place}{{}}"))
        if isinstance(writer, UnionType):
            nodes = [self._drop(branch, place) for branch in writer.branches]
            return self._emit(place, avro.BRANCH, -1, len(nodes), *nodes)
        if isinstance(writer, EnumType):
            return self._emit(place, avro.LONG, -1)
        if isinstance(writer, FixedType):
            return self._emit(place, avro.FIXED, -1, writer.size)
        return self._emit(place, _DROPPED[writer.name], -1)


# --- types -----------------------------------------------------------------------------------------------------------


def _leaf_column(reader: AvroType) -> tuple[int, int]:
    """Return the kind and the width of the column of a type without children."""
    if isinstance(reader, EnumType):
        return avro.WIDE, 4
    assert isinstance(reader, PrimitiveType | FixedType)
    logical = reader.logical
    if logical and logical.name == "decimal" and logical.precision <= DECIMAL_DIGITS_MAX:
        return avro.WIDE, 16
    if isinstance(reader, FixedType):
        if logical and logical.name == "uuid":
            return avro.VARIABLE, 0
        return avro.WIDE, 16 if logical and logical.name == "duration" else reader.size
    if reader.name == "null":
        return avro.NOTHING, 0
    if reader.name == "boolean":
        return avro.BITS, 0
    return (avro.WIDE, _WIDTHS[reader.name]) if reader.name in _WIDTHS else (avro.VARIABLE, 0)


def _scale(kind: AvroType) -> int:
    """Return the scale of a decimal; 0 for other types."""
    return kind.logical.scale if isinstance(kind, PrimitiveType | FixedType) and kind.logical else 0


def _has_name(writer: RecordType | EnumType | FixedType, reader: RecordType | EnumType | FixedType) -> bool:
    """Whether two named types have a name in common, without regard to the namespace."""
    names = {name.rpartition(".")[2] for name in (reader.name, *reader.aliases)}
    return writer.name.rpartition(".")[2] in names


def _is_same(writer: AvroType, reader: AvroType) -> bool:
    """Whether a branch of the reader's union is the writer's type itself."""
    if isinstance(writer, RecordType | EnumType | FixedType):
        return type(writer) is type(reader) and writer.name == reader.name
    if isinstance(writer, PrimitiveType):
        return isinstance(reader, PrimitiveType) and writer.name == reader.name
    return type(writer) is type(reader)


def _is_readable(writer: AvroType, reader: AvroType) -> bool:
    """Whether a branch of the reader's union takes the writer's type by another name or by promotion."""
    if isinstance(writer, RecordType | EnumType | FixedType):
        return (
            isinstance(reader, RecordType | EnumType | FixedType)
            and type(writer) is type(reader)
            and _has_name(writer, reader)
        )
    if isinstance(writer, PrimitiveType) and isinstance(reader, PrimitiveType):
        return (writer.name, reader.name) in _PROMOTIONS
    return False


def _fields_by_name(writer: RecordType, reader: RecordType) -> dict[str, int]:
    """Return the numbers of the reader's fields by the name that the writer has for them, else by their own."""
    written = {member.name for member in writer.fields}
    return {
        next((name for name in (member.name, *member.aliases) if name in written), member.name): number
        for number, member in enumerate(reader.fields)
    }


def _name_of(kind: AvroType) -> str:
    """Return the name of a type as a member of a union."""
    if isinstance(kind, ArrayType | MapType):
        return "array" if isinstance(kind, ArrayType) else "map"
    assert not isinstance(kind, UnionType)
    return kind.name


def _differ(writer: AvroType, reader: AvroType, place: str) -> SchemasDiffer:
    where = f"the field {place}" if place else "the value"
    return SchemasDiffer(
        f"{where} is {_described(writer)} in the writer's schema, {_described(reader)} in the reader's"
    )


def _described(kind: AvroType) -> str:
    if isinstance(kind, UnionType):
        return "a union of " + ", ".join(_name_of(branch) for branch in kind.branches)
    if isinstance(kind, PrimitiveType | FixedType) and kind.logical and kind.logical.name == "decimal":
        return f"decimal({kind.logical.precision}, {kind.logical.scale})"
    return _name_of(kind)


# --- defaults --------------------------------------------------------------------------------------------------------


def _encoded(value: object, kind: AvroType, place: str) -> tuple[AvroType, bytes]:
    """Return a default of JSON as its type and the bytes of Avro; of a union the branch that it fits."""
    branches = kind.branches if isinstance(kind, UnionType) else (kind,)
    for branch in branches:
        encoded = _encoded_as(value, branch, place)
        if encoded is not None:
            return branch, encoded
    raise SchemasDiffer(f"the default of the field {place} is not {_described(kind)}")


def _encoded_as(value: object, kind: AvroType, place: str) -> bytes | None:
    """Return a value of JSON as Avro; None if it is not of that type."""
    if isinstance(kind, PrimitiveType):
        return _primitive(value, kind.name)
    if isinstance(kind, FixedType):
        raw = _latin(value)
        return raw if raw is not None and len(raw) == kind.size else None
    if isinstance(kind, EnumType):
        return _zigzag(kind.symbols.index(value)) if isinstance(value, str) and value in kind.symbols else None
    if isinstance(kind, ArrayType) and isinstance(value, list):
        items = b"".join(_in_union(item, kind.items, place) for item in value)
        return (_zigzag(len(value)) + items if value else b"") + b"\0"
    if isinstance(kind, MapType) and isinstance(value, dict):
        items = b"".join(
            _zigzag(len(key.encode())) + key.encode() + _in_union(item, kind.values, place)
            for key, item in value.items()
        )
        return (_zigzag(len(value)) + items if value else b"") + b"\0"
    if isinstance(kind, RecordType) and isinstance(value, dict):
        parts = []
        for member in kind.fields:
            if member.name not in value and not member.has_default:
                return None
            given = value.get(member.name, member.default)
            parts.append(_in_union(given, member.type, f"{place}.{member.name}"))
        return b"".join(parts)
    return None


def _in_union(value: object, kind: AvroType, place: str) -> bytes:
    """Return a value within a default; that of a union has the number of its branch in front."""
    branch, encoded = _encoded(value, kind, place)
    if isinstance(kind, UnionType):
        return _zigzag(next(at for at, other in enumerate(kind.branches) if other is branch)) + encoded
    return encoded


def _primitive(value: object, name: str) -> bytes | None:
    if name == "null":
        return b"" if value is None else None
    if name == "boolean":
        return bytes([value]) if isinstance(value, bool) else None
    if isinstance(value, bool):
        return None
    if name in ("int", "long") and isinstance(value, int):
        limit = 1 << (31 if name == "int" else 63)
        return _zigzag(value) if -limit <= value < limit else None
    if name in ("float", "double"):
        return _floating(value, "<f" if name == "float" else "<d")
    if name == "string" and isinstance(value, str):
        text = value.encode("utf-8", "replace")
        return _zigzag(len(text)) + text
    if name == "bytes" and (raw := _latin(value)) is not None:
        return _zigzag(len(raw)) + raw
    return None


def _floating(value: object, layout: str) -> bytes | None:
    if value in ("NaN", "Infinity", "-Infinity"):  # as Java's Avro writes them
        value = float(str(value))
    if not isinstance(value, int | float):
        return None
    try:
        return struct.pack(layout, value)
    except OverflowError:
        return None


def _latin(value: object) -> bytes | None:
    """Return the bytes that JSON has as characters up to U+00FF."""
    try:
        return value.encode("latin-1") if isinstance(value, str) else None
    except UnicodeEncodeError:
        return None


def _zigzag(number: int) -> bytes:
    rest, encoded = (number << 1) ^ (number >> 63), bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)
