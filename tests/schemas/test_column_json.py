"""Columns of Arrow as lines of JSON: values as people read them, and the compiled writer beside its reference."""

from __future__ import annotations

import base64
import json
from array import array
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetfs.schemas.avro_arrow import AvroDecoder, is_union
from offsetfs.schemas.avro_schema import parsed
from offsetfs.schemas.column_json import JsonColumns
from offsetfs.storage.errors import DecompressionLimit
from offsetfs.storage.native import column_json as compiled
from offsetfs.storage.reference import column_json as reference
from offsetfs.storage.reference.column_json import JsonColumn

pytestmark = pytest.mark.unit


def columns_of(values: pa.Array, *, is_base64: bool = False) -> list[JsonColumn]:
    columns = JsonColumns(is_base64)
    columns.add(values)
    return columns._columns


def shown(values: pa.Array, *, is_base64: bool = False) -> list[str]:
    """Return the lines, which the compiled writer and the reference write alike."""
    columns = columns_of(values, is_base64=is_base64)
    found, ends = compiled.lines(columns)
    assert (found, ends) == reference.lines(columns)
    assert list(ends) == [at + 1 for at, byte in enumerate(found) if byte == 10]
    return bytes(found).decode().split("\n")[:-1]  # JSON may have other ends of lines within a string


def test_numbers_keep_all_their_digits() -> None:
    assert shown(pa.array([2**63 - 1, -(2**63), 0, None, 100])) == [str(2**63 - 1), str(-(2**63)), "0", "null", "100"]
    assert shown(pa.array([2**64 - 1], pa.uint64())) == [str(2**64 - 1)]
    assert shown(pa.array([1.5, 0.1, 1e300])) == ["1.5", "0.1", "1e+300"]
    assert shown(pa.array([0.1], pa.float32())) == ["0.1"]


def test_what_is_no_number_in_json_is_text() -> None:
    assert shown(pa.array([float("nan"), float("inf"), float("-inf")])) == ['"NaN"', '"Infinity"', '"-Infinity"']


@pytest.mark.parametrize("text", ["0.00", "12.50", "-0.05", "-1.00", "99999999999999999999999999999999999.99"])
def test_decimals_are_text(text: str) -> None:
    assert shown(pa.array([Decimal(text)], pa.decimal128(38, 2))) == [f'"{text}"']


def test_a_decimal_can_be_all_fraction_or_none() -> None:
    assert shown(pa.array([Decimal("1E-38")], pa.decimal128(38, 38))) == [f'"0.{"0" * 37}1"']
    assert shown(pa.array([Decimal("-170")], pa.decimal128(38, 0))) == ['"-170"']


def test_times_are_iso_8601() -> None:
    instant = datetime(2026, 11, 20, 18, 40, 1, 123456, tzinfo=UTC)
    assert shown(pa.array([instant], pa.timestamp("us", "UTC"))) == ['"2026-11-20T18:40:01.123456Z"']
    assert shown(pa.array([instant.replace(tzinfo=None)], pa.timestamp("ns"))) == ['"2026-11-20T18:40:01.123456000"']
    assert shown(pa.array([-1], pa.timestamp("ms", "UTC"))) == ['"1969-12-31T23:59:59.999Z"']
    assert shown(pa.array([date(2024, 2, 29), date(1, 1, 1)])) == ['"2024-02-29"', '"0001-01-01"']
    assert shown(pa.array([time(23, 59, 59, 999000)], pa.time32("ms"))) == ['"23:59:59.999"']


def test_years_of_other_lengths_have_a_sign_and_a_time_outside_of_the_day_is_its_number() -> None:
    extremes = shown(pa.array([2**63 - 1, -(2**63)], pa.timestamp("ms", "UTC")))
    assert extremes == ['"+292278994-08-17T07:12:55.807Z"', '"-292275055-05-16T16:47:04.192Z"']
    assert shown(pa.array([-1, 86_400_000], pa.int32()).cast(pa.time32("ms"))) == ["-1", "86400000"]


def test_durations_are_iso_8601() -> None:
    interval = pa.array([(1, 2, 3_500_000_000), (0, 0, 0)], pa.month_day_nano_interval())
    assert shown(interval) == ['"P1M2DT3.5S"', '"PT0S"']
    assert shown(pa.array([-1500], pa.duration("ms"))) == ['"PT-1.5S"']


