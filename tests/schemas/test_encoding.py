"""JSON into values of Avro, as fastavro writes them, and lines with decoded values into lines with bytes."""

from __future__ import annotations

import base64
import datetime
import io
import json
import struct
import uuid
from array import array
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from fixtures.logs.random_avro import Pair, pairs
from fixtures.logs.schema_records import schema_record, write_schemas
from hypothesis import given, settings

from offsetfs.schemas.avro_arrow import AvroDecoder
from offsetfs.schemas.avro_encoding import encoded
from offsetfs.schemas.avro_schema import FixedType, LogicalType, PrimitiveType, parsed
from offsetfs.schemas.column_json import JsonColumns
from offsetfs.schemas.decoding import DirectorySchemas
from offsetfs.schemas.encoding import LineEncoder
from offsetfs.schemas.given_values import DoesNotFit, read_json
from offsetfs.schemas.schema_files import FileSchema
from offsetfs.storage import LogDirectory
from offsetfs.storage.records import LineFault

pytestmark = pytest.mark.unit

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "time", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "PAID"]}},
        {"name": "raw", "type": {"type": "fixed", "name": "Raw", "size": 3}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "note", "type": ["null", "string", "double"], "default": None},
        {"name": "mark", "type": "bytes", "default": "\u00ff"},
    ],
}
LINE = {
    "id": -7,
    "price": "12.50",
    "at": "2026-12-01T10:30:00.250+01:00",
    "day": "2026-12-01",
    "time": "10:30:00.000001",
    "uuid": "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
    "kind": "PAID",
    "raw": {"b64": "AP8A"},
    "tags": ["ü", ""],
    "counts": {"a": 2147483647},
    "note": 1.5,
}
VALUE = {
    "id": -7,
    "price": Decimal("12.50"),
    "at": datetime.datetime(2026, 12, 1, 9, 30, 0, 250_000, tzinfo=datetime.UTC),
    "day": datetime.date(2026, 12, 1),
    "time": datetime.time(10, 30, 0, 1),
    "uuid": uuid.UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6"),
    "kind": "PAID",
    "raw": b"\0\xff\0",
    "tags": ["ü", ""],
    "counts": {"a": 2147483647},
    "note": 1.5,
    "mark": b"\xff",
}


def by_fastavro(schema: Any, value: Any) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return buffer.getvalue()


def test_a_value_of_each_type_is_as_fastavro_writes_it() -> None:
    assert encoded(parsed(json.dumps(ORDER)), LINE) == by_fastavro(ORDER, VALUE)


def shown(value: Any) -> Any:
    """Return a value of Python in the JSON of people."""
    match value:
        case dict():
            return {name: shown(item) for name, item in value.items()}
        case list():
            return [shown(item) for item in value]
        case bytes():
            return {"b64": base64.b64encode(value).decode()}
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case Decimal() | uuid.UUID():
            return str(value)
        case float() if value != value or value in (float("inf"), float("-inf")):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[repr(value)]
    return value


@pytest.mark.long
@settings(max_examples=300)
@given(pairs())
def test_random_values_are_those_of_fastavro(pair: Pair) -> None:
    kind = parsed(json.dumps(pair.writer))
    for value in pair.values:
        written = by_fastavro(pair.writer, value)
        assert encoded(kind, json.loads(json.dumps(shown(value)), parse_float=Decimal)) == written


