"""Values of Avro, decoded into columns of Arrow: as fastavro decodes them, and any bytes without harm."""

from __future__ import annotations

import io
import json
import re
import struct
from array import array
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from fixtures.logs.random_avro import Pair, pairs, plain
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetfs.schemas.avro_arrow import AvroDecoder
from offsetfs.schemas.avro_program import AvroProgram, compiled
from offsetfs.schemas.avro_schema import FixedType, PrimitiveType, parsed
from offsetfs.schemas.formats import InvalidSchema, SchemasDiffer
from offsetfs.storage.native import avro as native
from offsetfs.storage.records import avro
from offsetfs.storage.reference import avro as reference

pytestmark = pytest.mark.unit


def encoded(schema: Any, values: list[Any]) -> list[bytes]:
    """Return values as fastavro writes them."""
    known = fastavro.parse_schema(json.loads(json.dumps(schema)))
    written = []
    for value in values:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, known, value)
        written.append(buffer.getvalue())
    return written


def decoded(writer: Any, values: list[bytes | None], reader: Any = None) -> tuple[list[Any], list[Any]]:
    """Return decoded values and faults."""
    decoder = AvroDecoder(parsed(json.dumps(writer)), parsed(json.dumps(writer if reader is None else reader)))
    found, faults = decoder.decode(pa.array(values, pa.binary()), array("i", range(len(values))), 0)
    found.validate(full=True)
    return found.to_pylist(), list(faults)


def like(value: Any, expected: Any) -> Any:
    """Return a value of Arrow in the form of fastavro: the member of a union itself, an empty map as a dict."""
    if isinstance(value, dict) and set(value) == {"string", "long"}:
        return next(member for member in value.values() if member is not None)
    if isinstance(expected, dict) and value == []:
        return {}
    if isinstance(expected, dict) and isinstance(value, dict):
        return {name: like(inner, expected.get(name)) for name, inner in value.items()}
    if isinstance(expected, list) and isinstance(value, list):
        return [like(inner, other) for inner, other in zip(value, expected, strict=True)]
    return value


@pytest.mark.long
@settings(max_examples=600)
@given(pairs())
def test_values_are_those_of_fastavro(pair: Pair) -> None:
    written = encoded(pair.writer, pair.values)
    writer, reader = (fastavro.parse_schema(json.loads(json.dumps(schema))) for schema in (pair.writer, pair.reader))
    try:
        found, faults = decoded(pair.writer, list(written), pair.reader)
    except SchemasDiffer:
        with pytest.raises(fastavro.read.SchemaResolutionError):
            for value in written:
                fastavro.schemaless_reader(io.BytesIO(value), writer, reader)
            raise fastavro.read.SchemaResolutionError("no value needed the part that differs") from None
        return
    faulty = {fault.row for fault in faults}
    for row, value in enumerate(written):
        if row in faulty:
            with pytest.raises((fastavro.read.SchemaResolutionError, UnicodeDecodeError, IndexError)):
                fastavro.schemaless_reader(io.BytesIO(value), writer, reader)
            continue
        expected = plain(fastavro.schemaless_reader(io.BytesIO(value), writer, reader))
        assert like(plain(found[row]), expected) == expected


def outcome(module: Any, program: AvroProgram, values: pa.Array, skip: int) -> Any:
    decoder = module.AvroColumnDecoder(program.code, program.root, program.columns, program.children, program.constants)
    validity, ends, data = values.buffers()
    rows = array("i", [row for row in range(len(values)) if row % 4 != 3])
    for picks in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
        decoder.decode(ends, data if data is not None else b"", validity, picks, skip)
    faults = list(decoder.faults)
    columns = [
        (column.count, column.null_count, *(None if part is None else bytes(part) for part in column_parts(column)))
        for column in decoder.finish()
    ]
    return faults, columns


def column_parts(column: Any) -> tuple[Any, Any, Any]:
    return column.validity, column.ends, column.data


