"""Columns of Arrow as lines of JSON for people: whole columns, and no Python object per value.

| Arrow | JSON |
|---|---|
| struct, map | object |
| struct of the types of a union | the value, without the name of its type |
| list | array |
| integer, floating point | number; `"NaN"`, `"Infinity"`, `"-Infinity"` |
| decimal | text, such as `"12.50"` |
| date, time of day, timestamp | text of ISO 8601; `Z` behind a timestamp in UTC |
| interval, duration | text of ISO 8601, such as `"P1M2DT3.5S"` |
| bytes | text if they are UTF-8; else base64 with `_b64` behind the name, or in an object `{"b64": …}` |

Others are shown as Arrow writes them. The engine writes the lines (`storage.records.column_json`).
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from offsetfs.schemas.avro_arrow import is_union
from offsetfs.storage.records import column_json as engine
from offsetfs.storage.records.column_json import JsonColumn

_UNITS = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


class JsonColumns:
    """The columns of lines. `is_base64`: all bytes are in base64, not only those that are not UTF-8."""

    def __init__(self, is_base64: bool = False) -> None:
        self._bytes_kind = engine.BASE64 if is_base64 else engine.TEXT
        self._columns: list[JsonColumn] = []

    def lines(self) -> tuple[bytes, array[int]]:
        """Return a line for each row of the first column, and where each ends. `DecompressionLimit` above 512 MiB."""
        return engine.lines(self._columns)

    def texts(self) -> pa.BinaryArray:
        """Return the JSON of each row of the first column. Raises as `lines`."""
        data, ends = engine.lines(self._columns, newline=b"")
        starts = np.zeros(len(ends) + 1, np.int32)
        starts[1:] = np.frombuffer(ends, np.int64)
        return pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(starts), pa.py_buffer(data)])

    def begin(self, count: int, *, is_choice: bool = False) -> None:
        """Add the first column, an object of `count` rows, or `is_choice`: the first of its members that is not null.

        `end` gives it its members.
        """
        self._columns.append(JsonColumn(engine.UNION if is_choice else engine.STRUCT, count))

    def end(self, members: Sequence[int]) -> None:
        """Set the members of the first column."""
        self._columns[0] = self._columns[0]._replace(children=tuple(members))

    def add(self, values: pa.Array, name: str | bytes = "", *, is_omitted: bool = False, is_text: bool = False) -> int:
        """Add a column and its children. Return its number.

        `name`: of the member; bytes: what stands before the quote and the colon. `is_omitted`: an object has no such
        member for a null. `is_text`: each value is JSON.
        """
        number = len(self._columns)
        self._columns.append(JsonColumn(engine.NOTHING, 0))
        made = self._of(values) if not is_text else _variable(engine.VERBATIM, values)
        self._columns[number] = made._replace(name=_begun(name), is_omitted=is_omitted)
        return number

    def _of(self, values: pa.Array) -> JsonColumn:
        kind = values.type
        if pt.is_dictionary(kind):
            has_words = len(values.dictionary) > 0
            return self._of(values.dictionary_decode() if has_words else pa.nulls(len(values), kind.value_type))
        if pt.is_struct(kind):
            children = tuple(self.add(values.field(at), kind.field(at).name) for at in range(kind.num_fields))
            return _plain(engine.UNION if is_union(kind) else engine.STRUCT, values)._replace(children=children)
        if pt.is_map(kind):
            keys, items = values.keys, values.items
            keys = keys if pt.is_string(keys.type) else keys.cast(pa.string())
            return _listed(engine.MAP, values, (self.add(keys), self.add(items)))
        if pt.is_list(kind):
            return _listed(engine.LIST, values, (self.add(values.values),))
        if pt.is_binary(kind):
            return _variable(self._bytes_kind, values)
        if pt.is_fixed_size_binary(kind):
            return _variable(self._bytes_kind, values.cast(pa.binary()))
        return _scalars(values)


def _scalars(values: pa.Array) -> JsonColumn:
    kind = values.type
    if pt.is_null(kind):
        return JsonColumn(engine.NOTHING, len(values))
    if pt.is_boolean(kind):
        return _plain(engine.BITS, values, has_data=True)
    if pt.is_string(kind):
        return _variable(engine.TEXT, values)
    if pt.is_floating(kind):
        return _variable(engine.NUMBER, values.cast(pa.string()))
    if pt.is_decimal128(kind) and kind.scale >= 0:
        return _plain(engine.DECIMAL, values, kind.scale, has_data=True)
    if pt.is_unsigned_integer(kind):
        return _plain(engine.UNSIGNED, values.cast(pa.uint64()), has_data=True)
    if pt.is_integer(kind):
        return _plain(engine.SIGNED, values.cast(pa.int64()), has_data=True)
    if pt.is_date32(kind):
        return _plain(engine.DATE, values.cast(pa.int32()).cast(pa.int64()), has_data=True)
    if pt.is_time32(kind):
        return _plain(engine.TIME, values.cast(pa.int32()).cast(pa.int64()), _UNITS[kind.unit], has_data=True)
    if pt.is_time64(kind):
        return _plain(engine.TIME, values.cast(pa.int64()), _UNITS[kind.unit], has_data=True)
    if pt.is_timestamp(kind):
        is_instant = engine.INSTANT if kind.tz else engine.TIMESTAMP
        return _plain(is_instant, values.cast(pa.int64()), _UNITS[kind.unit], has_data=True)
    return _others(values)


def _others(values: pa.Array) -> JsonColumn:
    """Return values of seldom types as text."""
    kind = values.type
    if pt.is_interval(kind):
        parts = (None if interval is None else _period(*interval) for interval in values.to_pylist())
        return _variable(engine.TEXT, pa.array(parts, pa.string()))
    if pt.is_duration(kind):
        counts, units = values.cast(pa.int64()).to_pylist(), _UNITS[kind.unit]
        parts = (None if time is None else _period(0, 0, time * (1_000_000_000 // units)) for time in counts)
        return _variable(engine.TEXT, pa.array(parts, pa.string()))
    return _variable(engine.TEXT, pc.cast(values, pa.string()))


def _period(months: int, days: int, nanoseconds: int) -> str:
    """Return an ISO 8601 duration. The parts are apart, because a month has no number of days."""
    seconds, rest = divmod(abs(nanoseconds), 1_000_000_000)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    sign = "-" if nanoseconds < 0 else ""
    date = (f"{months}M" if months else "") + (f"{days}D" if days else "")
    time = f"T{sign}{seconds}{fraction}S" if nanoseconds or not date else ""
    return f"P{date}{time}"


def _plain(kind: int, values: pa.Array, param: int = 0, *, has_data: bool = False) -> JsonColumn:
    """Return a column of fixed width, or of children."""
    buffers = values.buffers()
    # The children of a struct come without its offset, and `StructArray.field` has applied that to them.
    return JsonColumn(
        kind,
        len(values),
        param=param,
        validity=buffers[0],
        data=(buffers[1] or b"") if has_data else None,
        start=values.offset,
    )


def _variable(kind: int, values: pa.Array) -> JsonColumn:
    validity, ends, data = values.buffers()
    return JsonColumn(kind, len(values), validity=validity, ends=ends, data=data or b"", start=values.offset)


def _listed(kind: int, values: pa.Array, children: tuple[int, ...]) -> JsonColumn:
    validity, ends = values.buffers()[:2]
    return JsonColumn(kind, len(values), validity=validity, ends=ends, start=values.offset, children=children)


def _begun(name: str | bytes) -> bytes:
    return name if isinstance(name, bytes) else json.dumps(name, ensure_ascii=False).encode()[:-1]
