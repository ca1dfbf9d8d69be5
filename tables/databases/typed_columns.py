"""Columns of a database for the fields of decoded values, and values as these columns take them.

    kind         Arrow                                    PostgreSQL         MySQL, MariaDB   SQLite
    integer      integers, durations in nanoseconds       BIGINT             BIGINT           INTEGER
    real         floats                                   DOUBLE PRECISION   DOUBLE           REAL
    decimal      decimals                                 NUMERIC            DECIMAL          TEXT
    boolean      booleans                                 BOOLEAN            BOOLEAN          INTEGER
    text         text, enums, times in nanoseconds        TEXT               LONGTEXT         TEXT
    bytes        bytes                                    BYTEA              LONGBLOB         BLOB
    date, time   dates, times of day                      DATE, TIME         DATE, TIME(6)    TEXT
    timestamp    timestamps in UTC                        TIMESTAMPTZ        DATETIME(6)      TEXT
    local        timestamps without a zone                TIMESTAMP          DATETIME(6)      TEXT
    json         structs, lists, maps, intervals          JSONB              JSON             TEXT

A type of a schema may become another one of its kind without a change of the column: int becomes long.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from offsetfs.tables.databases.layout import COLUMNS, DECODED_KEY, DECODING_ERROR, VALUE_BYTES, TableError
from offsetfs.tables.databases.table_location import POSTGRES, SQLITE

VALUE = "value"
"""The column of values that are not records."""

_NUL = re.compile(r"(?<!\\)(\\\\)*\\u0000")
"""A NUL in a text of JSON: JSONB has none."""

_TESTS: tuple[tuple[str, Callable[[pa.DataType], bool]], ...] = (
    ("integer", pa.types.is_integer),
    ("integer", pa.types.is_duration),
    ("real", pa.types.is_floating),
    ("decimal", pa.types.is_decimal),
    ("boolean", pa.types.is_boolean),
    ("date", pa.types.is_date),
    ("time", pa.types.is_time),
    ("json", pa.types.is_nested),
    ("json", pa.types.is_interval),
    ("bytes", pa.types.is_binary),
    ("bytes", pa.types.is_fixed_size_binary),
)


class UnfitValue(ValueError):
    """A value that the database does not have. The message has no part of it."""


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """A column for a field."""

    name: str
    field: str
    kind: str
    precision: int = 0
    scale: int = 0

    def stored(self, value: Any, scheme: str) -> object:
        """Return a value as drivers take it. `UnfitValue`."""
        return None if value is None else _STORED[self.kind](value, scheme)


def typed_columns(kind: pa.DataType, *, has_keys: bool = False) -> list[TypedColumn]:
    """Return the columns for decoded values of a type. TableError for names that no table can have.

    A field with the name of a column that the table has gets `_1` behind its own. `has_keys`: keys are decoded.
    """
    fields = list(kind) if pa.types.is_struct(kind) else [pa.field(VALUE, kind)]
    others = (DECODING_ERROR, VALUE_BYTES, *([DECODED_KEY] if has_keys else []))
    own, made = {name.lower() for name in (*COLUMNS, *others)}, dict[str, TypedColumn]()
    for field in fields:
        name = f"{field.name}_1" if field.name.lower() in own else field.name
        if name.lower() in made:
            other = made[name.lower()].field
            raise TableError(f"the fields {other} and {field.name} need columns of the same name; use offsetfs sql")
        made[name.lower()] = _typed(name, field)
    return list(made.values())


def key_column(kind: pa.DataType) -> TypedColumn:
    """Return the column for decoded keys of a type: one for the whole key."""
    return _typed(DECODED_KEY, pa.field("key", kind))


def _typed(name: str, field: pa.Field) -> TypedColumn:
    kind = field.type
    if pa.types.is_timestamp(kind):
        in_nanoseconds = kind.unit == "ns"
        return TypedColumn(name, field.name, "text" if in_nanoseconds else "timestamp" if kind.tz else "local")
    found = next((name for name, is_kind in _TESTS if is_kind(kind)), "text")
    if found == "decimal":
        return TypedColumn(name, field.name, found, kind.precision, kind.scale)
    return TypedColumn(name, field.name, found)


# --- values ----------------------------------------------------------------------------------------------------------


def stored_rows(
    columns: Sequence[TypedColumn], values: Sequence[tuple[Any, str | None]], scheme: str
) -> tuple[dict[str, list[object]], list[str | None]]:
    """Return the columns of decoded values, and why a value is in none. A value is in all columns or in none."""
    is_plain = len(columns) == 1 and columns[0].field == VALUE
    rows: list[Sequence[object]] = []
    reasons: list[str | None] = []
    nothing = (None,) * len(columns)
    for value, reason in values:
        row: Sequence[object] = nothing
        if value is not None:
            try:
                row = _row(columns, value if isinstance(value, Mapping) or not is_plain else {VALUE: value}, scheme)
            except UnfitValue as error:
                reason = str(error)
        rows.append(row)
        reasons.append(reason)
    parts = zip(*rows, strict=True) if rows else ([] for _ in columns)
    return {column.name: list(part) for column, part in zip(columns, parts, strict=True)}, reasons


def stored_keys(
    column: TypedColumn, keys: Iterable[tuple[Any, str | None]], scheme: str
) -> tuple[list[object], list[str | None]]:
    """Return the column of decoded keys, and why a key is not in it."""
    stored: list[object] = []
    reasons: list[str | None] = []
    for key, reason in keys:
        try:
            stored.append(column.stored(key, scheme))
        except UnfitValue as error:
            stored.append(None)
            reason = str(error)
        reasons.append(reason)
    return stored, reasons


def _row(columns: Sequence[TypedColumn], value: Mapping[str, Any], scheme: str) -> list[object]:
    made = []
    for column in columns:
        try:
            made.append(column.stored(value.get(column.field), scheme))
        except UnfitValue as error:
            raise UnfitValue(f"field {column.field}: {error}") from None
    return made


def _integer(value: Any, scheme: str) -> object:
    if isinstance(value, timedelta):
        value = _nanoseconds(value)
    if not -(1 << 63) <= value < 1 << 63:
        raise UnfitValue("the number needs more than 64 bits with its sign")
    return value


def _nanoseconds(value: timedelta) -> int:
    """Return a duration in nanoseconds; those of pandas have them."""
    return value // timedelta(microseconds=1) * 1000 + int(getattr(value, "nanoseconds", 0)) % 1000


def _real(value: Any, scheme: str) -> object:
    if scheme != POSTGRES and not math.isfinite(value):
        raise UnfitValue("the number is not finite, and the database has no such numbers")
    return value


def _decimal(value: Any, scheme: str) -> object:
    return format(value, "f") if scheme == SQLITE else value


def _text(value: Any, scheme: str) -> object:
    text = value if isinstance(value, str) else _moment(value) if isinstance(value, date) else str(value)
    if scheme == POSTGRES and "\0" in text:
        raise UnfitValue("the text has a NUL, which PostgreSQL does not store")
    return text


def _date(value: Any, scheme: str) -> object:
    return value.isoformat() if scheme == SQLITE else value


def _timestamp(value: datetime, scheme: str) -> object:
    return _moment(value) if scheme == SQLITE else value.replace(tzinfo=None)


def _moment(value: Any) -> str:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return f"{value.astimezone(UTC).replace(tzinfo=None).isoformat(' ')}Z"
    return str(value.isoformat(" ")) if isinstance(value, datetime) else str(value.isoformat())


def _json(value: Any, scheme: str) -> object:
    text = json.dumps(_plain(value), ensure_ascii=False)
    if scheme == POSTGRES and _NUL.search(text):
        raise UnfitValue("a text within it has a NUL, which PostgreSQL does not store")
    return text


def _plain(value: Any) -> Any:
    """Return a value of JSON: numbers that are not finite, decimals and times as text, bytes in base64."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, pa.MonthDayNano):
        return {"months": value.months, "days": value.days, "nanoseconds": value.nanoseconds}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, timedelta):
        return _nanoseconds(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    return _moment(value) if isinstance(value, date | time) else value


_STORED: dict[str, Callable[[Any, str], object]] = {
    "integer": _integer,
    "real": _real,
    "decimal": _decimal,
    "boolean": lambda value, scheme: value,
    "text": _text,
    "bytes": lambda value, scheme: bytes(value),
    "date": _date,
    "time": _date,
    "timestamp": _timestamp,
    "local": _timestamp,
    "json": _json,
}
