"""Values of JSON Schema, decoded into columns of Arrow: as `json.loads` reads them, and any bytes without harm."""

from __future__ import annotations

import json
import math
import re
import struct
from array import array
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry._sync.mock_schema_registry_client import MockSchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from fixtures.logs.random_json import Schema, schemas, texts
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetfs.schemas.formats import InvalidSchema
from offsetfs.schemas.json_columns import JsonDecoder, JsonProgram, members_of
from offsetfs.schemas.json_schema import parsed
from offsetfs.storage.native import json_values as native
from offsetfs.storage.records import json_values
from offsetfs.storage.reference import json_values as reference

pytestmark = pytest.mark.unit


def column_of(values: list[bytes | None]) -> pa.Array:
    return pa.array(values, pa.binary())


def decoded(schema: Any, *values: bytes | str | None) -> tuple[list[Any], list[str]]:
    """Return decoded values, and the faults with their rows and fields."""
    decoder = JsonDecoder(parsed(json.dumps(schema)))
    given = [value.encode() if isinstance(value, str) else value for value in values]
    found, faults = decoder.decode(column_of(given), array("i", range(len(values))), 0)
    found.validate(full=True)
    return found.to_pylist(), [
        f"{fault.row} {decoder.place(fault)}: {json_values.FAULTS[fault.code]}" for fault in faults
    ]


