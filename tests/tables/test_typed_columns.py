"""Columns for the fields of decoded values: names, kinds, and values in JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from offsetfs.tables.databases.layout import TableError
from offsetfs.tables.databases.typed_columns import TypedColumn, UnfitValue, stored_rows, typed_columns

pytestmark = pytest.mark.unit


def test_names_of_own_columns_get_a_number_and_two_alike_are_refused() -> None:
    kind = pa.struct([("Payload", pa.int32()), ("id", pa.int64()), ("value_error", pa.string())])
    assert [column.name for column in typed_columns(kind)] == ["Payload_1", "id", "value_error_1"]
    assert [(column.name, column.kind) for column in typed_columns(pa.string())] == [("value", "text")]
    for names in (("a", "A"), ("payload", "payload_1")):
        with pytest.raises(TableError, match=f"the fields {names[0]} and {names[1]} need columns of the same name"):
            typed_columns(pa.struct([(name, pa.int32()) for name in names]))


def test_nested_values_are_json() -> None:
    value = {
        "numbers": [float("nan"), float("inf"), 1.5, Decimal("1E+2"), 1 << 70],
        "at": datetime(2026, 1, 2, tzinfo=UTC),
        "span": pa.MonthDayNano([1, 2, 3]),
        "bytes": b"\xff",
        "map": {"k": None},
    }
    text = TypedColumn("c", "c", "json").stored(value, "sqlite")
    assert json.loads(str(text)) == {
        "numbers": ["nan", "inf", 1.5, "100", 1 << 70],
        "at": "2026-01-02 00:00:00Z",
        "span": {"months": 1, "days": 2, "nanoseconds": 3},
        "bytes": "/w==",
        "map": {"k": None},
    }


@pytest.mark.parametrize(
    ("kind", "value", "scheme"),
    [
        ("integer", 1 << 63, "sqlite"),
        ("real", float("nan"), "mysql"),
        ("text", "a\0", "postgresql"),
        ("json", {"a": ["b\0"]}, "postgresql"),
    ],
)
def test_what_a_database_lacks_is_refused(kind: str, value: Any, scheme: str) -> None:
    with pytest.raises(UnfitValue):
        TypedColumn("c", "c", kind).stored(value, scheme)
    typed, reasons = stored_rows([TypedColumn("c", "c", kind)], [({"c": value}, None), (None, "why")], scheme)
    assert typed == {"c": [None, None]} and str(reasons[0]).startswith("field c: ") and reasons[1] == "why"


def test_durations_are_nanoseconds() -> None:
    (column,) = typed_columns(pa.struct([("d", pa.duration("ns"))]))
    assert column.kind == "integer"
    for value in pa.array([5_000_000_007, -3, 0], pa.duration("ns")):
        assert column.stored(value.as_py(), "sqlite") == value.value
    assert column.stored(timedelta(days=-1, microseconds=5), "sqlite") == (5 - 86_400_000_000) * 1000
    assert TypedColumn("c", "c", "json").stored([timedelta(seconds=1)], "sqlite") == "[1000000000]"


def test_a_text_of_json_that_only_looks_like_a_nul_is_kept() -> None:
    text = TypedColumn("c", "c", "json").stored(["\\u0000", "\\\\u0000"], "postgresql")
    assert json.loads(str(text)) == ["\\u0000", "\\\\u0000"]


def test_no_rows_have_all_columns() -> None:
    assert stored_rows(typed_columns(pa.struct([("a", pa.int32())])), [], "sqlite") == ({"a": []}, [])
