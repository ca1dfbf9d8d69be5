"""`decoded.TOPIC`: the values of a topic as columns, by the schemas that its records name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from fixtures.logs.avro_values import FIRST, avro, confluent, opened, order, rows
from fixtures.logs.schema_records import reference, schema_key, schema_record, write_log, write_schemas

from offsetfs.cli import run
from offsetfs.schemas.avro_fingerprint import fingerprint_of
from offsetfs.schemas.schema_files import FileSchema
from offsetfs.tables.sql.session import SqlError, SqlSession

pytestmark = pytest.mark.unit

AMOUNT = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
SECOND = {**FIRST, "fields": [
    *FIRST["fields"], {"name": "amount", "type": ["null", AMOUNT], "default": None},
    {"name": "lines", "type": {"type": "array", "items": "string"}, "default": ["none"]}]}  # fmt: skip


def values(path: Path, topic: str, *records: bytes | None) -> None:
    write_log(path, f"{topic}-0", [(b"k", value, ()) for value in records])


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """Two versions of a schema, records of both, and records that no schema fits."""
    write_schemas(tmp_path, [
        schema_record("orders-value", 1, 1, json.dumps(FIRST)), schema_record("orders-value", 2, 2, json.dumps(SECOND)),
    ])  # fmt: skip
    newer = order(2, amount=Decimal("3.50"), lines=["a", "b"])
    first, second, third = confluent(1, FIRST, order(1)), confluent(2, SECOND, newer), confluent(1, FIRST, order(3))
    values(tmp_path, "orders", first, second, None, b"plain", b"\0\0\0\0\x09x", third, second[:-1])
    return tmp_path


@pytest.fixture
def session(orders: Path) -> Iterator[SqlSession]:
    with opened(orders) as made:
        yield made


def test_fields_are_columns_of_the_newest_version(session: SqlSession) -> None:
    assert rows(
        session, "SELECT id, customer, amount, lines FROM decoded.orders WHERE _error IS NULL ORDER BY _offset"
    ) == [
        (1, "c1", None, ["none"]),
        (2, "c2", Decimal("3.50"), ["a", "b"]),
        (None, None, None, None),  # a record without a value
        (3, "c3", None, ["none"]),
    ]


def test_a_value_that_is_not_decoded_is_null_with_the_reason(session: SqlSession) -> None:
    assert rows(
        session, "SELECT _offset, id, _error FROM decoded.orders WHERE _error IS NOT NULL ORDER BY _offset"
    ) == [
        (3, None, "the record names no schema"),
        (4, None, "schema 9 is unknown"),
        (6, None, "schema 2: field lines: the value ends too early"),
    ]


def test_a_field_hides_no_column_of_the_record(session: SqlSession) -> None:
    """The schema has a field `offset`; conditions on the record's own are look-ups."""
    assert rows(session, 'SELECT "offset", _offset FROM decoded.orders WHERE _offset BETWEEN 1 AND 1') == [(-2, 1)]
    (scan,) = session.run("EXPLAIN SELECT id FROM decoded.orders WHERE _offset >= 5").scans
    assert [(found.start, found.stop) for found in scan.ranges] == [(5, 7)]
    assert "value" not in scan.columns


def test_a_field_that_is_taken_for_a_column_of_the_topic_is_said_to_be_one(session: SqlSession, orders: Path) -> None:
    values(orders, "texts", b'{"amount": 1}')
    session.refresh()
    for statement, wanted in {
        "SELECT Amount FROM orders": "Amount is a field of values; write FROM decoded.orders (",
        'SELECT amount FROM "orders" o': "amount is a field of values; write FROM decoded.orders (",
        "SELECT amount FROM texts": "if amount is a field of values that are JSON, write value->>'amount' (",
        "SELECT offsets FROM texts": "Binder Error",
        'SELECT amounts FROM decoded."orders"': "Binder Error",
    }.items():
        with pytest.raises(SqlError) as raised:
            session.run(statement)
        assert str(raised.value).startswith(wanted), statement


def test_only_fields_that_a_statement_names_are_decoded(session: SqlSession) -> None:
    """The damage lies in a field behind them."""
    assert rows(session, "SELECT id FROM decoded.orders WHERE _offset = 6") == [(None,)]
    assert rows(session, "SELECT count(*) FROM decoded.orders") == [(7,)]


def test_new_versions_are_columns_after_a_refresh(session: SqlSession, orders: Path) -> None:
    third = {**SECOND, "fields": [*SECOND["fields"], {"name": "note", "type": "string", "default": "-"}]}
    write_schemas(orders, [schema_record("orders-value", 3, 3, json.dumps(third))])
    session.refresh()
    assert rows(session, "SELECT DISTINCT note FROM decoded.orders WHERE _error IS NULL AND id IS NOT NULL") == [("-",)]


