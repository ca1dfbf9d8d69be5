"""How records name schemas: bytes of real serializers, and what only looks like them.

The programs in `tests/golden/schemas` wrote the bytes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs.schema_records import Headers, encoded, schema_key, write_log, write_schemas

from offsetfs.schemas.avro_fingerprint import canonical_form, fingerprint_of
from offsetfs.schemas.catalog import SchemaVersion
from offsetfs.schemas.references import KEY_FIELD, VALUE_FIELD, NamedSchema, ReferenceForm
from offsetfs.schemas.schema_files import FileSchema
from offsetfs.schemas.schema_usage import KnownSchemas, TopicUsage
from offsetfs.schemas.schemas_topic import SchemasTopic, read_schemas_topic
from offsetfs.storage import TopicPartition
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import StorageError

pytestmark = pytest.mark.unit

FOLDER = Path(__file__).parents[1] / "golden" / "schemas"
GOLDEN = json.loads((FOLDER / "records.json").read_text())
RECORDS = [*GOLDEN["records"], *json.loads((FOLDER / "other_clients.json").read_text())]
UUID = "b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63"


def refuse(error: StorageError) -> None:
    raise error


def usage_of(path: Path, records: list[tuple[bytes | None, bytes | None, Headers]]) -> TopicUsage:
    write_log(path, "orders-0", records)
    directory = LogDirectory.open(str(path), read_only=True)
    usage = TopicUsage()
    usage.count(directory.log(TopicPartition("orders", 0)), None, refuse)
    directory.close()
    return usage


def names(path: Path, field: str, content: bytes, headers: Headers = ()) -> list[tuple[str, str]]:
    """Return form and name of what a record names with its key or value."""
    record = (content, None, headers) if field == KEY_FIELD else (None, content, headers)
    found = usage_of(path, [record]).fields[field]
    return [(each.form.value, each.name) for each in found.names]


def golden_headers(record: dict[str, Any]) -> Headers:
    return tuple((name, bytes.fromhex(content)) for name, content in record["headers"])


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: f"{record['by']} {record['form']} {record['name']}")
def test_the_schema_of_a_real_serializer_is_found(record: dict[str, Any], tmp_path: Path) -> None:
    form = record["form"]
    name = fingerprint_of(record["name"]) if form == "avro-fingerprint" else record["name"]
    found = names(tmp_path, record["field"], bytes.fromhex(record["bytes"]), golden_headers(record))
    assert found == [(form, name)]


def test_the_golden_records_have_every_form_but_the_older_one_of_apicurio() -> None:
    assert {record["form"] for record in RECORDS} == {each.value for each in ReferenceForm} - {"apicurio"}


def test_every_golden_record_of_confluent_finds_its_schema(tmp_path: Path) -> None:
    stored = [
        (schema_key(each["subject"], each["version"]), encoded({**each, "deleted": False}))
        for each in GOLDEN["schemas"]
    ]
    write_schemas(tmp_path, stored)
    directory = LogDirectory.open(str(tmp_path), read_only=True)
    topic = read_schemas_topic(directory)
    directory.close()
    assert topic is not None and topic.unusable == {} and list(topic.catalog.broken_references()) == []
    known, found = KnownSchemas(topic.catalog, {}), 0
    for record in RECORDS:
        if record["by"].startswith("confluent-kafka"):
            named = NamedSchema(ReferenceForm(record["form"]), record["name"])
            schema, *others = known.find(named, "orders", record["field"])
            assert (
                isinstance(schema, SchemaVersion) and others == [] and record["name"] in (str(schema.id), schema.guid)
            )
            assert schema.type.lower() in record["by"].lower().replace("jsonserializer", "json serializer")
            found += 1
    assert found == 12


@pytest.mark.parametrize("number", range(len(GOLDEN["avro"])))
def test_canonical_form_and_fingerprint_are_those_of_avros_java_library(number: int) -> None:
    expected = GOLDEN["avro"][number]
    assert canonical_form(expected["schema"]) == expected["canonical"]
    assert fingerprint_of(expected["schema"]) == expected["fingerprint"]


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "5",
        "null",
        "{}",
        '{"type":5}',
        '{"type":"record","fields":[]}',
        '{"type":"record","name":"R"}',
        '{"type":"record","name":"R","fields":[1]}',
        '{"type":"record","name":"R","fields":[{"name":"a"}]}',
        '{"type":"enum","name":"E","symbols":[1]}',
        '{"type":"enum","name":5,"symbols":[]}',
        '{"type":"fixed","name":"F"}',
        '{"type":"fixed","name":"F","size":"x"}',
        '{"type":"array"}',
        '{"type":"map","values":7}',
        "[" * 100_000,
        '{"type":"array","items":' * 250 + '"int"' + "}" * 250,
        '"\\ud800"',
    ],
    ids=lambda text: text[:40],
)
def test_what_is_no_avro_schema_has_no_fingerprint(text: str) -> None:
    with pytest.raises(ValueError):
        fingerprint_of(text)


@pytest.mark.parametrize(
    ("content", "headers", "expected"),
    [
        (b"", (), []),
        (b"\0\0\0\0", (), []),
        (b"\0\0\0\0\1", (), [("confluent", "1")]),
        (b"\0\x7f\xff\xff\xff", (), [("confluent", "2147483647")]),
        (b"\0\x80\0\0\0payload", (), []),
        (bytes(8) + b"\5", (), [("apicurio", "5")]),
        (bytes(8), (), [("confluent", "0")]),
        (b"\3\0" + bytes(15), (), []),
        (b"\3\1" + bytes(16), (), []),
        (b"\xc3\1" + bytes(7), (), []),
        ("Á".encode() * 10, (), []),
        (b"{}", (("__value_schema_id", b"\0\0\0\0\7"),), [("confluent-header", "7")]),
        (b"{}", (("__value_schema_id", b"\2" + bytes(16)),), []),
        (b"{}", (("__key_schema_id", b"\1" + bytes(16)),), []),
        (b"{}", (("content-type", b"application/json"),), []),
        (b"{}", (("content-type", b"avro/binary+"),), []),
        (b"{}", (("content-type", b"avro/binary+\xff"),), [("azure", "\ufffd")]),
        (b"{}", (("ce_dataschema", None),), []),
        (
            b"\0\0\0\0\1",
            (("apicurio.value.contentId", bytes(7) + b"\5"), ("apicurio.value.globalId", bytes(7) + b"\4")),
            [("apicurio-header", "4")],
        ),
    ],
)
def test_bytes_that_are_almost_a_reference(
    content: bytes, headers: Headers, expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    assert names(tmp_path, VALUE_FIELD, content, headers) == expected


def test_names_beyond_the_limit_are_counted_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offsetfs.schemas.schema_usage.NAMES_MAX", 3)
    values = [b"\0" + (number % 5).to_bytes(4, "big") + b"x" * 4 for number in range(1, 401)]
    found = usage_of(tmp_path, [(None, value, ()) for value in values]).fields[VALUE_FIELD]
    assert [each.count for each in found.names.values()] == [80, 80, 80] and found.beyond == 160


def test_only_records_of_the_range_are_counted(tmp_path: Path) -> None:
    write_log(tmp_path, "orders-0", [(None, b"\0\0\0\0\1", ())] * 250)
    directory = LogDirectory.open(str(tmp_path))
    log = directory.log(TopicPartition("orders", 0))
    log.delete_records(30)
    for newest, expected in ((None, 220), (120, 120), (1000, 220)):
        usage = TopicUsage()
        usage.count(log, newest, refuse)
        counted = next(iter(usage.fields[VALUE_FIELD].names.values()))
        assert (usage.records, counted.count, counted.first) == (expected, expected, 250 - expected)
    directory.close()


def test_a_file_goes_before_the_registry_and_the_subject_of_the_topic_before_others() -> None:
    topic = SchemasTopic()
    for subject in ("a-value", "orders-value", ":.b:orders-value"):
        topic.take(schema_key(subject, 1), encoded({"id": 7, "schema": '"int"'}), TopicPartition("_schemas", 0), 0)
    file = FileSchema("7", "AVRO", '"int"', "7.avsc")
    named = NamedSchema(ReferenceForm.CONFLUENT, "7")
    known = KnownSchemas(topic.catalog, {"7": file, "orders": file})
    assert list(map(str, known.find(named, "orders", "value")))[:2] == ["7.avsc", "orders-value/1"]
    assert list(map(str, known.find(named, "other", "value")))[1:] == [
        "a-value/1",
        "orders-value/1",
        ":.b:orders-value/1",
    ]
    assert known.unnamed("Orders", "value") == file and known.unnamed("other", "value") is None
    fingerprint = NamedSchema(ReferenceForm.AVRO_FINGERPRINT, fingerprint_of('"int"'))
    assert len(known.find(fingerprint, "orders", "value")) == 5
    assert known.find(NamedSchema(ReferenceForm.GLUE, UUID), "orders", "value") == []