def test_bytes_are_text_or_base64_under_a_name_that_says_so() -> None:
    rows = [{"a": b"text"}, {"a": b"\xff"}, {"a": None}]
    assert shown(pa.array(rows, pa.struct([("a", pa.binary())]))) == ['{"a":"text"}', '{"a_b64":"/w=="}', '{"a":null}']
    assert shown(pa.array([[b"x", b"\xff"]], pa.list_(pa.binary()))) == ['["x",{"b64":"/w=="}]']
    assert shown(pa.array([[("k", b"\xff")]], pa.map_(pa.string(), pa.binary()))) == ['{"k":{"b64":"/w=="}}']


def test_all_bytes_are_base64_if_that_is_wished() -> None:
    rows = pa.array([{"a": b"x", "t": "x"}], pa.struct([("a", pa.binary()), ("t", pa.string())]))
    assert shown(rows, is_base64=True) == ['{"a_b64":"eA==","t":"x"}']


def test_a_union_is_its_value_without_the_name_of_the_type() -> None:
    schema = parsed(json.dumps(["null", "long", "string", "bytes"]))
    decoder = AvroDecoder(schema, schema)
    assert is_union(decoder.type)
    values = pa.array([b"\x00", b"\x02\x54", b"\x04\x02x", b"\x06\x02\xff"])
    found, _ = decoder.decode(values, array("i", range(4)), 0)
    assert shown(found) == ["null", "42", '"x"', '{"b64":"/w=="}']
    in_a_record = pa.StructArray.from_arrays([found], fields=[pa.field("u", found.type)])
    assert shown(in_a_record) == ['{"u":null}', '{"u":42}', '{"u":"x"}', '{"u_b64":"/w=="}']


def test_a_union_of_which_nothing_is_there_is_null() -> None:
    kind = pa.struct([pa.field("a", pa.int32(), metadata={b"offsetfs": b"branch"})])
    assert shown(pa.array([{"a": None}], kind)) == ["null"]


def test_a_line_has_no_newline_inside() -> None:
    assert shown(pa.array(['a\nb\r\t\b\f\x01"\\/é€🎉'])) == ['"a\\nb\\r\\t\\b\\f\\u0001\\"\\\\/é€🎉"']


NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
TYPES = st.recursive(
    st.sampled_from(
        [
            *(pa.null(), pa.bool_(), pa.int32(), pa.int64(), pa.uint64(), pa.float64(), pa.string(), pa.binary()),
            *(pa.binary(3), pa.date32(), pa.time64("us"), pa.timestamp("ms", "UTC"), pa.timestamp("us")),
            *(pa.decimal128(12, 3), pa.dictionary(pa.int32(), pa.string())),
        ]
    ),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
        st.lists(st.tuples(NAMES, inner), min_size=1, max_size=4, unique_by=lambda pair: pair[0]).map(pa.struct),
    ),
    max_leaves=8,
)


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(kind):
        return st.none() | st.fixed_dictionaries({each.name: values_of(each.type) for each in kind})
    if pa.types.is_map(kind):
        return st.none() | st.lists(st.tuples(NAMES, values_of(kind.item_type)), max_size=4)
    if pa.types.is_list(kind):
        return st.none() | st.lists(values_of(kind.value_type), max_size=4)
    if pa.types.is_dictionary(kind):
        return st.none() | st.sampled_from(["a", "b"])
    made: dict[pa.DataType, st.SearchStrategy[Any]] = {
        pa.null(): st.none(),
        pa.bool_(): st.booleans(),
        pa.int32(): st.integers(-(2**31), 2**31 - 1),
        pa.int64(): st.integers(-(2**63), 2**63 - 1),
        pa.uint64(): st.integers(0, 2**64 - 1),
        pa.float64(): st.floats(),
        pa.string(): st.text(st.characters(codec="utf-8")),
        pa.binary(): st.binary(max_size=20) | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")),
        pa.binary(3): st.binary(min_size=3, max_size=3),
        pa.date32(): st.dates(),
        pa.time64("us"): st.times(),
        pa.timestamp("ms", "UTC"): st.integers(-(2**63), 2**63 - 1),
        pa.timestamp("us"): st.datetimes(),
        pa.decimal128(12, 3): st.decimals(-(10**8), 10**8, places=3),
    }
    return st.none() | made[kind]


