"""`decoded.TOPIC`: the forms in which records name schemas, in headers too, and keys."""

from __future__ import annotations

import json
import uuid
import zlib
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs.avro_values import FIRST, avro, confluent, opened, order, rows
from fixtures.logs.schema_records import Headers, KeyAndValue, schema_record, write_log, write_schemas

import offsetfs
from offsetfs.schemas import decoding
from offsetfs.schemas.avro_fingerprint import fingerprint_of
from offsetfs.schemas.schema_files import FileSchema, read_schema_files

pytestmark = pytest.mark.unit

TEXT = json.dumps(FIRST)
GUID = uuid.UUID("89791762-2336-4186-9674-299b90a802e2")
OTHER: dict[str, Any] = {"type": "record", "name": "Other", "fields": [{"name": "pieces", "type": "int"}]}


def schema(name: str, described: Any = FIRST) -> FileSchema:
    return FileSchema(name, "AVRO", json.dumps(described), f"{name}.avsc")


def write(path: Path, *records: tuple[bytes | None, Headers]) -> None:
    write_log(path, "orders-0", [(b"k", value, headers) for value, headers in records])


def headers_named(name: str, value: bytes) -> Headers:
    return (("trace", b"1"), (name, value))


def schemas(path: Path, *records: KeyAndValue) -> None:
    write_schemas(path, records)


@pytest.fixture
def registered(tmp_path: Path) -> Path:
    schemas(
        tmp_path,
        schema_record("orders-value", 1, 1, TEXT, guid=str(GUID)),
        schema_record("other-value", 1, 2, json.dumps(OTHER)),
    )
    return tmp_path


@pytest.mark.parametrize(
    ("name", "content", "given"),
    [
        ("__value_schema_id", b"\1" + GUID.bytes, ""),
        ("__value_schema_id", b"\1" + GUID.bytes + b"\0", ""),
        ("__value_schema_id", b"\0\0\0\0\1", ""),
        ("apicurio.value.globalId", (1 << 40).to_bytes(8, "big"), str(1 << 40)),
        ("apicurio.value.contentId", (7).to_bytes(8, "big"), "7"),
        ("content-type", b"avro/binary+" + b"5" * 32, "5" * 32),
        ("ce_dataschema", b"http://localhost/Schemas/orders", "http://localhost/Schemas/orders"),
    ],
)
def test_a_schema_that_a_header_names_decodes_the_value(
    name: str, content: bytes, given: str, registered: Path
) -> None:
    write(registered, (avro(FIRST, order(1)), headers_named(name, content)), (None, headers_named(name, content)))
    with opened(registered, {given.lower(): schema(given)} if given else None) as session:
        assert rows(session, "SELECT id, customer, _error FROM decoded.orders ORDER BY _offset") == [
            (1, "c1", None),
            (None, None, None),
        ]


def test_a_header_goes_before_first_bytes_that_look_like_an_id(registered: Path) -> None:
    """A record whose first field is 0 and whose next bytes are an id that is known."""
    header = headers_named("__value_schema_id", b"\1" + GUID.bytes)
    value = avro(FIRST, {"id": 0, "customer": "", "offset": 0}) + b""
    longer = avro(FIRST, {"id": 0, "customer": "\0\0\2", "offset": 5})
    write(registered, (value, header), (longer, header), (confluent(1, FIRST, order(3)), ()))
    with opened(registered) as session:
        assert rows(session, 'SELECT id, customer, "offset", _error FROM decoded.orders ORDER BY _offset') == [
            (0, "", 0, None),
            (0, "\0\0\2", 5, None),
            (3, "c3", -3, None),
        ]


