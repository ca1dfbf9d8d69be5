"""Decoded values as the Arrow types of another system: text for enums, structs for intervals, wider numbers.

Whole columns are cast; values are looked at one by one only if one of them has no equal in the other type.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc


def cast_values(values: pa.Array, kind: pa.DataType, reasons: pa.Array, beyond: str) -> tuple[pa.Array, pa.Array]:
    """Return values as another type, and the reasons of those that are null: `beyond` for values that it lacks."""
    try:
        return cast_array(values, kind), reasons
    except pa.ArrowInvalid:
        return _row_by_row(values, kind, reasons, beyond)


def _row_by_row(values: pa.Array, kind: pa.DataType, reasons: pa.Array, beyond: str) -> tuple[pa.Array, pa.Array]:
    made, found = [], reasons.to_pylist()
    for row in range(len(values)):
        try:
            made.append(cast_array(values.slice(row, 1), kind))
        except pa.ArrowInvalid:
            made.append(pa.nulls(1, kind))
            found[row] = beyond
    return pa.concat_arrays(made), pa.array(found, pa.string())


def cast_array(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column as another type. `pa.ArrowInvalid` for values that it lacks."""
    if column.type == kind:
        return column
    if column.offset:
        column = pa.concat_arrays([column])
    if pa.types.is_interval(column.type):
        names = kind.names
        rows = [None if struct is None else dict(zip(names, struct, strict=True)) for struct in column.to_pylist()]
        return pa.array(rows, kind)
    if pa.types.is_boolean(kind) and pa.types.is_struct(column.type):
        return pc.if_else(column.is_valid(), True, pa.scalar(None, kind))
    if pa.types.is_struct(kind):
        parts = [cast_array(part, field.type) for part, field in zip(_children(column), kind, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null())
    if pa.types.is_map(kind):
        parts = [cast_array(column.keys, kind.key_type), cast_array(column.items, kind.item_type)]
        entries = pa.StructArray.from_arrays(parts, fields=[kind.key_field, kind.item_field])
        return pa.Array.from_buffers(kind, len(column), column.buffers()[:2], column.null_count, children=[entries])
    if pa.types.is_list(kind):
        items = cast_array(column.values, kind.value_type)
        return pa.Array.from_buffers(kind, len(column), column.buffers()[:2], column.null_count, children=[items])
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(kind)


def _children(column: pa.Array) -> Sequence[pa.Array]:
    return [column.field(number) for number in range(column.type.num_fields)]
