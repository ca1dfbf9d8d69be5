"""`read(decode=True)`, and masks in the library."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fixtures.logs.schema_records import schema_record, write_log, write_schemas

import offsetfs
from offsetfs.schemas.decoding import DecodedColumn
from offsetfs.schemas.python_values import python_values

pytestmark = pytest.mark.unit

ORDER = {"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"},
    {"name": "email", "type": "string", "confluent:tags": ["PII"]},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "labels", "type": {"type": "map", "values": "int"}}]}  # fmt: skip


def zigzag(number: int) -> bytes:
    number, out = (number << 1) ^ (number >> 63), bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes((*out, number))


def order(number: int, milliseconds: int = 1000, labels: bytes = b"\x02\x02a\x06\0") -> bytes:
    return b"\0\0\0\0\7" + zigzag(number) + b"\x04me" + zigzag(milliseconds) + labels


@pytest.fixture
def data(tmp_path: Path) -> Iterator[offsetfs.Directory]:
    write_schemas(tmp_path, [schema_record("orders-value", 1, 7, json.dumps(ORDER))])
    with offsetfs.open(tmp_path, "a") as opened:
        for number, partition in enumerate(opened.create("orders", 2)):
            partition.extend(
                offsetfs.NewRecord(value, b"k", [("h", None)], 100 * at + number)
                for at, value in enumerate((order(1), None, b"secret", order(2), order(3)[:-2]))
            )
        opened.create("plain")[0].append(b"x")
        yield opened


AT = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


def decoded(record: offsetfs.Record) -> tuple[Any, str | None]:
    assert isinstance(record, offsetfs.DecodedRecord)
    return record.decoded, record.decoded_error


def test_records_have_their_values_as_objects_or_a_reason(data: offsetfs.Directory) -> None:
    orders = data.partition("orders-1")
    records = list(orders.read(decode=True))
    assert [decoded(record) for record in records] == [
        ({"id": 1, "email": "me", "at": AT, "labels": {"a": 3}}, None),
        (None, None),
        (None, "the record names no schema"),
        ({"id": 2, "email": "me", "at": AT, "labels": {"a": 3}}, None),
        (None, "schema 7: field labels{}: the value ends too early"),
    ]
    for record, raw in zip(records, orders.read(), strict=True):
        assert all(getattr(record, name) == getattr(raw, name) for name in offsetfs.Record.__slots__)
    assert [record.offset for record in orders.read(1, 3, decode=True)] == [1, 2]


def test_keys_are_decoded_where_the_topic_has_a_schema_for_them(data: offsetfs.Directory, tmp_path: Path) -> None:
    data.close()
    key = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
    write_schemas(tmp_path, [schema_record("orders-key", 1, 9, json.dumps(key))])
    good, cut = b"\0\0\0\0\x09\x0e", b"\0\0\0\0\x09"
    write_log(tmp_path, "orders-1", [(good, order(4), ()), (None, order(5), ()), (cut, b"x", ()), (cut, order(6), ())])
    with offsetfs.open(tmp_path) as opened:
        orders = opened.partition("orders-1")
        records = [each for each in orders.read(4, decode=True) if isinstance(each, offsetfs.DecodedRecord)]
        assert [each.decoded_key for each in records] == [None, {"id": 7}, None, None, None]
        assert [each.decoded_error for each in records] == [
            "schema 7: field labels{}: the value ends too early",
            None,
            None,
            "the record names no schema",
            "key: schema 9: field id: the value ends too early",
        ]
        assert [each.key for each in records] == [b"k", good, None, cut, cut]
        table = orders.arrow(3, decode=True).read_all()
        assert table.column("key").to_pylist() == [None, None, {"id": 7}, None, None, None]
        assert table.column("error").to_pylist()[::4] == ["key: the record names no schema", records[3].decoded_error]
        alone = orders.arrow(5, decode=True, columns=["key", "offset"]).read_all()
        assert alone.column_names == ["key", "offset", "error"]
        assert alone.column("error").to_pylist() == [None, None, *[records[4].decoded_error] * 2]
        assert orders.arrow(5, decode=True, columns=["offset"]).schema.names == ["offset"]
        followed = next(opened.partition("orders-0").follow(0, decode=True))
        assert isinstance(followed, offsetfs.DecodedRecord)
        assert followed.decoded_error == "key: the record names no schema"


def test_a_topic_merges_decoded_records_by_time(data: offsetfs.Directory) -> None:
    topic = data.topic("orders")
    records = list(topic.read(decode=True))
    assert [(each.partition, each.offset) for each in records] == [(p, o) for o in range(5) for p in (0, 1)]
    assert decoded(records[6])[0]["id"] == 2


def test_a_value_that_python_cannot_hold_has_a_reason(data: offsetfs.Directory) -> None:
    orders = data.partition("orders-0")
    orders.extend(
        offsetfs.NewRecord(value)
        for value in (order(1), order(2, 1 << 55), order(3, labels=b"\x04\x02a\x02\x02a\x04\0"))
    )
    first, second, third = map(decoded, orders.read(5, decode=True))
    assert first[0]["id"] == 1
    assert second == (None, "schema 7: field at: a date or time is out of range")
    assert third == (None, "schema 7: field labels: a map has the same key twice")
    for found, reason in (
        (pa.array([1 << 60], pa.timestamp("us")), "the value has a time outside of the years 1 to 9999"),
        (pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int32())), "a map in the value has a key twice"),
    ):
        column = DecodedColumn(found, pa.array([None], pa.string()).dictionary_encode())
        assert list(python_values(column)) == [(None, reason)]


def test_a_header_name_that_is_no_utf8_ends_no_reading(data: offsetfs.Directory) -> None:
    orders = data.partition("orders-0")
    orders.append(order(9), headers=[("\udcff", b"x"), ("ü", None)])
    (record,) = orders.read(-1, decode=True)
    assert decoded(record)[0]["id"] == 9 and record.headers == (("\udcff", b"x"), ("ü", None))


def test_masked_fields_are_null_and_raw_values_are_withheld(data: offsetfs.Directory) -> None:
    for mask in (["orders:email"], ["orders:#PII"], ["orders:*.email"]):
        for records in (
            list(data.partition("orders-0").read(decode=True, mask=mask)),
            list(data.topic("orders").read(decode=True, mask=mask)),
        ):
            assert {record.value for record in records} == {None}
            assert "'me'" not in str(records) and "secret" not in str(records)
            assert decoded(records[0])[0] == {"id": 1, "email": None, "at": AT, "labels": {"a": 3}}
        rows = data.partition("orders-0").arrow(decode=True, mask=mask, columns=["value"]).read_all().to_pylist()
        assert rows[0]["value"]["email"] is None and rows[0]["value"]["id"] == 1
        assert rows[2]["error"] == "not decoded; the topic has a mask, so neither the value nor the reason is shown"


def register(data: offsetfs.Directory, record: tuple[bytes | None, bytes | None]) -> None:
    data.partition("_schemas-0").append(record[1], key=record[0])


def test_tags_in_the_metadata_of_any_version_are_masked(data: offsetfs.Directory) -> None:
    metadata: dict[str, Any] = {"tags": {"**.labels": ["INTERNAL", 5], "x": "no list"}, "properties": None}
    register(data, schema_record("orders-value", 1, 7, json.dumps(ORDER), metadata=metadata))
    register(data, schema_record("orders-value", 2, 8, json.dumps(ORDER), metadata={"tags": []}))
    record = next(data.partition("orders-0").read(decode=True, mask=["orders:#INTERNAL"]))
    assert decoded(record)[0] == {"id": 1, "email": "me", "at": AT, "labels": None}


def test_tags_and_paths_of_protobuf_are_masked(data: offsetfs.Directory) -> None:
    text = 'syntax = "proto3"; message Note { string email = 1; int64 id = 2; }'
    metadata = {"tags": {"**.id": ["PII"]}}
    register(data, schema_record("notes-value", 1, 9, text, schemaType="PROTOBUF", metadata=metadata))
    data.create("notes")[0].append(b"\0\0\0\0\x09\0\x0a\x02me\x10\x05")
    notes = data.partition("notes-0")
    assert decoded(next(notes.read(decode=True)))[0] == {"email": "me", "id": 5}
    for mask in ("notes:email", "notes:*.email"):
        assert decoded(next(notes.read(decode=True, mask=[mask])))[0] == {"email": None, "id": 5}
    assert decoded(next(notes.read(decode=True, mask=["notes:#PII"])))[0] == {"email": "me", "id": None}


def test_a_mask_that_hides_nothing_is_refused(data: offsetfs.Directory) -> None:
    orders = data.partition("orders-0")
    for mask, message in (
        ("orders:emial", "did you mean email"),
        ("order:email", "did you mean orders"),
        ("orders:#PI", "did you mean #PII"),
        ("plain:x", "mask plain: there is no subject plain-value"),
        ("email", "is not TOPIC:FIELD"),
    ):
        for call in (orders.read, orders.arrow, data.topic("orders").read, data.topic("orders").arrow):
            with pytest.raises(ValueError, match=message):
                call(decode=True, mask=[mask])
    with pytest.raises(ValueError, match="mask goes with decode=True"):
        orders.read(mask=["orders:email"])


def test_followed_records_are_decoded_by_schemas_that_come_meanwhile(data: offsetfs.Directory) -> None:
    orders = data.partition("orders-0")
    followed = orders.follow(0, 0, decode=True)
    expected = [decoded(record) for record in orders.read(decode=True)]
    assert [decoded(next(followed)) for _ in expected] == expected
    newer = {**ORDER, "fields": [*ORDER["fields"], {"name": "grown", "type": "int", "default": 5}]}
    register(data, schema_record("orders-value", 2, 8, json.dumps(newer)))
    value = order(9)
    orders.extend([offsetfs.NewRecord(b"\0\0\0\0\x08" + value[5:] + b"\x0e"), offsetfs.NewRecord(value)])
    found = [decoded(record) for record in followed]
    assert [value and (value["id"], value["grown"]) for value, _ in found] == [(9, 7), (9, 5)]


def test_a_follower_keeps_its_fields_if_the_subject_is_deleted(data: offsetfs.Directory) -> None:
    orders = data.partition("orders-0")
    followed = orders.follow(timeout=0, decode=True, mask=["orders:email"])
    register(data, schema_record("orders-value", 1, 7, json.dumps(ORDER), deleted=True))
    orders.append(order(9))
    (record,) = followed
    assert decoded(record)[0] == {"id": 9, "email": None, "at": AT, "labels": {"a": 3}} and record.value is None
    with pytest.raises(ValueError, match="there is no subject nope-value"):
        data.create("nope")[0].follow(decode=True)
