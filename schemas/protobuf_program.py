"""The program that decodes messages of a writer's schema into columns of a reader's schema.

    compiled(writer, reader, names)   →   ProtobufProgram: numbers for the engine, and the columns' shape

Fields are matched by their numbers and have the reader's names. A message that contains itself cannot be a column of
Arrow: its inner values stay bytes, and so do messages without fields, and those nested too deeply.
"""

from __future__ import annotations

import enum
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from offsetfs.schemas.formats import SchemasDiffer
from offsetfs.schemas.protobuf_schema import FieldType, MessageType, ProtobufEnum, ProtoField
from offsetfs.storage.records import protobuf

COLUMNS_MAX = 10_000
"""Columns of a schema: a type that is used in many places has columns for each."""

DEPTH_MAX = 40
"""Messages within each other that are columns."""

_DENSE_MAX = 256
"""Field numbers below this one are found without a search."""


class Form(enum.Enum):
    """What a column is."""

    SCALAR = "scalar"
    """Of a scalar or an enum."""
    MESSAGE = "message"
    RAW = "raw"
    """The bytes of messages."""
    JSON = "json"
    """The bytes of Struct, Value or ListValue, which are shown as JSON."""
    LIST = "list"
    MAP = "map"


@dataclass(slots=True)
class ProtobufShape:
    """A column and its children, as the reader's type defines it."""

    form: Form
    type: FieldType
    column: int
    names: list[str] = field(default_factory=list)
    """Of the children, if this is a message."""
    children: list[ProtobufShape] = field(default_factory=list)
    place: str = ""


@dataclass(frozen=True, slots=True)
class ProtobufProgram:
    """What a decoder needs."""

    code: array[int]
    root: int
    columns: array[int]
    children: array[int]
    shape: ProtobufShape
    places: Mapping[int, str]
    """The field of a node, by its position."""