def test_of_several_headers_the_last_one_with_the_name_of_the_first_form_counts(registered: Path) -> None:
    guid, unknown = b"\1" + GUID.bytes, b"\1" + bytes(16)
    value = avro(FIRST, order(1))
    name, other = "__value_schema_id", "ce_dataschema"
    write(
        registered,
        (value, ((name, unknown), (other, b"x"), (name, guid))),
        (value, ((name, guid), (name, unknown))),
        (value, ((name, None), (name, guid), ("__key_schema_id", unknown))),
        (confluent(1, FIRST, order(2)), ((name, b"\1short"), (name, None))),
    )
    with opened(registered) as session:
        assert rows(session, "SELECT id, _error FROM decoded.orders ORDER BY _offset") == [
            (1, None),
            (None, f"schema {uuid.UUID(int=0)} is unknown"),
            (1, None),
            (2, None),
        ]


def test_headers_are_looked_at_whatever_columns_are_named(registered: Path) -> None:
    header = headers_named("__value_schema_id", b"\1" + GUID.bytes)
    write(registered, (avro(FIRST, order(1)), header), (confluent(1, FIRST, order(2)), ()))
    with opened(registered) as session:
        assert rows(session, "SELECT id, len(_headers) FROM decoded.orders ORDER BY _offset") == [(1, 2), (2, None)]
        assert rows(session, "SELECT sum(id) FROM decoded.orders WHERE _error IS NULL") == [(3,)]
    with offsetfs.open(registered) as data:
        orders = data.partition("orders-0")
        for columns in (["value"], ["headers", "value", "offset"], ["key", "value"]):
            table = orders.arrow(decode=True, columns=columns).read_all()
            assert table.column_names == [*columns, "error"]
            assert [value["id"] for value in table.column("value").to_pylist()] == [1, 2]
        assert [record.decoded["id"] for record in orders.read(decode=True)] == [1, 2]  # type: ignore[attr-defined]


def test_numbers_of_apicurio_and_fingerprints_are_read_by_files(tmp_path: Path) -> None:
    value = avro(FIRST, order(1))
    fingerprint = int(fingerprint_of(TEXT), 16).to_bytes(8, "little")
    write(tmp_path, (b"\0" + (9).to_bytes(8, "big") + value, ()), (b"\xc3\1" + fingerprint + value, ()))
    with opened(tmp_path, {"orders": schema("orders"), "9": schema("9")}) as session:
        assert rows(session, "SELECT id, _error FROM decoded.orders") == [(1, None)] * 2


# --- keys ------------------------------------------------------------------------------------------------------------


def keyed(path: Path, *keys: bytes | None) -> None:
    write_log(path, "orders-0", [(key, confluent(1, FIRST, order(1)), ()) for key in keys])


def test_keys_are_decoded_by_the_subject_of_keys(registered: Path) -> None:
    schemas(registered, schema_record("orders-key", 1, 3, '"string"'))
    header: Headers = (("__key_schema_id", b"\0\0\0\0\3"), ("__value_schema_id", b"\0\0\0\0\1"))
    keyed(registered, confluent(3, "string", "a"), b"plain", None)
    write_log(registered, "orders-0", [(avro("string", "b"), avro(FIRST, order(1)), header)])
    with opened(registered) as session:
        assert rows(session, "SELECT _key, id, _error FROM decoded.orders ORDER BY _offset") == [
            ("a", 1, None),
            (None, 1, "key: the record names no schema"),
            (None, 1, None),
            ("b", 1, None),
        ]
        assert rows(session, "SELECT _key FROM decoded.orders WHERE _offset = 0") == [("a",)]
        assert rows(session, "SELECT count(*) FROM decoded.orders WHERE _error IS NULL") == [(3,)]


def test_keys_without_a_schema_stay_bytes(registered: Path) -> None:
    keyed(registered, b"plain")
    with opened(registered) as session:
        assert rows(session, "SELECT _key, _error FROM decoded.orders") == [(b"plain", None)]


