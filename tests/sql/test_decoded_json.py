"""`decoded.TOPIC` and decoded Arrow columns of topics whose values have a JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs.schema_records import Headers, reference, schema_record, write_log, write_schemas

import offsetfs
from offsetfs.cli import run

pytestmark = pytest.mark.unit

LINE = {"$id": "https://example.org/line.json", "type": "object", "properties": {"sku": {"type": "string"}}}
FIRST: dict[str, Any] = {
    "$id": "https://example.org/order.json",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "when": {"type": "string", "format": "date-time"}},
}
SECOND: dict[str, Any] = {
    **FIRST,
    "properties": {
        **FIRST["properties"],
        "lines": {"type": "array", "items": {"$ref": "line.json"}},
        "labels": {"type": "object", "additionalProperties": {"type": "integer"}},
        "who": {"type": ["object", "null"], "properties": {"name": {"type": "string", "confluent:tags": ["PII"]}}},
        "extra": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
    },
}
GUID = "be5b18e4-ff2b-4a2e-8be0-0181825bb633"

Query = Callable[..., list[Any]]


def confluent(number: int, value: Any) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + json.dumps(value).encode()


def write(path: Path, topic: str, *records: tuple[bytes | None, Headers]) -> None:
    write_log(path, f"{topic}-0", [(b"k", value, headers) for value, headers in records])


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """Values of two versions, of which the second refers to another schema; one in the form with a header."""
    write_schemas(tmp_path, [
        schema_record("line", 1, 9, json.dumps(LINE), schemaType="JSON"),
        schema_record("orders-value", 1, 1, json.dumps(FIRST), schemaType="JSON"),
        schema_record("orders-value", 2, 2, json.dumps(SECOND), schemaType="JSON", guid=GUID,
                      references=[reference("line.json", "line", 1)]),
    ])  # fmt: skip
    newer = {"id": 2, "lines": [{"sku": "a", "more": 1}], "labels": {"x": 5}, "who": {"name": "Ann"}, "extra": 7}
    header = ("__value_schema_id", b"\1" + bytes.fromhex(GUID.replace("-", "")))
    write(
        tmp_path,
        "orders",
        (confluent(1, {"id": 1, "when": "2026-12-01T10:00:00+02:00"}), ()),
        (confluent(2, newer), ()),
        (None, ()),
        (confluent(2, {"id": 1.5}), ()),
        (confluent(2, {"id": 5, "lines": [{"sku": 5}]}), ()),
        (json.dumps({"id": 6}).encode(), (header,)),
        (confluent(1, {"id": 7})[:-1], ()),
    )
    return tmp_path


@pytest.fixture
def query(capsys: pytest.CaptureFixture[str]) -> Query:
    def ask(path: Path, statement: str, *options: str) -> list[Any]:
        assert run(["sql", str(path), statement, "--format", "json", *options]) == 0
        found: list[Any] = json.loads(capsys.readouterr().out)
        return found

    return ask


def column(rows: Sequence[dict[str, Any]], name: str) -> list[Any]:
    return [row[name] for row in rows]


def test_fields_are_columns_of_the_newest_version(orders: Path, query: Query) -> None:
    found = query(orders, "SELECT * FROM decoded.orders ORDER BY _offset")
    assert column(found, "id") == [1, 2, None, None, None, 6, None]
    assert column(found, "when")[0] == "2026-12-01T10:00:00+02:00"
    assert found[1]["lines"] == [{"sku": "a"}]
    assert found[1]["who"] == {"name": "Ann"}
    assert found[1]["extra"] == "7"
    assert query(orders, "SELECT labels['x'] AS x FROM decoded.orders WHERE id = 2") == [{"x": 5}]
    assert column(found, "_error") == [
        None,
        None,
        None,
        "schema 2: field id: a number has a fraction, and the schema says integer",
        "schema 2: field lines[].sku: the type is not that of the schema",
        None,
        "schema 1: the JSON text ends too early",
    ]


def test_a_file_of_the_user_decodes_plain_json(tmp_path: Path, query: Query) -> None:
    logs, schema = tmp_path / "logs", tmp_path / "plain.json"
    logs.mkdir()
    schema.write_text(json.dumps(FIRST))
    write(logs, "plain", (b'{"id": 1}', ()), (b' {"id":2} ', ()), (b'{"id":', ()), (b"7", ()))
    assert query(logs, "SELECT id, _error FROM decoded.plain ORDER BY _offset", "--schema", f"plain={schema}") == [
        {"id": 1, "_error": None},
        {"id": 2, "_error": None},
        {"id": None, "_error": "the schema of the topic: field id: the JSON text ends too early"},
        {"id": None, "_error": "the schema of the topic: the type is not that of the schema"},
    ]


def test_the_library_decodes_to_arrow(orders: Path) -> None:
    with offsetfs.open(str(orders)) as data:
        table = data.partition("orders-0").arrow(decode=True).read_all()
    assert [value and value["id"] for value in table.column("value").to_pylist()] == [1, 2, None, None, None, 6, None]
    assert table.column("error").null_count == 4


def test_a_reference_that_leads_to_no_schema_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_schemas(tmp_path, [schema_record("lost-value", 1, 1, json.dumps(SECOND), schemaType="JSON")])
    write(tmp_path, "lost", (confluent(1, {}), ()))
    assert run(["sql", str(tmp_path), "SELECT * FROM decoded.lost"]) == 1
    assert (
        "lost-value/1: lines refers to line.json, which neither the schema nor its references define"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("mask", "hidden"), [("orders:who.name", "who"), ("orders:#PII", "who"), ("orders:*.sku", "lines")]
)
def test_masks_hide_fields(orders: Path, query: Query, mask: str, hidden: str) -> None:
    (found,) = query(orders, "SELECT who, lines, extra FROM decoded.orders WHERE id = 2", "--mask", mask)
    assert found[hidden] in ({"name": None}, [{"sku": None}])
    assert (found["extra"] is None) == ("*" in mask)  # JSON text may have such a field


def test_names_that_differ_by_case_alone_are_columns(tmp_path: Path, query: Query) -> None:
    inner = {"type": "object", "properties": {"a": {"type": "string"}, "A": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"x": {"type": "integer"}, "X": inner, "nothing": {"type": "null"}}}
    write_schemas(tmp_path, [schema_record("case-value", 1, 1, json.dumps(schema), schemaType="JSON")])
    write(tmp_path, "case", (confluent(1, {"x": 1, "X": {"a": "b", "A": 2}}), ()))
    (found,) = query(tmp_path, "SELECT * FROM decoded.case")
    assert (found["x"], found["X_1"], found["nothing"]) == (1, {"a": "b", "A": 2}, None)