@pytest.mark.long
@settings(max_examples=300)
@given(pairs())
def test_the_json_of_decoded_values_is_encoded_to_the_same_values(pair: Pair) -> None:
    kind = parsed(json.dumps(pair.writer))
    decoder = AvroDecoder(kind, kind)

    def lines(values: list[bytes]) -> list[bytes]:
        column, faults = decoder.decode(pa.array(values, pa.binary()), array("i", range(len(values))), 0)
        assert not faults
        columns = JsonColumns()
        columns.add(column)
        return [text.as_py() for text in columns.texts()]

    shown_before = lines([by_fastavro(pair.writer, value) for value in pair.values])
    values = [encoded(kind, read_json(line)) for line in shown_before]
    assert lines(values) == shown_before


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"id": None}, "id: null is not a whole number"),
        ({"id": True}, "id: true is not a whole number"),
        ({"id": 1 << 63}, "id: 9223372036854775808 is out of the range of long"),
        ({"id": Decimal("1.5")}, "id: '1.5' is not a whole number"),
        ({"price": "1.005"}, "price: '1.005' has more than 2 digits behind the point"),
        ({"price": 12345678}, "price: 12345678 has more than 9 digits"),
        ({"price": "1e999999999"}, "price: has more than 9 digits"),
        ({"price": "NaN"}, "price: 'NaN' is not a decimal"),
        ({"at": "yesterday"}, "at: 'yesterday' is not a timestamp-millis in ISO 8601, or a number"),
        ({"at": "2026-12-01T10:30:00.0001Z"}, "at: '2026-12-01T10:30:00.0001Z' is not a timestamp-millis in ISO 8601"),
        ({"day": "2026-02-30"}, "day: '2026-02-30' is not a date in ISO 8601, or a number"),
        ({"uuid": "x"}, "uuid: 'x' is not a UUID"),
        ({"kind": "OLD"}, "kind: 'OLD' is not one of NEW, PAID"),
        ({"raw": "ab"}, "raw: has 2 bytes, and the type 3"),
        ({"raw": {"b64": "?"}}, "raw: is not base64"),
        ({"tags": ["a", 1]}, "tags[1]: 1 is not text"),
        ({"tags": ["\ud800"]}, "tags[0]: half of a surrogate pair is no character"),
        ({"counts": {"a": "1"}}, "counts.a: '1' is not a whole number"),
        ({"note": []}, "note: [] fits no type of the union: note: [] is not text; note: [] is not a number"),
        ({"nope": 1}, "nope: the schema has no such field"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_field(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(DoesNotFit) as refused:
        encoded(parsed(json.dumps(ORDER)), {**LINE, **changes})
    assert str(refused.value).startswith(reason)


def test_a_field_that_is_missing_is_named_unless_it_has_a_default() -> None:
    kind = parsed(json.dumps(ORDER))
    with pytest.raises(DoesNotFit, match=r"^kind: is missing, and has no default$"):
        encoded(kind, {name: value for name, value in LINE.items() if name != "kind"})


def test_values_of_types_within_themselves_are_bounded() -> None:
    tree = {
        "type": "record",
        "name": "T",
        "fields": [{"name": "t", "type": ["null", "T", {"type": "map", "values": "T"}]}],
    }
    value: Any = None
    for _ in range(300):
        value = {"t": value}
    with pytest.raises(DoesNotFit, match="too many types of unions do not fit"):
        encoded(parsed(json.dumps(tree)), value)


# --- lines -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def encoder(tmp_path: Path) -> Any:
    older = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    newer = {**older, "fields": [*older["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}
    write_schemas(
        tmp_path,
        [
            schema_record("orders-value", 1, 3, json.dumps(older)),
            schema_record("orders-value", 2, 4, json.dumps(newer)),
            schema_record("keyed-key", 1, 6, json.dumps(older)),
            schema_record("keyed-value", 1, 3, json.dumps(older)),
            schema_record("ghosts-value", 1, 5, 'syntax = "proto3"; message Ghost {}', schemaType="PROTOBUF"),
        ],
    )
    directory = LogDirectory.open(str(tmp_path), read_only=True)
    schemas = DirectorySchemas(directory, {"plain": FileSchema("plain", "AVRO", json.dumps(older), "order.avsc")})
    schemas.refresh()
    yield lambda topic, line: LineEncoder(schemas, topic).encoded(line)
    directory.close()


def value_of(line: bytes) -> bytes:
    return base64.b64decode(json.loads(line)["value_b64"])


def test_a_value_gets_the_newest_schema_or_the_one_that_is_named(encoder: Any) -> None:
    made = encoder("orders", b'{"key":"k","value":{"id":7},"timestamp":5,"headers":[{"key":"h","value":"x"}]}\n')
    assert value_of(made) == b"\0\0\0\0\4\x0e\0"
    rest = {name: value for name, value in json.loads(made).items() if name != "value_b64"}
    assert rest == {"key": "k", "timestamp": 5, "headers": [{"key": "h", "value": "x"}]}
    for named in (b"3", b'{"id":3,"subject":"orders-value","version":1}'):
        assert value_of(encoder("orders", b'{"value":{"id":7},"value_schema":%s}\n' % named)) == b"\0\0\0\0\3\x0e"
    assert value_of(encoder("plain", b'{"value":{"id":7}}\n')) == b"\x0e"


def test_what_has_no_value_to_encode_stays_as_it_is(encoder: Any) -> None:
    assert json.loads(encoder("orders", b'{"key":"k","value":null}\n')) == {"key": "k", "value": None}
    raw = b'{"value_b64":"AAAA","value_error":"schema 9 is unknown","offset":3}\n'
    assert json.loads(encoder("orders", raw)) == {"value_b64": "AAAA", "offset": 3}
    for line in (b"\n", b"[1]\n", b'{"value":\n', b'{"value":NaN}\n', b"\xff\n"):
        assert encoder("orders", line) == line


@pytest.mark.parametrize(
    ("topic", "line", "reason"),
    [
        ("orders", b'{"value":{"id":"7"}}', "id: '7' is not a whole number"),
        ("orders", b'{"value":{"id":7,"id":8}}', '"id" is there twice'),
        ("orders", b'{"value":{"id":7},"value_schema":9}', "schema 9 is unknown"),
        ("orders", b'{"value":{"id":7},"value_schema":"x"}', 'value_schema is an id, such as 7 or {"id": 7}'),
        ("orders", b'{"value_b64":"AA=="}', "value_b64 has bytes, which are not encoded: append them to append.ndjson"),
        ("users", b'{"value":1}', "there is no subject users-value"),
        ("keyed", b'{"key":"k","value":{"id":7}}', "the key: 'k' is not an object"),
        ("keyed", b'{"key_b64":"AA=="}', "key_b64 has bytes, which are not encoded: append them to append.ndjson"),
        ("orders", b'{"key":"k","key_schema":9}', "schema 9 is unknown"),
        ("orders", b'{"key":"k","key_schema":"x"}', 'key_schema is an id, such as 7 or {"id": 7}'),
        (
            "orders",
            b'{"value":{"id":7},"value_schema":{"message":"Order"}}',
            "orders-value/2: only schemas of Protobuf",
        ),
        ("ghosts", b'{"value":{"x":1}}', "x: the schema has no such field"),
        ("ghosts", b'{"value":{},"value_schema":{"message":"Host"}}', "ghosts-value/1: there is no message Host"),
    ],
)
def test_a_line_that_cannot_be_encoded_is_refused_with_the_reason(
    encoder: Any, topic: str, line: bytes, reason: str
) -> None:
    fault = encoder(topic, line + b"\n")
    assert fault == LineFault(max(line.find(b'"value'), 0), fault.reason) and fault.reason.startswith(reason)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("P1M2DT3.5S", (1, 2, 3500)), ("PT0S", (0, 0, 0)), ("P5D", (0, 5, 0)), ("PT0.001S", (0, 0, 1))],
)
def test_durations_are_iso_8601_as_the_decoder_shows_them(text: str, numbers: tuple[int, int, int]) -> None:
    kind = FixedType("D", (), 12, LogicalType("duration"))
    assert encoded(kind, text) == struct.pack("<III", *numbers)


@pytest.mark.parametrize("text", ["P", "PT", "1D", "P1Y", "PT1.0001S", "PT4294968S", "P-1D"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(DoesNotFit, match=r"is not a duration in ISO 8601|more than 32 bits"):
        encoded(FixedType("D", (), 12, LogicalType("duration")), text)


def test_the_sign_of_zero_is_kept() -> None:
    assert encoded(PrimitiveType("double"), read_json(b"-0")) == struct.pack("<d", -0.0)
    assert encoded(PrimitiveType("long"), read_json(b"-0")) == b"\0"


def test_what_is_encoded_is_decoded_again() -> None:
    kind = parsed(json.dumps(ORDER))
    found, faults = AvroDecoder(kind, kind).decode(pa.array([encoded(kind, LINE)], pa.binary()), array("i", [0]), 0)
    assert not faults
    assert found.to_pylist()[0]["price"] == VALUE["price"] and found.to_pylist()[0]["at"] == VALUE["at"]