def test_a_file_gives_the_schema_of_keys_that_name_none(registered: Path) -> None:
    keyed(registered, avro(OTHER, {"pieces": 5}), b"")
    with opened(registered, {"orders:key": schema("orders:key", OTHER)}) as session:
        assert rows(session, "SELECT _key.pieces, _error FROM decoded.orders ORDER BY _offset") == [
            (5, None),
            (None, "key: the schema of the topic: field pieces: the value ends too early"),
        ]


# --- values of Glue, and values that only look like a reference ------------------------------------------------------


def test_compressed_values_of_glue_are_inflated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "INFLATED_BYTES_MAX", 1000)
    reference, value = uuid.UUID(int=7), avro(FIRST, order(1))
    packed = zlib.compress(value)
    most = avro(FIRST, {**order(2), "customer": "x" * 900})
    contents = [packed, value, packed[:-5], b"", zlib.compress(bytes(1001)), packed + b"more", zlib.compress(most)]
    head = b"\3\5" + reference.bytes
    write(tmp_path, (b"\3\0" + reference.bytes + value, ()), *((head + each, ()) for each in contents))
    name = str(reference)
    with opened(tmp_path, {name: schema(name), "orders": schema("orders")}) as session:
        found = rows(session, "SELECT id, _error FROM decoded.orders ORDER BY _offset")
    assert [number for number, _ in found] == [1, 1, None, None, None, None, 1, 2]
    assert [error for _, error in found if error] == [
        f"schema {name}: the value is not compressed with zlib, as its second byte says",
        f"schema {name}: the compressed value ends too early",
        f"schema {name}: the compressed value ends too early",
        f"schema {name}: the value inflates to more than 1000 bytes",
    ]


@pytest.mark.parametrize("ending", ["desc", "pb"])
def test_descriptors_in_a_file_are_a_schema(ending: str, tmp_path: Path) -> None:
    from google.protobuf.descriptor_pb2 import (
        DescriptorProto,
        FieldDescriptorProto,
        FileDescriptorProto,
        FileDescriptorSet,
    )

    name = FieldDescriptorProto(name="name", number=1, type="TYPE_STRING", label="LABEL_OPTIONAL")
    part = FieldDescriptorProto(name="part", number=2, type="TYPE_MESSAGE", type_name=".p.Part", label="LABEL_OPTIONAL")
    described = FileDescriptorSet(file=[
        FileDescriptorProto(name="part.proto", package="p", syntax="proto3",
                            message_type=[DescriptorProto(name="Part", field=[name])]),
        FileDescriptorProto(name="order.proto", package="p", syntax="proto3", dependency=["part.proto"],
                            message_type=[DescriptorProto(name="Order", field=[name, part])]),
    ])  # fmt: skip
    file = tmp_path / f"order.{ending}"
    file.write_bytes(described.SerializeToString())
    logs = tmp_path / "logs"
    logs.mkdir()
    write(logs, (b"\x0a\x01a\x12\x03\x0a\x01b", ()))
    for word in (f"orders={file}", None):
        if word is None:
            file.rename(tmp_path / f"orders.{ending}")
        with opened(logs, read_schema_files([word or str(tmp_path)])) as session:
            assert rows(session, "SELECT name, part, _error FROM decoded.orders") == [("a", {"name": "b"}, None)]


def test_values_that_only_look_like_a_reference_are_read_by_the_file_of_the_topic(tmp_path: Path) -> None:
    """A record that begins with a number 0, and one that does not fit the file either."""
    value = avro(FIRST, {"id": 0, "customer": "\0\0\t", "offset": 5})
    write(tmp_path, (value, ()), (b"\0\0\0\0\x09\x80", ()), (avro(FIRST, order(1)), ()))
    with opened(tmp_path, {"orders": schema("orders")}) as session:
        assert rows(session, "SELECT id, customer, _error FROM decoded.orders ORDER BY _offset") == [
            (0, "\0\0\t", None),
            (None, None, "schema 9 is unknown"),
            (1, "c1", None),
        ]
