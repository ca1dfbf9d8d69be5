"""Values of Protobuf as arrays of Arrow: whole buffers, and no Python object per record.

    decoder = ProtobufDecoder(writer, reader)
    array, faults = decoder.decode(values, picks, skips)

| Protobuf | Arrow |
|---|---|
| message, repeated, map | struct, list, map; of a key that is there twice, the last value |
| an absent message, `optional`, oneof, proto2 | null |
| another absent field | its default |
| enum | dictionary of text; a number without a name as its digits |
| Timestamp, Duration | timestamp in UTC, duration; both in nanoseconds |
| Int32Value and the other wrappers | the type in them, nullable |
| Struct, Value, ListValue | JSON text |
| a message within itself, without fields, or nested too deeply | bytes of Protobuf |
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from offsetfs.schemas.masks import Path, TypeMember
from offsetfs.schemas.protobuf_json import json_array
from offsetfs.schemas.protobuf_program import Form, ProtobufShape, compiled
from offsetfs.schemas.protobuf_schema import MessageType, ProtobufEnum
from offsetfs.storage.records.protobuf import FAULTS, ColumnBuffers, ProtobufColumnDecoder

_SCALARS = {
    "int32": pa.int32(), "sint32": pa.int32(), "sfixed32": pa.int32(), "uint32": pa.uint32(), "fixed32": pa.uint32(),
    "int64": pa.int64(), "sint64": pa.int64(), "sfixed64": pa.int64(), "uint64": pa.uint64(), "fixed64": pa.uint64(),
    "float": pa.float32(), "double": pa.float64(), "bool": pa.bool_(), "string": pa.string(), "bytes": pa.binary(),
}  # fmt: skip

_TIMES = {
    "google.protobuf.Timestamp": pa.timestamp("ns", "UTC"),
    "google.protobuf.Duration": pa.duration("ns"),
}

_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)

_ENUM = pa.dictionary(pa.int32(), pa.string())

_BAD_TIME = "a time is outside of the years 1678 to 2261, or a duration is longer than 292 years: it is null"
_BAD_JSON = "a value of Struct is damaged: it is null"

_SECOND = 1_000_000_000

Numbers: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"
_Lost: TypeAlias = "list[tuple[Numbers, str]]"
"""Rows of a column in which a value was lost, and why."""


class ProtobufFault(NamedTuple):
    """A value that does not fit its schema, or of which a part is null."""

    row: int
    reason: str


class ProtobufDecoder:
    """Decodes messages of one writer's type as those of a reader. One thread at a time uses it."""

    def __init__(self, writer: MessageType, reader: MessageType, names: Sequence[str] | None = None) -> None:
        """`names`: the fields of the reader that are read; None: all. `SchemasDiffer` if they cannot be."""
        self._program = program = compiled(writer, reader, names)
        self._decoder = ProtobufColumnDecoder(program.code, program.root, program.columns, program.children)
        self.type = _type_of(program.shape)

    def decode(
        self, values: pa.BinaryArray, picks: array[int], skips: array[int]
    ) -> tuple[pa.Array, Sequence[ProtobufFault]]:
        """Return the messages of the rows `picks`, each without as many first bytes as `skips` has for it (int32).

        A null stays a null. A value that is damaged is a null and has a fault, whose `row` is a position in `picks`. A
        time that Arrow cannot hold is a null within a value that has a fault. `MemoryError` if the values of a batch
        need more than 1 GiB.
        """
        validity, ends, data = values.buffers()
        if values.offset:
            raise ValueError("a slice of an array")
        self._decoder.decode(ends, data if data is not None else b"", validity, picks, skips)
        found = self._decoder.faults
        lost: _Lost = []
        made = _array_of(self._program.shape, self._decoder.finish(), lost)
        faults = {fault.row: self._reason(fault.code, fault.node) for fault in found}
        for rows, reason in lost:
            for row in rows.tolist():
                faults.setdefault(row, reason)
        return made, [ProtobufFault(row, faults[row]) for row in sorted(faults)]

    def _reason(self, code: int, node: int) -> str:
        return _at(self._program.places.get(node, ""), FAULTS[code])


def protobuf_members(reader: MessageType) -> Iterator[TypeMember]:
    """Yield the columns of a message with their tags, for masks."""
    yield from _members(compiled(reader, reader).shape, (), frozenset(), ())


