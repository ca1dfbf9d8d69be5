"""`offsetfs sql --mask`: no statement finds what a mask hides."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from fixtures.logs.schema_records import schema_record, write_log, write_schemas

from offsetfs.cli import run
from offsetfs.schemas.masks import parse_masks
from offsetfs.storage import LogDirectory
from offsetfs.tables.sql.session import SqlError, SqlSession

pytestmark = pytest.mark.unit

ORDER = {"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "email", "type": "string", "confluent:tags": ["PII"]}]}  # fmt: skip
RENAMED = {**ORDER, "fields": [ORDER["fields"][0], {"name": "mail", "type": "string", "default": ""}]}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    path = tmp_path / "logs"
    path.mkdir()
    write_schemas(path, [schema_record("orders-value", 1, 1, json.dumps(ORDER))])
    values = [b"\0\0\0\0\1\2\x0csecret", b"\0\0\0\0\1\4\x08open", b"\0sec\x09secret", None]
    write_log(path, "orders-0", [(b"k", value, ()) for value in values])
    write_log(path, "plain-0", [(b"k", b"shown", ())])
    return path


@pytest.fixture
def session(logs: Path) -> Iterator[SqlSession]:
    with (
        closing(LogDirectory.open(str(logs), read_only=True)) as directory,
        SqlSession(directory, masks=parse_masks(["orders:email"])) as made,
    ):
        yield made


def rows(session: SqlSession, statement: str) -> list[tuple[object, ...]]:
    return list(session.run(statement).rows)


def test_a_masked_field_is_null_before_anything_filters(session: SqlSession) -> None:
    assert rows(session, "SELECT id, email FROM decoded.orders") == [(1, None), (2, None), (None, None), (None, None)]
    assert rows(session, "SELECT id FROM decoded.orders WHERE email LIKE 's%'") == []
    assert rows(session, "SELECT id FROM decoded.orders WHERE email = 'secret'") == []
    assert rows(session, "SELECT count(DISTINCT email), max(length(email)) FROM decoded.orders") == [(0, None)]
    assert "sec" not in str(rows(session, "SELECT * FROM decoded.orders"))


def test_raw_values_of_a_masked_topic_are_not_there(session: SqlSession) -> None:
    names = [name for name, _ in session.columns("orders")]
    assert "key_text" in names and not [name for name in names if "value" in name]
    with pytest.raises(SqlError):
        session.run("SELECT value FROM orders")
    shown = rows(session, "SELECT topic, value_text, value FROM all_topics WHERE topic <> '_schemas' ORDER BY topic")
    assert shown == [("orders", None, None)] * 4 + [("plain", "shown", b"shown")]
    assert rows(session, "SELECT count(*) FROM all_topics WHERE topic <> '_schemas' AND value IS NOT NULL") == [(1,)]
    assert rows(session, "SELECT count(*) FROM orders") == [(4,)]


def test_a_field_that_a_new_version_lacks_ends_the_table(session: SqlSession, logs: Path) -> None:
    write_schemas(logs, [schema_record("orders-value", 2, 2, json.dumps(RENAMED))])
    session.refresh()
    with pytest.raises(SqlError, match="mask orders:email: values of orders have no such field; did you mean mail"):
        session.run("SELECT * FROM decoded.orders")
    with pytest.raises(SqlError):
        session.run("SELECT value FROM orders")


def test_the_option_masks_by_path_name_and_tag(logs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for mask in ("orders:email", "orders:*.email", "orders:#PII", "orders:*"):
        assert run(["sql", str(logs), "SELECT * FROM decoded.orders", "--format", "csv", "--mask", mask]) == 0
        assert "sec" not in capfd.readouterr().out
    schema = 'syntax = "proto3"; message P { int32 id = 1; string email = 2 [(confluent.field_meta).tags = "PII"]; }'
    metadata = {"metadata": {"tags": {"P.id": ["KEY"]}}}
    write_schemas(logs, [schema_record("people-value", 1, 9, schema, schemaType="PROTOBUF", **metadata)])
    write_log(logs, "people-0", [(b"k", b"\0\0\0\0\x09\0\x08\1\x12\x06secret", ())])
    for mask, shown in (("people:#PII", "1,"), ("people:#KEY", ",secret")):
        words = ["SELECT id, email FROM decoded.people", "--format", "csv", "--mask", mask]
        assert run(["sql", str(logs), *words]) == 0
        assert capfd.readouterr().out.splitlines()[1:] == [shown]
    for mask, message in (
        ("orders:emial", "mask orders:emial: values of orders have no such field; did you mean email?"),
        ("order:email", "mask order: there is no such topic; did you mean orders?"),
        ("plain:email", "mask plain: there is no subject plain-value"),
        ("email", "mask 'email' is not TOPIC:FIELD[,FIELD]"),
    ):
        assert run(["sql", str(logs), "SELECT 1", "--mask", mask]) == 1
        output = capfd.readouterr()
        assert message in output.err and not output.out and output.err.count("\n") == 1