@st.composite
def damaged_values(draw: st.DrawFn) -> tuple[Pair, list[bytes | None]]:
    """Values with bytes that are changed, missing, or too many."""
    pair = draw(pairs())
    values: list[bytes | None] = [None]
    for value in encoded(pair.writer, pair.values):
        changed = bytearray(value + draw(st.binary(max_size=2)))
        for _ in range(draw(st.integers(0, 2)) if changed else 0):
            changed[draw(st.integers(0, len(changed) - 1))] = draw(st.integers(0, 255))
        values.append(bytes(changed[: draw(st.integers(0, len(changed)))] if draw(st.booleans()) else changed))
    return pair, [*values, *draw(st.lists(st.binary(max_size=30), max_size=3))]


@pytest.mark.long
@pytest.mark.reference
@settings(max_examples=500)
@given(damaged_values(), st.integers(0, 2))
def test_compiled_and_reference_decoders_agree_on_any_bytes(given: tuple[Pair, list[bytes | None]], skip: int) -> None:
    pair, values = given
    try:
        program = compiled(parsed(json.dumps(pair.writer)), parsed(json.dumps(pair.reader)))
    except SchemasDiffer:
        return
    column = pa.array(values, pa.binary())
    assert outcome(native, program, column, skip) == outcome(reference, program, column, skip)


# --- values that do not fit ------------------------------------------------------------------------------------------

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
            {"name": "text", "type": "string"}, {"name": "price", "type": ["null", "double", "string"]}]}}},
    ],
}  # fmt: skip
GOOD: dict[str, Any] = {
    "id": 7,
    "lines": [{"text": "a", "price": 1.5}, {"text": "b", "price": "two"}, {"text": "c", "price": None}],
}
PRICES = [{"double": 1.5, "string": None}, {"double": None, "string": "two"}, None]
GOOD_ROW = {"id": 7, "lines": [{**line, "price": price} for line, price in zip(GOOD["lines"], PRICES, strict=True)]}


def test_a_value_that_does_not_fit_is_a_null_with_the_field_and_all_others_stay() -> None:
    good = encoded(ORDER, [GOOD])[0]
    values = [good, good[:-5], None, b"", good.replace(b"\x02b", b"\x02\xff"), good + b"more", good]
    decoder = AvroDecoder(parsed(json.dumps(ORDER)), parsed(json.dumps(ORDER)))
    found, faults = decoder.decode(pa.array(values, pa.binary()), array("i", range(len(values))), 0)
    found.validate(full=True)
    assert found.to_pylist() == [GOOD_ROW, None, None, None, None, None, GOOD_ROW]
    assert [(fault.row, decoder.place(fault), avro.FAULTS[fault.code]) for fault in faults] == [
        (1, "lines[].price", "the value ends too early"),
        (3, "id", "the value ends too early"),
        (4, "lines[].text", "a text is not UTF-8"),
        (5, "", "there are bytes behind the value"),
    ]


def entries(keys: list[str]) -> bytes:
    """Return a map of Avro as two blocks, with an empty value for each key."""
    half = len(keys) // 2
    blocks = [[bytes([2 * len(key.encode())]) + key.encode() for key in part] for part in (keys[:half], keys[half:])]
    return b"".join(bytes([2 * len(block)]) + b"".join(block) for block in blocks if block) + b"\0"


@given(st.lists(st.text(max_size=2), max_size=40))
def test_a_map_with_a_key_twice_is_a_fault(keys: list[str]) -> None:
    kind = parsed('{"type": "map", "values": "null"}')
    column = pa.array([entries(keys), entries(["a"])], pa.binary())
    program = compiled(kind, kind)
    made = outcome(native, program, column, 0)
    assert made == outcome(reference, program, column, 0)
    expected = ["a map has the same key twice"] if len(set(keys)) < len(keys) else []
    assert [avro.FAULTS[fault.code] for fault in made[0]] == expected


def test_a_map_that_is_not_read_may_have_a_key_twice() -> None:
    both = {"type": "record", "name": "R", "fields": [
        {"name": "m", "type": {"type": "map", "values": "null"}}, {"name": "n", "type": "int"}]}  # fmt: skip
    one = {**both, "fields": both["fields"][1:]}
    assert decoded(both, [b"\x04\x02a\x02a\0\x02"], one) == ([{"n": 1}], [])