def test_deleted_versions_still_decode(orders: Path) -> None:
    write_schemas(orders, [(schema_key("orders-value", 1), None)])
    with opened(orders) as session:
        assert rows(session, "SELECT id FROM decoded.orders WHERE _offset = 0") == [(1,)]


def test_references_between_schemas_are_followed(tmp_path: Path) -> None:
    line = {"type": "record", "name": "Line", "namespace": "shop", "fields": [{"name": "sku", "type": "string"}]}
    outer = {"type": "record", "name": "Basket", "namespace": "shop", "fields": [
        {"name": "lines", "type": {"type": "array", "items": "shop.Line"}}]}  # fmt: skip
    write_schemas(tmp_path, [
        schema_record("line", 1, 5, json.dumps(line)),
        schema_record("baskets-value", 1, 6, json.dumps(outer), references=[reference("shop.Line", "line", 1)]),
        schema_record("lost-value", 1, 7, json.dumps(outer), references=[reference("shop.Line", "gone", 1)]),
    ])  # fmt: skip
    whole = {**outer, "fields": [{"name": "lines", "type": {"type": "array", "items": line}}]}
    values(tmp_path, "baskets", confluent(6, whole, {"lines": [{"sku": "a"}]}))
    values(tmp_path, "lost", confluent(7, whole, {"lines": []}))
    with opened(tmp_path) as session:
        assert rows(session, "SELECT lines FROM decoded.baskets") == [([{"sku": "a"}],)]
        with pytest.raises(
            SqlError, match=r"decoded\.lost is not there: lost-value/1: reference .* leads to no schema"
        ):
            session.run("SELECT * FROM decoded.lost")


def test_values_that_name_no_schema_or_a_fingerprint_are_read_by_a_file(tmp_path: Path) -> None:
    text = json.dumps(FIRST)
    single = b"\xc3\x01" + int(fingerprint_of(text), 16).to_bytes(8, "little") + avro(FIRST, order(2))
    values(tmp_path, "plain", avro(FIRST, order(1)), single)
    (tmp_path / "orders.avsc").write_text(text)
    given = {"plain": FileSchema("plain", "AVRO", text, "orders.avsc")}
    with opened(tmp_path, given) as session:
        assert rows(session, "SELECT id, _error FROM decoded.plain") == [(1, None), (2, None)]
        with pytest.raises(SqlError, match="there is no subject other-value; --schema other=FILE gives a schema"):
            values(tmp_path, "other", b"x")
            session.refresh()
            session.run("SELECT * FROM decoded.other")


def test_values_that_are_no_records_are_one_column(tmp_path: Path) -> None:
    write_schemas(
        tmp_path,
        [
            schema_record("names-value", 1, 1, '"string"'),
            schema_record("p-value", 1, 2, "<p/>", schemaType="XSD"),
        ],
    )
    values(tmp_path, "names", confluent(1, "string", "anna"))
    values(tmp_path, "p", b"\0\0\0\0\2\0")
    with opened(tmp_path) as session:
        assert rows(session, "SELECT value FROM decoded.names") == [("anna",)]
        with pytest.raises(SqlError, match=r"the schema is XSD, and only AVRO, .* decoded"):
            session.run("SELECT * FROM decoded.p")


def test_a_schema_with_too_many_columns_concerns_its_topic_alone(orders: Path) -> None:
    wide = {"type": "record", "name": "Wide", "fields": [{"name": f"f{n}", "type": "int"} for n in range(10_001)]}
    write_schemas(orders, [schema_record("wide-value", 1, 8, json.dumps(wide))])
    values(orders, "wide", b"x")
    with opened(orders) as session:
        assert rows(session, "SELECT count(*) FROM decoded.orders") == [(7,)]
        with pytest.raises(SqlError, match="more than 10000 columns"):
            session.run("SELECT * FROM decoded.wide")


def test_the_command_takes_a_schema_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    values(logs, "plain", avro(FIRST, order(1)))
    (tmp_path / "o.avsc").write_text(json.dumps(FIRST))
    words = ["sql", str(logs), "SELECT id FROM decoded.plain", "--format", "csv", "--schema"]
    assert run([*words, f"plain={tmp_path / 'o.avsc'}"]) == 0
    assert capsys.readouterr().out == "id\n1\n"
    assert run([*words, f"plain={tmp_path / 'o.txt'}"]) == 1
    assert "the type is unknown" in capsys.readouterr().err
