"""`decoded.TOPIC` and `arrow(decode=True)` for values of Protobuf, by the schemas in `_schemas` or in files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs.schema_records import reference, schema_record, write_log, write_schemas

import offsetfs
from offsetfs.cli import run

pytestmark = pytest.mark.unit

COMMON = 'syntax = "proto3"; package shop; message Line { string sku = 1; int32 pieces = 2; }'
FIRST = """
syntax = "proto3";
package shop;
import "shop/common.proto";
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1;
  repeated Line lines = 2;
  google.protobuf.Timestamp placed = 3;
}
message Refund { int64 id = 1; message Part { string why = 1; } }
"""
SECOND = FIRST.replace("placed = 3;", "placed = 3; State state = 4; enum State { NEW = 0; PAID = 1; }")
ORDER = b"\x08\x07\x12\x05\x0a\x01a\x10\x02\x1a\x06\x08\x80\xae\x86\xd8\x06"


def confluent(number: int, path: bytes, message: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + path + message


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two versions of a schema that refers to another, and records of both."""
    made = tmp_path / "logs"
    made.mkdir()
    refers = {"schemaType": "PROTOBUF", "references": [reference("shop/common.proto", "common", 1)]}
    write_schemas(made, [
        schema_record("common", 1, 1, COMMON, schemaType="PROTOBUF"),
        schema_record("orders-value", 1, 2, FIRST, **refers), schema_record("orders-value", 2, 3, SECOND, **refers),
    ])  # fmt: skip
    values = [
        confluent(2, b"\0", ORDER), confluent(3, b"\0", ORDER + b"\x20\x01"), None, confluent(3, b"\2\2", b"\x08\x01"),
        confluent(3, b"\2\x0a", b"\x08\x01"), confluent(3, b"\0", ORDER[:-1]), confluent(2, b"", ORDER),
    ]  # fmt: skip
    write_log(made, "orders-0", [(b"k", value, ()) for value in values])
    return made


def rows(capsys: pytest.CaptureFixture[str], *words: str) -> list[Any]:
    assert run(["sql", *words, "--format", "ndjson"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_command_reads_values_of_protobuf(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(
        capsys,
        str(logs),
        "SELECT _offset, id, lines[1].sku AS sku, state, placed::DATE AS day, _error FROM decoded.orders",
    )
    assert [tuple(row.values()) for row in found] == [
        (0, 7, "a", "NEW", "2026-11-21", None),
        (1, 7, "a", "PAID", "2026-11-21", None),
        (2, None, None, None, None, None),
        (3, None, None, None, None, "schema 3: the message is shop.Refund, and the columns are those of shop.Order"),
        (4, None, None, None, None, "schema 3: the path of the message leads to no message of its schema"),
        (5, None, None, None, None, "schema 3: field placed: the value ends too early"),
        (6, 7, "a", "NEW", "2026-11-21", None),  # as kafkajs writes it, without a path
    ]


def test_the_library_has_columns_of_arrow(logs: Path) -> None:
    with offsetfs.open(str(logs)) as data:
        table = data.partition("orders-0").arrow(decode=True).read_all()
    (first, *_), errors = table["value"].to_pylist(), table["error"].to_pylist()
    assert first["lines"] == [{"sku": "a", "pieces": 2}] and first["state"] == "NEW"
    assert [error is None for error in errors] == [True, True, True, False, False, False, True]


def test_columns_are_those_of_the_message_that_most_values_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The path is in the value, or in the header."""
    text = FIRST.replace("Line lines", "int32 lines").replace('import "shop/common.proto";', "")
    guid = "b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63"
    stored = [
        schema_record(f"{topic}-value", 1, 7, text, schemaType="PROTOBUF", guid=guid) for topic in ("refunds", "parts")
    ]
    write_schemas(tmp_path, stored)
    values = [confluent(7, path, b"\x08\x05") for path in (b"\0", b"\2\2", b"\2\2", b"\2\2")]
    write_log(tmp_path, "refunds-0", [(None, value, ()) for value in values])
    header = (("__value_schema_id", b"\1" + bytes.fromhex(guid.replace("-", "")) + b"\4\2\0"),)
    write_log(tmp_path, "parts-0", [(None, b"\x0a\x03odd", header)])
    found = rows(capsys, str(tmp_path), "SELECT id, _error FROM decoded.refunds ORDER BY _offset")
    assert [row["id"] for row in found] == [None, 5, 5, 5]
    assert found[0]["_error"] == "schema 7: the message is shop.Order, and the columns are those of shop.Refund"
    assert rows(capsys, str(tmp_path), "SELECT why, _error FROM decoded.parts") == [{"why": "odd", "_error": None}]


def test_decoded_files_show_each_value_as_the_message_that_it_is(logs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["cat", str(logs), "topics/orders/decoded/records.ndjson"]) == 0
    found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [found[row]["value"]["id"] for row in (0, 1, 3, 6)] == [7, 7, 1, 7]
    assert found[1]["value"]["state"] == "PAID" and "state" not in found[0]["value"]
    assert found[4]["value_error"] == "schema 3: the path of the message leads to no message of its schema"
    assert found[5]["value_error"] == "schema 3: field placed: the value ends too early"


EXTREMES = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
message A {
  enum E { Z = 0; O = 1; }
  repeated E states = 1;
  map<bool, E> by_flag = 2;
  google.protobuf.Timestamp t = 4;
  google.protobuf.Duration d = 5;
  uint64 u = 7;
  I i = 8;
  message I { E e = 1; }
}
"""


def test_extremes_of_every_kind_end_no_query(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    last = b"\x22\x0c\x08\x83\xfa\x85\xae\x22\x10\xff\x93\xeb\xdc\x03"  # 9223372035.999999999 seconds
    zero_of_go = b"\x22\x0b\x08\x80\x92\xb8\xc3\x98\xfe\xff\xff\xff\x01"  # the year 1
    most = b"\x0a\x02\x01\x09\x12\x04\x08\x01\x10\x07\x38" + b"\xff" * 9 + b"\x01\x42\x02\x08\x05"
    write_schemas(tmp_path, [schema_record("a-value", 1, 1, EXTREMES, schemaType="PROTOBUF")])
    values = [confluent(1, b"\0", each) for each in (most, last, zero_of_go, b"")]
    write_log(tmp_path, "a-0", [(None, value, ()) for value in values])
    first, second, third, _ = rows(capsys, str(tmp_path), "SELECT * FROM decoded.a ORDER BY _offset")
    assert (first["states"], first["by_flag"], first["u"], first["i"]) == (
        ["O", "9"],
        {"true": "7"},
        2**64 - 1,
        {"e": "5"},
    )
    assert second["t"] is not None and second["_error"] is None
    assert third["t"] is None and third["u"] == 0 and "a time is outside of the years" in third["_error"]
