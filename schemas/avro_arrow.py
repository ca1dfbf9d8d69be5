"""Values of Avro as arrays of Arrow: whole buffers, and no Python object per record.

    decoder = AvroDecoder(writer, reader)
    array, faults = decoder.decode(values, picks, skip=5)

| Avro | Arrow |
|---|---|
| record, array, map | struct, list, map |
| union with null and one other type | the other type, nullable |
| other unions | struct with a field for each type but null, of which one is not null |
| enum | dictionary of text |
| decimal of up to 38 digits, of more | decimal128, bytes |
| date, time-…, timestamp-…, local-timestamp-… | date32, time32, time64, timestamp in UTC, timestamp without a zone |
| uuid | text |
| duration | month, day and nanosecond interval |
| a record within itself | bytes of Avro, in the writer's schema |
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

import pyarrow as pa

from offsetfs.schemas.avro_program import DECIMAL_DIGITS_MAX, Shape, compiled
from offsetfs.schemas.avro_schema import ArrayType, AvroType, EnumType, FixedType, MapType, RecordType, UnionType
from offsetfs.schemas.masks import Path, TypeMember
from offsetfs.storage.records.avro import AvroColumnDecoder, ColumnBuffers, DecodingFault

_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}

_LOGICAL = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "timestamp-nanos": pa.timestamp("ns", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
    "uuid": pa.string(),
    "duration": pa.month_day_nano_interval(),
}

_BRANCH = {b"offsetfs": b"branch"}
"""Metadata of the fields of a struct that stands for a union."""


def is_union(kind: pa.DataType) -> bool:
    """Whether a struct has a field for each type of a union, of which one is not null."""
    return kind.num_fields > 0 and bool(kind.field(0).metadata == _BRANCH)


class AvroDecoder:
    """Decodes values of one writer's schema as the type of a reader's schema. One thread at a time uses it."""

    def __init__(self, writer: AvroType, reader: AvroType) -> None:
        """`SchemasDiffer` if no value of the writer can be read as the reader's type."""
        self._program = program = compiled(writer, reader)
        self._decoder = AvroColumnDecoder(
            program.code, program.root, program.columns, program.children, program.constants
        )
        self.type = _type_of(program.shape)

    def decode(self, values: pa.BinaryArray, picks: array[int], skip: int) -> tuple[pa.Array, Sequence[DecodingFault]]:
        """Return the decoded values of the rows `picks` (int32), without their first `skip` bytes.

        A null stays a null. A value that does not fit its schema is a null and has a fault, whose `row` is a position
        in `picks`. `MemoryError` if the values of a batch need more than 1 GiB.
        """
        validity, ends, data = values.buffers()
        if values.offset:
            raise ValueError("a slice of an array")
        self._decoder.decode(ends, data if data is not None else b"", validity, picks, skip)
        faults = self._decoder.faults
        return _array_of(self._program.shape, self._decoder.finish()), faults

    def place(self, fault: DecodingFault) -> str:
        """Return the field whose bytes did not fit; empty for the value itself."""
        return self._program.place(fault.node)


def avro_members(reader: AvroType) -> Iterator[TypeMember]:
    """Yield the columns of a type with their tags. `SchemasDiffer` if it has too many."""
    yield from _members(compiled(reader, reader).shape, (), frozenset(), ())


def _members(
    shape: Shape, path: Path, tags: frozenset[str], around: tuple[tuple[RecordType, Path], ...]
) -> Iterator[TypeMember]:
    kind = shape.type
    if isinstance(kind, RecordType):
        tags |= kind.tags
        if shape.is_raw:
            yield TypeMember(path, tags, next(place for record, place in around if record is kind))
            return
        around = (*around, (kind, path))
    if isinstance(kind, ArrayType | MapType):
        yield from _members(shape.children[-1], path, tags, around)
        return
    yield TypeMember(path, tags)
    for number, child in enumerate(shape.children):
        own = kind.fields[number].tags if isinstance(kind, RecordType) else frozenset[str]()
        yield from _members(child, (*path, shape.names[number]), own, around)


def _type_of(shape: Shape) -> pa.DataType:
    kind = shape.type
    if shape.is_raw:
        return pa.binary()
    if isinstance(kind, RecordType | UnionType):
        mark = _BRANCH if isinstance(kind, UnionType) else None
        children = zip(shape.names, shape.children, strict=True)
        return pa.struct([pa.field(name, _type_of(child), metadata=mark) for name, child in children])
    if isinstance(kind, ArrayType):
        return pa.list_(_type_of(shape.children[0]))
    if isinstance(kind, MapType):
        return pa.map_(pa.string(), _type_of(shape.children[1]))
    if isinstance(kind, EnumType):
        return pa.dictionary(pa.int32(), pa.string())
    logical = kind.logical
    if logical and logical.name != "decimal":
        return _LOGICAL[logical.name]
    if logical and logical.precision <= DECIMAL_DIGITS_MAX:
        return pa.decimal128(logical.precision, logical.scale)
    return pa.binary(kind.size) if isinstance(kind, FixedType) else _PRIMITIVES[kind.name]


def _array_of(shape: Shape, buffers: Sequence[ColumnBuffers]) -> pa.Array:
    """Return the array of a column and its children."""
    column, kind = buffers[shape.column], shape.type
    made = _type_of(shape)
    validity, ends, data = (
        None if part is None else pa.py_buffer(part) for part in (column.validity, column.ends, column.data)
    )
    children = [_array_of(child, buffers) for child in shape.children]
    nulls = column.null_count
    if shape.is_raw:
        return pa.Array.from_buffers(made, column.count, [validity, ends, data], nulls)
    if isinstance(kind, RecordType | UnionType):
        _check(all(len(child) == column.count for child in children))
        return pa.Array.from_buffers(made, column.count, [validity], nulls, children=children)
    if isinstance(kind, ArrayType):
        return pa.Array.from_buffers(made, column.count, [validity, ends], nulls, children=children)
    if isinstance(kind, MapType):
        _check(len(children[0]) == len(children[1]))
        entries = pa.StructArray.from_arrays(children, fields=[made.key_field, made.item_field])
        return pa.Array.from_buffers(made, column.count, [validity, ends], nulls, children=[entries])
    if isinstance(kind, EnumType):
        indices = pa.Array.from_buffers(pa.int32(), column.count, [validity, data], nulls)
        return pa.DictionaryArray.from_arrays(indices, pa.array(kind.symbols, pa.string()))
    if made == pa.null():
        return pa.nulls(column.count)
    if ends is None:
        return pa.Array.from_buffers(made, column.count, [validity, data], nulls)
    return pa.Array.from_buffers(made, column.count, [validity, ends, data], nulls)


def _check(is_right: bool) -> None:
    assert is_right, "columns of one record differ in their lengths"