def comparable(value: Any, kind: pa.DataType, schema: Any) -> Any:
    """Return a value of Arrow as `Schema.expected` has it."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: comparable(value[field.name], field.type, None) for field in kind}
    if pa.types.is_map(kind):
        return [(name, comparable(item, kind.item_type, None)) for name, item in value]
    if pa.types.is_list(kind):
        return [comparable(item, kind.value_type, None) for item in value]
    return struct.pack("<d", value) if pa.types.is_float64(kind) else value


def with_json(value: Any, expected: Any) -> Any:
    """Replace the text of a part by what it means, where a part is expected to be JSON."""
    if isinstance(expected, dict) and set(expected) == {"json"} and isinstance(value, str):
        return {"json": json.loads(value)}
    if isinstance(expected, dict) and isinstance(value, dict):
        return {name: with_json(value[name], expected.get(name)) for name in value}
    if isinstance(expected, list) and isinstance(value, list):
        return [with_json(*pair) for pair in zip(value, expected, strict=True)]
    if isinstance(expected, tuple) and isinstance(value, tuple):
        return tuple(with_json(*pair) for pair in zip(value, expected, strict=True))
    return value


@st.composite
def written(draw: st.DrawFn) -> tuple[Schema, list[Any], list[str]]:
    schema = draw(schemas())
    values = draw(st.lists(schema.values, min_size=1, max_size=4))
    return schema, values, [draw(texts(value)) for value in values]


@pytest.mark.long
@settings(max_examples=300)
@given(written())
def test_values_are_those_of_json_loads(case: tuple[Schema, list[Any], list[str]]) -> None:
    schema, values, rows = case
    decoder = JsonDecoder(parsed(json.dumps(schema.json)))
    found, faults = decoder.decode(column_of([row.encode() for row in rows]), array("i", range(len(rows))), 0)
    found.validate(full=True)
    assert not faults
    for value, row in zip(values, found.to_pylist(), strict=True):
        expected = None if value is None else schema.expected(value)
        assert with_json(comparable(row, found.type, None), expected) == expected


def outcome(module: Any, schema: Any, values: pa.Array, skip: int) -> Any:
    decoder = JsonProgram(parsed(json.dumps(schema))).decoder(module.JsonColumnDecoder)
    validity, ends, data = values.buffers()
    rows = array("i", [row for row in range(len(values)) if row % 4 != 3])
    for picks in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
        decoder.decode(ends, data if data is not None else b"", validity, picks, skip)
    faults = list(decoder.faults)
    columns = [
        (
            part.count,
            part.null_count,
            *(None if one is None else bytes(one) for one in (part.validity, part.ends, part.data)),
        )
        for part in decoder.finish()
    ]
    return faults, columns


@st.composite
def damaged_values(draw: st.DrawFn) -> tuple[Any, list[bytes | None]]:
    """Values with bytes that are changed, missing, too many, or there twice."""
    schema, _, rows = draw(written())
    _, _, others = draw(written())
    values: list[bytes | None] = [None, *(other.encode() for other in others)]
    for row in rows:
        text = bytearray(row.encode())
        for _ in range(draw(st.integers(0, 2))):
            at = draw(st.integers(0, len(text)))
            piece = draw(
                st.sampled_from([b'"', b"{", b"}", b"[", b",", b"\\", b"\xff", b"1", b"e", b"-", b".", b" ", b""])
            )
            text[at : at + draw(st.integers(0, 2))] = piece
        if draw(st.booleans()):
            text = bytearray(bytes(text).replace(b"}", b"," + bytes(text)[1:], 1))
        values.append(bytes(text))
    return schema.json, values


@pytest.mark.long
@pytest.mark.reference
@settings(max_examples=300)
@given(damaged_values(), st.integers(0, 2))
def test_compiled_and_reference_decoders_agree_on_any_bytes(given: tuple[Any, list[bytes | None]], skip: int) -> None:
    schema, values = given
    column = column_of(values)
    assert outcome(native, schema, column, skip) == outcome(reference, schema, column, skip)


_NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)


@pytest.mark.long
@pytest.mark.reference
@settings(max_examples=300)
@given(st.lists(_NUMBERS, min_size=1, max_size=20))
def test_numbers_are_rounded_as_python_rounds_them(numbers: list[str]) -> None:
    rows = column_of([number.encode() for number in numbers])
    for kind in ("integer", "number"):
        assert outcome(native, {"type": kind}, rows, 0) == outcome(reference, {"type": kind}, rows, 0)
    found, _ = decoded({"type": "number"}, *numbers)
    for number, value in zip(numbers, found, strict=True):
        assert (value is None) == math.isinf(float(number))
        assert value is None or struct.pack("<d", value) == struct.pack("<d", float(number))


# --- values that do not fit ------------------------------------------------------------------------------------------

LINE = {"type": "object", "properties": {"text": {"type": "string"}, "price": {"type": "number"}}}
ORDER: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "lines": {"type": "array", "items": LINE},
        "labels": {"type": "object", "additionalProperties": {"type": "integer"}},
        "extra": {},
    },
    "required": ["id"],
}
NULLS = {"id": None, "lines": None, "labels": None, "extra": None}


def test_a_value_that_does_not_fit_is_a_null_with_the_field_and_all_others_stay() -> None:
    good = '{"id": 7, "lines": [{"text": "a", "price": 1.5}, null], "labels": {"x": 1}, "extra": [1, "\\u0041"]}'
    row = {
        "id": 7,
        "lines": [{"text": "a", "price": 1.5}, None],
        "labels": [("x", 1)],
        "extra": '[1, "\\u0041"]',
    }
    found, faults = decoded(
        ORDER, good, '{"id": 1.5}', '{"lines": [{"price": "2"}]}', '{"labels": {"a": []}}',
        b'{"lines": [{"text": "\xff"}]}',
        '{"extra": NaN}', '{"id": 7', "", good + "x", '{"other": "\\ud800"}', '{"id": 9223372036854775808}', None, good,
    )  # fmt: skip
    assert found == [row, *[None] * 11, row]
    assert faults == [
        "1 id: a number has a fraction, and the schema says integer",
        "2 lines[].price: the type is not that of the schema",
        "3 labels{}: the type is not that of the schema",
        "4 lines[].text: the text is not UTF-8",
        "5 extra: the text is not JSON",
        "6 : the JSON text ends too early",
        "7 : the JSON text ends too early",
        "8 : more text follows the JSON value",
        "9 : half of a surrogate pair is no character",
        "10 id: a number does not fit 64 bits",
    ]


def test_null_absent_and_unknown_fields() -> None:
    found, faults = decoded(ORDER, "{}", '{"id": null, "unknown": {"id": 3}}', " null ", "\n{\r\n\t}\n")
    assert found == [NULLS, NULLS, None, NULLS]
    assert not faults


def test_of_fields_with_the_same_name_the_last_one_counts() -> None:
    found, faults = decoded(
        ORDER,
        '{"id": 1, "lines": [{"text": "a"}], "id": 2, "lines": []}',
        '{"id": "wrong", "id": 2, "lines": 5, "lines": null}',
        '{"id": 2, "id": "wrong"}',
        '{"labels": {"a": 1, "b": "wrong", "a": 3, "b": 4, "\\u0061": 5}}',
        '{"id": "wrong", "id": 2',
    )
    assert found == [
        {**NULLS, "id": 2, "lines": []},
        {**NULLS, "id": 2},
        None,
        {**NULLS, "labels": [("b", 4), ("a", 5)]},
        None,
    ]
    assert faults == ["2 id: the type is not that of the schema", "4 : the JSON text ends too early"]


@pytest.mark.parametrize("module", [native, reference])
def test_many_names_of_a_map_that_come_again(module: Any) -> None:
    names = [f"n{number % 700}" for number in range(2000)]
    text = "{" + ",".join(f'"{name}":{number}' for number, name in enumerate(names)) + "}"
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    _, columns = outcome(module, schema, column_of([text.encode()]), 0)
    expected = dict(sorted(json.loads(text).items(), key=lambda pair: pair[1]))
    assert columns[1][4].decode() == "".join(expected)
    assert columns[2][4] == struct.pack(f"<{len(expected)}q", *expected.values())


def test_whole_numbers_may_have_a_point_and_an_exponent() -> None:
    numbers = ["1.0", "-12.50e1", "1e3", "0.0e-5", "-0", "9223372036854775807.000", "-9223372036854775808", "1E+18"]
    found, faults = decoded({"type": "integer"}, *numbers)
    assert found == [1, -125, 1000, 0, 0, 2**63 - 1, -(2**63), 10**18]
    assert not faults
    assert decoded({"type": "integer"}, "1e-1", "9223372036854775808", "1e400000000000000000000", "0.1e1")[1] == [
        "0 : a number has a fraction, and the schema says integer",
        "1 : a number does not fit 64 bits",
        "2 : a number does not fit 64 bits",
    ]
    assert decoded({"type": "number"}, "1e400", "-1e400")[0] == [None, None]


def test_nesting_is_bounded() -> None:
    deep, deeper = "[" * 64 + "]" * 64, "[" * 65 + "]" * 65
    found, faults = decoded({}, deep, deeper)
    assert found == [deep, None]
    assert faults == ["1 : values are nested too deeply"]


def test_maps_within_maps_take_time_in_proportion_to_their_depth() -> None:
    """Each level has a name twice."""
    schema: Any = {"type": "integer"}
    text = "1"
    for _ in range(40):
        schema = {"type": "object", "additionalProperties": schema}
        text = f'{{"a":0,"a":{text}}}'
    (value,), faults = decoded(schema, text)
    assert not faults
    for _ in range(40):
        ((_, value),) = value
    assert value == 1


def test_a_program_that_refers_to_what_is_not_there_is_refused() -> None:
    program = JsonProgram(parsed(json.dumps(ORDER)))
    right = program.code[:]
    for at in range(len(right)):
        for number in (-2, 1 << 40, len(right)):
            program.code = right[:]
            program.code[at] = number
            with pytest.raises(ValueError):
                program.decoder(native.JsonColumnDecoder)


# --- schemas ---------------------------------------------------------------------------------------------------------


def type_of(schema: Any, references: dict[str, Any] | None = None) -> pa.DataType:
    given = {name: json.dumps(other) for name, other in (references or {}).items()}
    return JsonDecoder(parsed(json.dumps(schema), given)).type


def struct_of(**fields: pa.DataType) -> pa.DataType:
    return pa.struct(list(fields.items()))


TEXT, INT, DOUBLE = pa.string(), pa.int64(), pa.float64()


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": ["null", "string"]}, TEXT),
        ({"type": ["integer", "number", "null"]}, DOUBLE),
        ({"type": ["integer", "string"]}, TEXT),
        ({"oneOf": [{"type": "null"}, {"type": "integer"}]}, INT),
        ({"anyOf": [{"type": "integer"}, {"type": "number"}]}, DOUBLE),
        ({"oneOf": [LINE, {"type": "array", "items": LINE}]}, TEXT),
        ({"oneOf": [LINE, LINE]}, struct_of(text=TEXT, price=DOUBLE)),
        ({**LINE, "anyOf": [{"required": ["text"]}, {"required": ["price"]}]}, struct_of(text=TEXT, price=DOUBLE)),
        (
            {"allOf": [LINE, {"properties": {"more": {"enum": ["a", None]}}}]},
            struct_of(text=TEXT, price=DOUBLE, more=TEXT),
        ),
        ({"allOf": [{"type": "number"}, {"type": "integer"}]}, INT),
        ({"const": 5}, INT),
        ({"enum": [1, 2.5]}, DOUBLE),
        ({"enum": [True, None]}, pa.bool_()),
        ({"enum": ["a", 1]}, TEXT),
        ({"type": "object"}, TEXT),
        ({"type": "object", "additionalProperties": True}, TEXT),
        ({"type": "object", "additionalProperties": {"type": "number"}}, pa.map_(TEXT, DOUBLE)),
        ({"type": "object", "patternProperties": {"^a": {"type": "number"}}}, pa.map_(TEXT, DOUBLE)),
        ({"type": "array"}, pa.list_(TEXT)),
        ({"type": "array", "items": [{"type": "string"}]}, TEXT),
        ({"type": "array", "prefixItems": [{"type": "string"}]}, TEXT),
        ({"type": "string", "format": "date-time"}, TEXT),
        ({"type": "null"}, pa.null()),
        ({}, TEXT),
        (True, TEXT),
    ],
)
def test_types_of_columns(schema: Any, kind: pa.DataType) -> None:
    assert type_of(schema) == kind


@pytest.mark.parametrize(
    "schema",
    [
        {"definitions": {"t": {"type": "integer"}}, "properties": {"a": {"$ref": "#/definitions/t"}}},
        {"$defs": {"a/b~c": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/a~1b~0c"}}},
        {"$defs": {"t": {"$anchor": "whole", "type": "integer"}}, "properties": {"a": {"$ref": "#whole"}}},
        {"definitions": {"t": {"$id": "#whole", "type": "integer"}}, "properties": {"a": {"$ref": "#whole"}}},
        {
            "$id": "https://example.org/schemas/a.json",
            "$defs": {"t": {"$id": "t.json", "$defs": {"i": {"type": "integer"}}, "$ref": "#/$defs/i"}},
            "properties": {"a": {"$ref": "https://example.org/schemas/t.json"}},
        },
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "id": "urn:order",
            "definitions": {"t": {"type": "integer"}},
            "properties": {"a": {"$ref": "urn:order#/definitions/t"}},
        },
        {
            "definitions": {"t": {"properties": {"default": {"$ref": "#/definitions/i"}}}, "i": {"type": "integer"}},
            "properties": {"a": {"allOf": [{"$ref": "#/definitions/t/properties/default"}]}},
        },
        {"properties": {"a": {"$ref": "whole.json"}}},
        {"$id": "https://example.org/order.json", "properties": {"a": {"$ref": "whole.json#/definitions/x"}}},
        {"properties": {"a": {"$ref": "https://example.org/other#/definitions/x"}}},
    ],
)
def test_references_are_followed(schema: Any) -> None:
    whole = {"type": "integer", "definitions": {"x": {"$ref": "#"}}}
    other = {
        "$id": "https://example.org/other",
        "definitions": {"x": {"$ref": "#/definitions/y"}, "y": {"type": "integer"}},
    }
    assert type_of(schema, {"whole.json": whole, "other.json": other}) == struct_of(a=INT)


def test_a_type_within_itself_is_json_text() -> None:
    node = {"properties": {"n": {"type": "integer"}, "more": {"type": "array", "items": {"$ref": "#"}}}}
    assert type_of(node) == struct_of(n=INT, more=pa.list_(TEXT))
    text = '{"n": 1, "more": [ {"n":2,"more":[]} ]}'
    assert decoded(node, text) == ([{"n": 1, "more": ['{"n":2,"more":[]}']}], [])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is not JSON"),
        ("12", "the schema is not a schema"),
        ('{"properties": {"a": {"items": 5, "type": "array"}}}', "a is not a schema"),
        ('{"properties": []}', "has 'properties' that are not an object"),
        ('{"allOf": {}}', "has 'allOf' that is not a list"),
        ('{"properties": {"a": {"$ref": "#/definitions/b"}}}', "a refers to #/definitions/b, which neither"),
        ('{"$ref": 5}', "has a $ref that is not text"),
        ('{"$id": "http://a/b", "$ref": "http://[x"}', "which is no URI"),
        ("[" * 500_000, "nested too deeply"),
    ],
)
def test_a_text_that_is_no_schema_is_refused_with_its_place(text: str, reason: str) -> None:
    with pytest.raises(InvalidSchema, match=re.escape(reason)):
        parsed(text)


def test_schemas_that_grow_without_end_are_refused() -> None:
    doubling: Any = {
        f"d{n}": {"properties": {"a": {"$ref": f"#/$defs/d{n + 1}"}, "b": {"$ref": f"#/$defs/d{n + 1}"}}}
        for n in range(40)
    }
    doubling["d40"] = {"type": "string"}
    with pytest.raises(InvalidSchema, match="more than 50000 schemas"):
        type_of({"$defs": doubling, "$ref": "#/$defs/d0"})
    with pytest.raises(InvalidSchema, match="more than 50000 schemas"):
        type_of({"allOf": [{"properties": {f"p{number}": {}}} for number in range(20_000)]})
    with pytest.raises(InvalidSchema, match="more than 10000 columns"):
        type_of({"properties": {f"p{number}": {} for number in range(10_001)}})


def test_properties_that_arrow_cannot_name_are_left_out() -> None:
    assert type_of({"properties": {"a": {"type": "integer"}, "\ud800": {}, "b\0": {}, "": {}}}) == struct_of(a=INT)


def test_tags_are_those_of_all_that_a_column_has_within_it() -> None:
    schema = {
        "properties": {
            "name": {"type": "string", "confluent:tags": ["PII"]},
            "any": {"oneOf": [LINE, {"properties": {"mail": {"type": "string", "confluent:tags": ["MAIL"]}}}]},
            "friends": {"type": "array", "items": {"$ref": "#"}},
        }
    }
    found = {member.path: member for member in members_of(parsed(json.dumps(schema)))}
    assert {path: set(member.tags) for path, member in found.items()} == {
        (): set(), ("name",): {"PII"}, ("any",): {"MAIL"}, ("friends",): {"PII", "MAIL"}
    }  # fmt: skip
    assert found["any",].is_open and found["friends",].is_open and not found["name",].is_open
    assert found["friends",].within == ()


# --- values of real serializers --------------------------------------------------------------------------------------

PERSON: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Person",
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": ["integer", "null"]},
        "weight": {"type": "number"},
        "home": {"$ref": "#/$defs/place"},
        "places": {"type": "array", "items": {"$ref": "#/$defs/place"}},
        "scores": {"type": "object", "additionalProperties": {"type": "number"}},
        "state": {"enum": ["new", "old"]},
        "any": {"oneOf": [{"type": "string"}, {"type": "array"}]},
    },
    "required": ["name"],
    "$defs": {"place": {"type": "object", "properties": {"city": {"type": "string"}, "flat": {"type": "boolean"}}}},
}
PEOPLE: list[dict[str, Any]] = [
    {"name": 'Ann \U0001f600 "é"\n', "age": 2**53 + 1, "weight": 0.1 + 0.2, "home": {"city": "Köln", "flat": True}},
    {
        "name": "",
        "age": None,
        "places": [{"city": "a"}, {}],
        "scores": {"x": 1.5, "ü": -2},
        "state": "old",
        "any": ["b"],
    },
]


def test_values_are_those_of_confluents_deserializer() -> None:
    with MockSchemaRegistryClient({"url": "mock://people"}) as client:
        context = SerializationContext("people", MessageField.VALUE)
        serializer = JSONSerializer(json.dumps(PERSON), client)
        values = [serializer(person, context) for person in PEOPLE]
        deserializer = JSONDeserializer(json.dumps(PERSON), schema_registry_client=client)
        expected = [deserializer(value, context) for value in values]
    assert expected == PEOPLE
    decoder = JsonDecoder(parsed(json.dumps(PERSON)))
    found, faults = decoder.decode(column_of(values), array("i", range(len(values))), 5)
    found.validate(full=True)
    assert not faults
    for row, person in zip(found.to_pylist(), expected, strict=True):
        given = {
            **person,
            **({"scores": list(person["scores"].items())} if "scores" in person else {}),
            **(
                {"places": [{"city": None, "flat": None, **place} for place in person["places"]]}
                if "places" in person
                else {}
            ),
        }
        row["any"] = row["any"] and json.loads(row["any"])
        assert row == {**dict.fromkeys(PERSON["properties"]), **given}


GOLDEN = Path(__file__).parents[1] / "golden" / "schemas" / "records.json"


def test_values_of_confluents_serializer_are_decoded() -> None:
    content = json.loads(GOLDEN.read_text())
    (schema,) = [each for each in content["schemas"] if each["schemaType"] == "JSON"]
    records = [each for each in content["records"] if "JSONSerializer" in each["by"]]
    assert {each["form"] for each in records} == {"confluent", "confluent-header"}
    for record in records:
        skip = 0 if record["headers"] else 5
        decoder = JsonDecoder(parsed(schema["schema"]))
        found, faults = decoder.decode(column_of([bytes.fromhex(record["bytes"])]), array("i", [0]), skip)
        assert (found.to_pylist(), list(faults)) == ([{"a": 1}], [])