JSON_TYPES = frozenset(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue"))

_OPERATIONS = {
    "int32": protobuf.VARINT32, "uint32": protobuf.VARINT32, "sint32": protobuf.ZIGZAG32, "fixed32": protobuf.FIXED32,
    "sfixed32": protobuf.FIXED32, "float": protobuf.FIXED32, "int64": protobuf.VARINT64, "uint64": protobuf.VARINT64,
    "sint64": protobuf.ZIGZAG64, "fixed64": protobuf.FIXED64, "sfixed64": protobuf.FIXED64, "double": protobuf.FIXED64,
    "bool": protobuf.BOOL, "string": protobuf.TEXT, "bytes": protobuf.BYTES,
}  # fmt: skip

_WIDTHS = {
    protobuf.VARINT32: 4, protobuf.ZIGZAG32: 4, protobuf.FIXED32: 4,
    protobuf.VARINT64: 8, protobuf.ZIGZAG64: 8, protobuf.FIXED64: 8,
}  # fmt: skip

_GROUPS = (
    {"int32", "int64", "uint32", "uint64", "bool", "enum"}, {"sint32", "sint64"}, {"fixed32", "sfixed32"},
    {"fixed64", "sfixed64"}, {"string", "bytes", "message"},
)  # fmt: skip
"""Types that can be read as each other."""


def compiled(writer: MessageType, reader: MessageType, names: Sequence[str] | None = None) -> ProtobufProgram:
    """Return the program for all fields of the reader, or those with these names, in this order.

    `SchemasDiffer` if a field has types that cannot be read as each other.
    """
    return _Compiler().program(writer, reader, names)


class _Compiler:
    def __init__(self) -> None:
        self._code = array("q")
        self._columns = array("q")
        self._children = array("q")
        self._places: dict[int, str] = {}

    def program(self, writer: MessageType, reader: MessageType, names: Sequence[str] | None) -> ProtobufProgram:
        by_name = {member.name: member for member in reader.fields}
        wanted = reader.fields if names is None else tuple(by_name[name] for name in names)
        shape = self._message_shape(reader, wanted, (), "")
        root = self._message(writer, reader, wanted, shape, "")
        return ProtobufProgram(self._code, root, self._columns, self._children, shape, self._places)

    # --- columns -----------------------------------------------------------------------------------------------------

    def _message_shape(
        self, kind: MessageType, fields: Sequence[ProtoField], within: tuple[MessageType, ...], place: str
    ) -> ProtobufShape:
        shape = ProtobufShape(Form.MESSAGE, kind, self._column(protobuf.STRUCT), place=place)
        shape.names = [member.name for member in fields]
        within = (*within, kind)
        children = [self._field_shape(field, within, _joined(place, field.name)) for field in fields]
        return self._with_children(shape, children)

    def _field_shape(self, member: ProtoField, within: tuple[MessageType, ...], place: str) -> ProtobufShape:
        if not member.is_repeated:
            return self._value_shape(member.type, within, place)
        shape = ProtobufShape(
            Form.MAP if member.is_map else Form.LIST, member.type, self._column(protobuf.ITEMS), place=place
        )
        inner = f"{place}{{}}" if member.is_map else f"{place}[]"
        return self._with_children(shape, [self._value_shape(member.type, within, inner)])

    def _value_shape(self, kind: FieldType, within: tuple[MessageType, ...], place: str) -> ProtobufShape:
        if not isinstance(kind, MessageType):
            return ProtobufShape(Form.SCALAR, kind, self._column(*_leaf_column(kind)), place=place)
        if kind.name in JSON_TYPES:
            return ProtobufShape(Form.JSON, kind, self._column(protobuf.VARIABLE), place=place)
        if kind in within or not kind.fields or len(within) >= DEPTH_MAX:
            return ProtobufShape(Form.RAW, kind, self._column(protobuf.VARIABLE), place=place)
        return self._message_shape(kind, kind.fields, within, place)

    def _column(self, kind: int, width: int = 0) -> int:
        number = len(self._columns) // protobuf.COLUMN_NUMBERS
        if number >= COLUMNS_MAX:
            raise SchemasDiffer(f"the schema has more than {COLUMNS_MAX} columns")
        self._columns.extend((kind, width, 0, 0))
        return number

    def _with_children(self, shape: ProtobufShape, children: list[ProtobufShape]) -> ProtobufShape:
        shape.children = children
        at = shape.column * protobuf.COLUMN_NUMBERS
        self._columns[at + 2 : at + 4] = array("q", (len(self._children), len(children)))
        self._children.extend(child.column for child in children)
        return shape

    # --- nodes -------------------------------------------------------------------------------------------------------

    def _message(
        self, writer: MessageType, reader: MessageType, fields: Sequence[ProtoField], shape: ProtobufShape, place: str
    ) -> int:
        """Return the node that reads a message into the columns of `shape`."""
        written = {member.number: member for member in writer.fields}
        columns = {member.number: child for member, child in zip(fields, shape.children, strict=True)}
        oneofs = self._oneofs(fields, columns)
        rows: list[tuple[int, list[int], str]] = []
        for member in reader.fields:
            child, oneof = columns.get(member.number), oneofs.get(member.oneof, -1)
            if child is None and oneof < 0:
                continue
            inner = _joined(place, member.name)
            row = self._field(written.get(member.number), member, child, reader.is_map_entry, inner)
            rows.append((member.number, [*row, oneof], inner))
        return self._emit(shape.column, rows, place)

    def _oneofs(self, fields: Sequence[ProtoField], columns: Mapping[int, ProtobufShape]) -> dict[str, int]:
        """Return the positions of the columns of each oneof."""
        found: dict[str, int] = {}
        for name in dict.fromkeys(member.oneof for member in fields if member.oneof):
            members = [columns[member.number].column for member in fields if member.oneof == name]
            found[name] = len(self._code)
            self._code.extend((len(members), *members))
        return found

    def _field(
        self, writer: ProtoField | None, reader: ProtoField, shape: ProtobufShape | None, is_entry: bool, place: str
    ) -> list[int]:
        """Return the numbers of a field but its oneof. Without a shape it is read over."""
        written = reader if writer is None else writer
        if not _is_readable(written, reader):
            raise _differ(written, reader, place)
        flags = protobuf.DELIMITED * written.is_delimited | protobuf.REPEATED * reader.is_repeated
        flags |= protobuf.ZERO * (is_entry or not reader.has_presence)
        if shape is None:
            is_message = isinstance(written.type, MessageType)
            return [protobuf.RAW if is_message else _operation(written.type, reader.type), -1, flags, -1]
        value = shape.children[0] if reader.is_repeated else shape
        if value.form == Form.SCALAR:
            return [_operation(written.type, reader.type), shape.column, flags, -1]
        if value.form != Form.MESSAGE:
            return [protobuf.RAW, shape.column, flags, -1]
        assert isinstance(reader.type, MessageType)
        inner = written.type if isinstance(written.type, MessageType) else reader.type
        node = self._message(inner, reader.type, reader.type.fields, value, value.place)
        return [protobuf.MESSAGE, shape.column, flags, node]

    def _emit(self, column: int, rows: list[tuple[int, list[int], str]], place: str) -> int:
        node = len(self._code)
        self._places[node] = place
        first = node + 4
        positions = {number: first + 5 * at for at, (number, _, _) in enumerate(rows)}
        self._places |= {positions[number]: inner for number, _, inner in rows}
        dense = max((number + 1 for number in positions if number < _DENSE_MAX), default=0)
        sparse = sorted(number for number in positions if number >= _DENSE_MAX)
        self._code.extend((column, len(rows), dense, len(sparse)))
        for _, row, _ in rows:
            self._code.extend(row)
        self._code.extend(positions.get(number, -1) for number in range(dense))
        for number in sparse:
            self._code.extend((number, positions[number]))
        return node


def _joined(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _leaf_column(kind: str | ProtobufEnum) -> tuple[int, int]:
    """Return the kind and the width of the column of a scalar or an enum."""
    operation = protobuf.VARINT32 if isinstance(kind, ProtobufEnum) else _OPERATIONS[kind]
    if operation in _WIDTHS:
        return protobuf.WIDE, _WIDTHS[operation]
    return (protobuf.BITS if operation == protobuf.BOOL else protobuf.VARIABLE), 0


def _operation(writer: FieldType, reader: FieldType) -> int:
    """Return how a scalar is read; its wire type is the same for both."""
    if isinstance(reader, MessageType):
        return protobuf.RAW
    return protobuf.VARINT32 if isinstance(reader, ProtobufEnum) else _OPERATIONS[reader]


def _class_of(kind: FieldType) -> str:
    if isinstance(kind, str):
        return kind
    return "enum" if isinstance(kind, ProtobufEnum) else "message"


def _is_readable(writer: ProtoField, reader: ProtoField) -> bool:
    one, other = _class_of(writer.type), _class_of(reader.type)
    is_packable = not {one, other} <= _GROUPS[-1]
    if writer.is_map != reader.is_map or (is_packable and writer.is_repeated and not reader.is_repeated):
        return False
    if writer.is_delimited and other != "message":
        return False
    return one == other or any({one, other} <= group for group in _GROUPS)


def _differ(writer: ProtoField, reader: ProtoField, place: str) -> SchemasDiffer:
    return SchemasDiffer(
        f"the field {place} is {_described(writer)} in the writer's schema, {_described(reader)} in the reader's"
    )


def _described(member: ProtoField) -> str:
    kind = member.type if isinstance(member.type, str) else member.type.name
    return "a map" if member.is_map else f"repeated {kind}" if member.is_repeated else kind