@st.composite
def arrays(draw: st.DrawFn) -> pa.Array:
    kind = draw(TYPES)
    made = pa.array(draw(st.lists(values_of(kind), max_size=6)), kind)
    start = draw(st.integers(0, len(made)))
    return made.slice(start, draw(st.integers(0, len(made) - start)))


def plain(value: Any, kind: pa.DataType) -> Any:
    """Return what `json.loads` makes of a value's JSON, as far as it is not written as text of another form."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return dict(member(each.name, value[each.name], each.type) for each in kind)
    if pa.types.is_map(kind):
        return {key: plain(item, kind.item_type) for key, item in value}
    if pa.types.is_list(kind):
        return [plain(each, kind.value_type) for each in value]
    if isinstance(value, bytes):
        name, found = member("", value, kind)
        return {"b64": found} if name else found
    if isinstance(value, float):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(str(value), value)
    return value if isinstance(value, bool | int | str) else ...


def member(name: str, value: Any, kind: pa.DataType) -> tuple[str, Any]:
    if isinstance(value, bytes):
        try:
            return name, value.decode()
        except UnicodeDecodeError:
            return f"{name}_b64", base64.b64encode(value).decode()
    return name, plain(value, kind)


def same(found: Any, wanted: Any) -> bool:
    if wanted is ...:
        return isinstance(found, str)
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(same(found[name], wanted[name]) for name in wanted)
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    return bool(found == wanted)


@given(arrays())
def test_any_column_is_written_as_the_reference_writes_it_and_reads_back(values: pa.Array) -> None:
    lines = shown(values)
    kind = values.type
    if "timestamp" in str(kind):
        return  # Python has no year above 9999
    for line, value in zip(lines, values.to_pylist(), strict=True):
        assert same(json.loads(line), plain(value, kind))


def test_lines_are_bounded() -> None:
    columns = columns_of(pa.array(["x" * 1000] * 100))
    for writer in (compiled, reference):
        with pytest.raises(DecompressionLimit, match="more than 5000 bytes"):
            writer.lines(columns, 5000)


GOOD = JsonColumn(reference.SIGNED, 1, data=bytes(8))


@pytest.mark.parametrize(
    "columns",
    [
        [],
        [GOOD._replace(rows=2)],
        [GOOD._replace(start=1)],
        [GOOD._replace(start=-1)],
        [GOOD._replace(kind=99)],
        [GOOD._replace(kind=-1)],
        [GOOD._replace(validity=b"")],
        [GOOD._replace(data=None)],
        [GOOD._replace(children=(1,)), GOOD],
        [JsonColumn(reference.DECIMAL, 1, data=bytes(8))],
        [JsonColumn(reference.DECIMAL, 1, data=bytes(16), param=-1)],
        [JsonColumn(reference.BITS, 9, data=b"x")],
        [JsonColumn(reference.TIME, 1, data=bytes(8), param=7)],
        [JsonColumn(reference.TEXT, 1, data=b"x")],
        [JsonColumn(reference.TEXT, 1, ends=bytes(4), data=b"x")],
        [JsonColumn(reference.TEXT, 1, ends=b"\0\0\0\0\2\0\0\0", data=b"x")],
        [JsonColumn(reference.TEXT, 1, ends=b"\1\0\0\0\0\0\0\0", data=b"x")],
        [JsonColumn(reference.TEXT, 1, ends=b"\xff\xff\xff\xff\1\0\0\0", data=b"x")],
        [JsonColumn(reference.STRUCT, 1, children=(0,))],
        [JsonColumn(reference.STRUCT, 1, children=(1,))],
        [JsonColumn(reference.STRUCT, 2, children=(1,)), GOOD],
        [JsonColumn(reference.UNION, 2, children=(1,)), GOOD],
        [JsonColumn(reference.LIST, 1, ends=bytes(8))],
        [JsonColumn(reference.LIST, 1, ends=b"\0\0\0\0\2\0\0\0", children=(1,)), GOOD],
        [JsonColumn(reference.MAP, 1, ends=bytes(8), children=(1, 2)), GOOD, GOOD],
        [JsonColumn(reference.LIST, 0, ends=bytes(4), children=(n + 1,)) for n in range(210)] + [GOOD],
    ],
    ids=lambda columns: str(columns)[:60],
)
def test_columns_that_contradict_their_buffers_are_refused(columns: list[JsonColumn]) -> None:
    for writer in (compiled, reference):
        with pytest.raises(ValueError):
            writer.lines(columns)
