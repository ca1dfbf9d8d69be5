"""Values of JSON Schema as arrays of Arrow: whole buffers, and no Python object per value.

    decoder = JsonDecoder(parsed(text))
    array, faults = decoder.decode(values, picks, skip=5)

| type | Arrow |
|---|---|
| object, array, map | struct, list, map |
| boolean, integer, number, string | bool, int64, double, text |
| json | text, as it stands in the value |
| null | null |
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from offsetfs.schemas.formats import InvalidSchema
from offsetfs.schemas.json_schema import JsonType
from offsetfs.schemas.masks import Path, TypeMember
from offsetfs.storage.records import json_values
from offsetfs.storage.records.json_values import ColumnBuffers, DecodingFault, JsonColumnDecoder

COLUMNS_MAX = 10_000
"""Columns of a schema: a type that is used in many places has columns for each."""

_LEAVES = {
    "null": (json_values.NULL, json_values.NOTHING, 0, pa.null()),
    "boolean": (json_values.BOOLEAN, json_values.BITS, 0, pa.bool_()),
    "integer": (json_values.INTEGER, json_values.WIDE, 8, pa.int64()),
    "number": (json_values.NUMBER, json_values.WIDE, 8, pa.float64()),
    "string": (json_values.TEXT, json_values.VARIABLE, 0, pa.string()),
    "json": (json_values.JSON, json_values.VARIABLE, 0, pa.string()),
}
"""For each type without children: its node, the kind and width of its column, and its type in Arrow."""


@dataclass(frozen=True, slots=True)
class JsonShape:
    """A column and its children."""

    type: JsonType
    column: int
    children: tuple[JsonShape, ...] = ()


class JsonDecoder:
    """Decodes values as one type. One thread at a time uses it."""

    def __init__(self, kind: JsonType) -> None:
        """`InvalidSchema` if the type has too many columns."""
        self._program = program = JsonProgram(kind)
        self._decoder = program.decoder(JsonColumnDecoder)
        self.type = type_of(kind)

    def decode(self, values: pa.BinaryArray, picks: array[int], skip: int) -> tuple[pa.Array, Sequence[DecodingFault]]:
        """Return the decoded values of the rows `picks` (int32), without their first `skip` bytes.

        A null stays a null. A value that does not fit its type is a null and has a fault, whose `row` is a position in
        `picks`. `MemoryError` if the values of a batch need more than 1 GiB.
        """
        validity, ends, data = values.buffers()
        if values.offset:
            raise ValueError("a slice of an array")
        self._decoder.decode(ends, data if data is not None else b"", validity, picks, skip)
        faults = self._decoder.faults
        return _array_of(self._program.shape, self._decoder.finish()), faults

    def place(self, fault: DecodingFault) -> str:
        """Return the field that did not fit; empty for the value itself."""
        return self._program.places[fault.node]


class JsonProgram:
    """The program of a type: numbers for `storage.records.json_values`."""

    def __init__(self, kind: JsonType) -> None:
        """`InvalidSchema` if the type has too many columns."""
        self.code, self.columns, self.children = array("q"), array("q"), array("q")
        self.names = bytearray()
        self.places: dict[int, str] = {}
        """The field of a node, by its position."""
        self.shape, self.root = self._compiled(kind, "")

    def decoder(self, made: type[JsonColumnDecoder]) -> JsonColumnDecoder:
        """Return a decoder of a class that runs such programs."""
        return made(self.code, self.root, self.columns, self.children, bytes(self.names))

    def _compiled(self, kind: JsonType, place: str) -> tuple[JsonShape, int]:
        """Return the column and the node of a type."""
        if kind.kind in _LEAVES:
            operation, column_kind, width, _ = _LEAVES[kind.kind]
            column = self._column(column_kind, width)
            return JsonShape(kind, column), self._node(place, operation, column)
        if kind.kind == "object":
            return self._object(kind, place)
        column = self._column(json_values.ITEMS)
        keys = [JsonShape(JsonType("string"), self._column(json_values.VARIABLE))] if kind.kind == "map" else []
        item, node = self._compiled(kind.children[0], f"{place}{'{}' if keys else '[]'}")
        shape = self._with_children(kind, column, [*keys, item])
        if keys:
            return shape, self._node(place, json_values.MAP, column, keys[0].column, node)
        return shape, self._node(place, json_values.LIST, column, node)

    def _object(self, kind: JsonType, place: str) -> tuple[JsonShape, int]:
        column = self._column(json_values.STRUCT)
        members = [
            self._compiled(child, f"{place}.{name}" if place else name)
            for name, child in zip(kind.names, kind.children, strict=True)
        ]
        encoded, fields = [name.encode() for name in kind.names], array("q")
        for name, (_, node) in zip(encoded, members, strict=True):
            fields.extend((len(self.names), len(name), node))
            self.names += name
        order = sorted(range(len(encoded)), key=lambda number: (len(encoded[number]), encoded[number]))
        shape = self._with_children(kind, column, [member for member, _ in members])
        return shape, self._node(place, json_values.OBJECT, column, len(members), *fields, *order)

    def _node(self, place: str, *numbers: int) -> int:
        node = len(self.code)
        self.code.extend(numbers)
        self.places[node] = place
        return node

    def _column(self, kind: int, width: int = 0) -> int:
        number = len(self.columns) // json_values.COLUMN_NUMBERS
        if number >= COLUMNS_MAX:
            raise InvalidSchema(f"the schema has more than {COLUMNS_MAX} columns")
        self.columns.extend((kind, width, 0, 0))
        return number

    def _with_children(self, kind: JsonType, column: int, children: list[JsonShape]) -> JsonShape:
        at = column * json_values.COLUMN_NUMBERS
        self.columns[at + 2 : at + 4] = array("q", (len(self.children), len(children)))
        self.children.extend(child.column for child in children)
        return JsonShape(kind, column, tuple(children))


def members_of(kind: JsonType, path: Path = (), tags: frozenset[str] = frozenset()) -> Iterator[TypeMember]:
    """Yield the columns of a type, and those within them, with their tags."""
    tags |= kind.tags
    if kind.kind in ("array", "map"):
        yield from members_of(kind.children[0], path, tags)
        return
    yield TypeMember(path, tags, kind.within, is_open=kind.kind == "json")
    for name, child in zip(kind.names, kind.children, strict=True):
        yield from members_of(child, (*path, name))


def type_of(kind: JsonType) -> pa.DataType:
    """Return the type of Arrow."""
    if kind.kind in _LEAVES:
        return _LEAVES[kind.kind][3]
    children = [type_of(child) for child in kind.children]
    if kind.kind == "object":
        return pa.struct([pa.field(name, child) for name, child in zip(kind.names, children, strict=True)])
    return pa.map_(pa.string(), children[0]) if kind.kind == "map" else pa.list_(children[0])


def _array_of(shape: JsonShape, buffers: Sequence[ColumnBuffers]) -> pa.Array:
    """Return the array of a column and its children."""
    column, made = buffers[shape.column], type_of(shape.type)
    if made == pa.null():
        return pa.nulls(column.count)
    children = [_array_of(child, buffers) for child in shape.children]
    if shape.type.kind == "map":
        children = [pa.StructArray.from_arrays(children, fields=[made.key_field, made.item_field])]
    parts = [column.validity]
    parts += [part for part in (column.ends, column.data) if part is not None]
    held = [None if part is None else pa.py_buffer(part) for part in parts]
    return pa.Array.from_buffers(made, column.count, held, column.null_count, children=children)