def _members(
    shape: ProtobufShape, path: Path, tags: frozenset[str], around: tuple[tuple[object, Path], ...]
) -> Iterator[TypeMember]:
    if shape.form in (Form.LIST, Form.MAP):
        inner = shape.children[0]
        yield from _members(inner.children[1] if shape.form == Form.MAP else inner, path, tags, around)
        return
    message = shape.type if isinstance(shape.type, MessageType) else None
    within = next((place for kind, place in around if kind is shape.type), None)
    if shape.form == Form.RAW:
        inside = frozenset[str]() if within is not None or message is None else _all_tags(message)
        yield TypeMember(path, tags | inside, within, is_open=within is None)
        return
    tags |= frozenset() if message is None else message.tags
    yield TypeMember(path, tags, is_open=shape.form == Form.JSON)
    if message is not None and shape.form == Form.MESSAGE and not is_leaf(shape):
        own = {field.name: field.tags for field in message.fields}
        for name, child in zip(shape.names, shape.children, strict=True):
            yield from _members(child, (*path, name), own[name], (*around, (shape.type, path)))


def _all_tags(message: MessageType) -> frozenset[str]:
    """Return the tags of a message and of all that it leads to, which its bytes have within them."""
    tags, waiting, seen = set[str](), [message], {message.name}
    while waiting:
        current = waiting.pop()
        tags |= current.tags.union(*(field.tags for field in current.fields))
        for field in current.fields:
            if isinstance(field.type, MessageType) and field.type.name not in seen:
                seen.add(field.type.name)
                waiting.append(field.type)
    return frozenset(tags)


def _at(place: str, reason: str) -> str:
    return f"field {place}: {reason}" if place else reason


# --- types -----------------------------------------------------------------------------------------------------------


def well_known(shape: ProtobufShape) -> str:
    """Return the name of a type of which another type of Arrow is made; empty for other messages."""
    kind = shape.type
    if shape.form != Form.MESSAGE or not isinstance(kind, MessageType):
        return ""
    described = [(member.number, member.type, member.is_repeated) for member in kind.fields]
    if kind.name in _TIMES and described == [(1, "int64", False), (2, "int32", False)]:
        return kind.name
    is_wrapper = len(described) == 1 and described[0][1] in _SCALARS and not described[0][2]
    return kind.name if kind.name in _WRAPPERS and is_wrapper else ""


def is_leaf(shape: ProtobufShape) -> bool:
    """Return whether a column is of a type of Arrow in place of a struct."""
    return bool(well_known(shape)) and bool(shape.place)


def _type_of(shape: ProtobufShape) -> pa.DataType:
    if shape.form == Form.LIST:
        return pa.list_(_type_of(shape.children[0]))
    if shape.form == Form.MAP:
        keys, values = shape.children[0].children
        return pa.map_(_type_of(keys), _type_of(values))
    if shape.form == Form.MESSAGE:
        if is_leaf(shape):
            return _TIMES.get(well_known(shape)) or _type_of(shape.children[0])
        names = zip(shape.names, shape.children, strict=True)
        return pa.struct([pa.field(name, _type_of(child)) for name, child in names])
    if shape.form == Form.JSON:
        return pa.string()
    if shape.form == Form.RAW:
        return pa.binary()
    return _ENUM if isinstance(shape.type, ProtobufEnum) else _SCALARS[str(shape.type)]


# --- arrays ----------------------------------------------------------------------------------------------------------


def _array_of(shape: ProtobufShape, buffers: Sequence[ColumnBuffers], lost: _Lost) -> pa.Array:
    """Return the array of a column and its children, and add to `lost` what it cannot hold."""
    column = buffers[shape.column]
    validity, ends, data = (
        None if part is None else pa.py_buffer(part) for part in (column.validity, column.ends, column.data)
    )
    count, nulls = column.count, column.null_count
    if shape.form in (Form.LIST, Form.MAP):
        return _items_of(shape, buffers, lost)
    if shape.form == Form.MESSAGE:
        children = [_array_of(child, buffers, lost) for child in shape.children]
        assert all(len(child) == count for child in children), "columns of one message differ in their lengths"
        made = pa.Array.from_buffers(
            pa.struct([pa.field(name, child.type) for name, child in zip(shape.names, children, strict=True)]),
            count, [validity], nulls, children=children,
        )  # fmt: skip
        return _leaf_of(shape, made, lost) if is_leaf(shape) else made
    if shape.form == Form.JSON:
        raw = pa.Array.from_buffers(pa.binary(), count, [validity, ends, data], nulls)
        assert isinstance(shape.type, MessageType)
        text, damaged = json_array(raw, shape.type.name)
        _add(lost, damaged, shape, _BAD_JSON)
        return text
    if isinstance(shape.type, ProtobufEnum):
        return _enum_of(pa.Array.from_buffers(pa.int32(), count, [validity, data], nulls), shape.type)
    parts = [validity, data] if ends is None else [validity, ends, data]
    return pa.Array.from_buffers(_type_of(shape), count, parts, nulls)