@pytest.mark.parametrize("module", [native, reference])
def test_items_that_take_no_bytes_are_bounded(module: Any) -> None:
    program = compiled(parsed('{"type": "array", "items": "null"}'), parsed('{"type": "array", "items": "null"}'))
    many = pa.array([bytes([0xFE] + [0xFF] * 8 + [0x01, 0]), b"\x06\x00"], pa.binary())
    faults, columns = outcome(module, program, many, 0)
    assert [avro.FAULTS[fault.code] for fault in faults] == ["more items without bytes than are read"]
    assert [column[0] for column in columns] == [2, 3]


def test_a_type_that_contains_itself_keeps_its_inner_values_as_bytes() -> None:
    chain = {"type": "record", "name": "Node", "fields": [
        {"name": "n", "type": "int"}, {"name": "next", "type": ["null", "Node"]}]}  # fmt: skip
    inner = {"n": 2, "next": {"n": 3, "next": None}}
    values = encoded(chain, [{"n": 1, "next": inner}, {"n": 9, "next": None}])
    found, faults = decoded(chain, list(values))
    assert found == [{"n": 1, "next": encoded(chain, [inner])[0]}, {"n": 9, "next": None}]
    assert not faults
    endless = b"\x02\x02" * 100_000
    assert [avro.FAULTS[fault.code] for fault in decoded(chain, [endless])[1]] == ["values are nested too deeply"]


def test_a_program_that_refers_to_what_is_not_there_is_refused() -> None:
    program = compiled(parsed(json.dumps(ORDER)), parsed(json.dumps(ORDER)))
    refused = 0
    for at in range(len(program.code)):
        for number in (-2, 1 << 40, len(program.code)):
            code = program.code[:]
            code[at] = number
            try:
                native.AvroColumnDecoder(code, program.root, program.columns, program.children, program.constants)
            except ValueError:
                refused += 1
    assert refused > 2 * len(program.code)


def test_a_field_without_a_default_that_is_not_written_is_named() -> None:
    reader = {**ORDER, "fields": [*ORDER["fields"], {"name": "more", "type": "int"}]}
    with pytest.raises(SchemasDiffer, match="the field more, which is not written and has no default"):
        AvroDecoder(parsed(json.dumps(ORDER)), parsed(json.dumps(reader)))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is not JSON"),
        ('{"type": "record", "name": "A"}', "has no 'fields'"),
        ('{"type": "record", "name": "A", "fields": [{"name": "x", "type": "B"}]}', "x has the type 'B'"),
        ('["null", ["int"]]', "a union that has a union"),
        ("[" * 5000 + "]" * 5000, "nested too deeply"),
        ('{"type": ' * 100 + '"int"' + "}" * 100, "nested too deeply"),
        ('{"type": "fixed", "name": "F", "size": -1}', "has the size -1"),
        ('{"type": "enum", "name": "E", "symbols": ["A", "A"]}', "the same symbol twice"),
        ("12", "is not a type of Avro"),
    ],
)
def test_a_text_that_is_no_schema_is_refused_with_its_place(text: str, reason: str) -> None:
    with pytest.raises(InvalidSchema, match=re.escape(reason)):
        parsed(text)


def test_a_logical_type_that_does_not_fit_its_type_is_ignored() -> None:
    for described in (
        {"type": "string", "logicalType": "date"},
        {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3},
        {"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 10},
        {"type": "int", "logicalType": "own"},
    ):
        kind = parsed(json.dumps(described))
        assert isinstance(kind, PrimitiveType | FixedType) and kind.logical is None


def test_durations_uuids_and_long_decimals_have_their_types() -> None:
    record = {"type": "record", "name": "R", "fields": [
        {"name": "d", "type": {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}},
        {"name": "u", "type": {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}},
        {"name": "m", "type": {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 2}},
    ]}  # fmt: skip
    value = struct.pack("<III", 14, 3, 1500) + bytes(range(16)) + b"\x04\x01\x02"
    found, faults = decoded(record, [value])
    assert not faults
    assert found == [
        {"d": pa.MonthDayNano((14, 3, 1_500_000_000)), "u": "00010203-0405-0607-0809-0a0b0c0d0e0f", "m": b"\x01\x02"}
    ]