def _items_of(shape: ProtobufShape, buffers: Sequence[ColumnBuffers], lost: _Lost) -> pa.Array:
    """Return an array of lists or maps."""
    column = buffers[shape.column]
    inner: _Lost = []
    items = _array_of(shape.children[0], buffers, inner)
    validity, ends = (None if part is None else pa.py_buffer(part) for part in (column.validity, column.ends))
    numbers = np.frombuffer(ends, np.int32)
    for rows, reason in inner:
        lost.append((np.searchsorted(numbers, rows, "right").astype(np.int64) - 1, reason))
    if shape.form == Form.LIST:
        made = pa.list_(items.type)
        return pa.Array.from_buffers(made, column.count, [validity, ends], column.null_count, children=[items])
    keys, values = items.flatten()
    kept = _last_of_each_key(keys, numbers)
    if kept is not None:
        keys, values = keys.take(kept), values.take(kept)
        before = np.searchsorted(kept, numbers)
        ends = pa.py_buffer(before.astype(np.int32).tobytes())
    map_type = pa.map_(keys.type, values.type)
    entries = pa.StructArray.from_arrays([keys, values], fields=[map_type.key_field, map_type.item_field])
    return pa.Array.from_buffers(map_type, column.count, [validity, ends], column.null_count, children=[entries])


def _last_of_each_key(keys: pa.Array, ends: np.ndarray[tuple[int], np.dtype[np.int32]]) -> Numbers | None:
    """Return the entries that stay if some map has a key twice; None if none has."""
    sizes = np.diff(ends)
    if not len(sizes) or sizes.max() < 2:
        return None
    rows = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    coded = keys.dictionary_encode()
    names = np.asarray(coded.indices).astype(np.int64) + rows * max(len(coded.dictionary), 1)
    _, last = np.unique(names[::-1], return_index=True)
    if len(last) == len(names):
        return None
    return np.sort(len(names) - 1 - last)


def _leaf_of(shape: ProtobufShape, made: pa.StructArray, lost: _Lost) -> pa.Array:
    """Return the time, the duration or the scalar that a message stands for."""
    target = _TIMES.get(well_known(shape))
    if target is None:
        return made.field(0)  # absent values of it are null, because all children of a null are
    seconds, nanos = (np.frombuffer(part.buffers()[1], kind) if len(part) else np.zeros(0, kind) for part, kind in zip(
        made.flatten(), (np.int64, np.int32), strict=True))  # fmt: skip
    seconds, nanos = seconds[: len(made)], nanos[: len(made)]
    is_time = pa.types.is_timestamp(target)
    limit = (1 << 63) // _SECOND - 1
    fits = (seconds >= -limit) & (seconds <= limit) & (nanos < _SECOND) & (nanos >= (0 if is_time else 1 - _SECOND))
    total = np.where(fits, seconds, 0) * _SECOND + np.where(fits, nanos, 0)
    valid = np.asarray(made.is_valid())
    if not fits.all():
        _add(lost, np.flatnonzero(valid & ~fits), shape, _BAD_TIME)
    mask = ~(valid & fits)
    return pa.array(total, pa.int64(), mask=mask if mask.any() else None).view(target)


def _enum_of(numbers: pa.Int32Array, kind: ProtobufEnum) -> pa.DictionaryArray:
    """Return the names of an enum's numbers; a number without a name is its digits."""
    count = len(numbers)
    found = np.frombuffer(numbers.buffers()[1], np.int32)[:count] if count else np.zeros(0, np.int32)
    names, validity = list(kind.symbols.values()), numbers.buffers()[0]
    known = np.fromiter(kind.symbols, np.int32, len(kind.symbols))
    if count and np.array_equal(known, np.arange(len(known))) and found.min() >= 0 and found.max() < len(known):
        return pa.DictionaryArray.from_arrays(numbers, pa.array(names, pa.string()))
    order = np.argsort(known)
    places = np.searchsorted(known[order], found) if len(known) else np.zeros(count, np.int64)
    codes = np.full(count, -1, np.int32)
    if len(known):
        candidates = order[np.minimum(places, len(known) - 1)]
        codes = np.where(known[candidates] == found, candidates, -1).astype(np.int32)
    unknown = np.unique(found[codes < 0])
    if len(unknown):
        codes = np.where(codes < 0, len(names) + np.searchsorted(unknown, found), codes).astype(np.int32)
        names += map(str, unknown.tolist())
    indices = pa.Array.from_buffers(pa.int32(), count, [validity, pa.py_buffer(codes)], numbers.null_count)
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string()))


def _add(lost: _Lost, rows: Numbers, shape: ProtobufShape, reason: str) -> None:
    if len(rows):
        lost.append((rows.astype(np.int64), _at(shape.place, reason)))
