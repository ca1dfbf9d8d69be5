"""The topic `_schemas`: what registries write, and what none writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.logs.schema_records import (
    RECORD,
    KeyAndValue,
    clearing,
    deletion,
    encoded,
    reference,
    schema_key,
    schema_record,
    write_schemas,
)

from offsetfs.schemas.schemas_topic import DAMAGE_MAX, KEY_TYPES_MAX, SchemasTopic, read_schemas_topic
from offsetfs.storage import TopicPartition
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import CorruptBatch

pytestmark = pytest.mark.unit

GUID = "04BE51B2-a72a-4cef-9758-9b235d30be99"


PARTITION = TopicPartition("_schemas", 0)


def taken(*records: KeyAndValue) -> SchemasTopic:
    found = SchemasTopic()
    for offset, (key, value) in enumerate(records):
        found.take(key, value, PARTITION, offset)
    return found


def states(found: SchemasTopic) -> dict[str, str]:
    return {str(each): each.state.value for each in found.catalog}


def test_records_of_a_registry_become_versions() -> None:
    protobuf = schema_record(
        "order.proto", 1, 7, 'import "a.proto";', schemaType="PROTOBUF", references=[reference("a.proto", "a", 3)]
    )
    found = taken(
        (encoded({"keytype": "NOOP", "magic": 0}), None),
        (encoded({"keytype": "CONFIG", "subject": None, "magic": 0}), encoded({"compatibilityLevel": "FULL"})),
        schema_record("orders-value", 1, 1, guid=GUID, metadata=None, ruleSet=None, ts=5),
        protobuf,
    )
    avro, other = found.catalog.with_id(1)[0], found.catalog.with_id(7)[0]
    assert (avro.type, avro.text, avro.guid, avro.references) == ("AVRO", RECORD, GUID.lower(), ())
    assert (other.type, other.guid, list(map(str, other.references))) == ("PROTOBUF", None, ["a.proto=a/3"])
    assert other.origin == "_schemas-0 offset 3"
    assert (found.records, dict(found.others), found.unusable) == (4, {"NOOP": 1, "CONFIG": 1}, {})


def test_deletions_of_every_kind_change_the_state() -> None:
    found = taken(
        *(schema_record("a", number, number) for number in (1, 2, 3, 4)),
        schema_record("b", 1, 9),
        deletion("a", 2),
        schema_record("a", 3, 3, deleted=True),
        (schema_key("a", 1), None),
        clearing("b"),
    )
    assert states(found) == {"a/1": "removed", "a/2": "deleted", "a/3": "deleted", "a/4": "active", "b/1": "active"}
    for key, value in (clearing("a"), (deletion("a", 1)[0], None)):
        found.take(key, value, PARTITION, 9)
    assert states(found)["a/2"] == states(found)["a/3"] == "removed" and found.unusable == {}


def test_an_empty_value_removes_a_version_as_karapace_writes_it() -> None:
    empty_subject = encoded({"subject": "b", "version": 0})
    found = taken(schema_record("a", 1, 1), (schema_key("a", 1), b""), (deletion("b", 1)[0], empty_subject))
    assert (states(found), found.unusable) == ({"a/1": "removed"}, {})


def test_a_deletion_without_version_deletes_all_as_redpanda_writes_it() -> None:
    found = taken(*(schema_record("a", number, number) for number in (1, 2)), (deletion("a", 1)[0], b'{"subject":"a"}'))
    assert (states(found), found.unusable) == ({"a/1": "deleted", "a/2": "deleted"}, {})


def test_of_two_writers_that_collide_in_redpanda_the_first_wins() -> None:
    found = taken(
        (schema_key("a", 1, seq=0, node=0), schema_record("a", 1, 1, "first")[1]),
        (schema_key("a", 1, seq=0, node=1), schema_record("a", 1, 2, "second")[1]),
        (encoded({"keytype": "DELETE_SUBJECT", "subject": "a", "magic": 0, "seq": 1, "node": 1}), b'{"subject":"a"}'),
        (schema_key("a", 2, seq=3, node=1), schema_record("a", 2, 2, "second")[1]),
        (schema_key("a", 2, seq=3, node=1), None),
    )
    assert [(str(each), each.text) for each in found.catalog] == [("a/1", "first"), ("a/2", "second")]
    assert states(found) == {"a/1": "active", "a/2": "removed"} and found.unusable == {}
    assert dict(found.others) == {"out of sequence": 2}


def test_versions_in_a_copy_of_redpandas_topic_at_other_offsets_are_read() -> None:
    found = taken(*((schema_key("a", 1, seq=number, node=0), schema_record("a", 1, 1)[1]) for number in (7, 8)))
    assert states(found) == {"a/1": "active"} and dict(found.others) == {"out of sequence": 1}


def test_key_types_of_newer_registries_are_counted_by_name() -> None:
    found = taken(*((encoded({"keytype": f"NEW{number}"}), b"") for number in (1, 1, *range(KEY_TYPES_MAX + 5))))
    assert found.others["NEW1"] == 3 and len(found.others) == KEY_TYPES_MAX
    assert [each.count for each in found.unusable.values()] == [5]


def test_keys_of_redpanda_and_karapace_are_read() -> None:
    _, value = schema_record("a", 1, 1)
    found = taken(
        (schema_key("a", 1, seq=0, node=0), value),
        (encoded({"subject": "b", "version": 1, "magic": 1, "keytype": "SCHEMA"}), schema_record("b", 1, 2)[1]),
        (encoded({"keytype": "DELETE_SUBJECT", "subject": "a", "magic": 0, "seq": 2, "node": 0}), deletion("a", 1)[1]),
    )
    assert states(found) == {"a/1": "deleted", "b/1": "active"}


KEY, VALUE = schema_record("a", 1, 1)

UNUSABLE: dict[str, tuple[bytes | None, bytes | None, str]] = {
    "null key": (None, VALUE, "the key is null"),
    "text key": (b"orders", VALUE, "the key is not JSON"),
    "key in UTF-16": ("{}".encode("utf-16"), VALUE, "the key is not JSON"),
    "list key": (b"[]", VALUE, "the key is no JSON object"),
    "deep key": (b"[" * 100_000, VALUE, "the key is nested too deeply"),
    "long key type": (encoded({"keytype": "N" * 65}), VALUE, "keytype of the key has more than 64 characters"),
    "key type of another type": (encoded({"keytype": ["SCHEMA"]}), VALUE, "keytype of the key is missing or no text"),
    "sequence as text": (schema_key("a", 1, seq="0"), VALUE, "seq of the key is missing or no number from 0 to 9"),
    "subject of another type": (schema_key(5, 1), VALUE, "subject of the key is missing or no text"),
    "version as text": (schema_key("a", "1"), VALUE, "version of the key is missing or no number from 1 to 2147483647"),
    "version that is true": (schema_key("a", True), VALUE, "version of the key is missing or no number from 1 to 21"),
    "version below 1": (schema_key("a", 0), VALUE, "version of the key is missing or no number from 1 to 2147483647"),
    "half a surrogate": (schema_key("\ud800", 1), VALUE, "subject of the key is not Unicode"),
    "text value": (KEY, b"x", "the value is not JSON"),
    "number of many digits": (KEY, b'{"id":' + b"9" * 5000 + b"}", "the value is not JSON"),
    "deep value": (KEY, b'{"a":' * 100_000, "the value is nested too deeply"),
    "no id": (KEY, b"{}", "id of the value is missing or no number from 0 to 2147483647"),
    "large id": (KEY, encoded({"id": 1 << 31}), "id of the value is missing or no number from 0 to 2147483647"),
    "no schema": (KEY, encoded({"id": 1}), "schema of the value is missing or no text"),
    "schema as object": (KEY, encoded({"id": 1, "schema": {}}), "schema of the value is missing or no text"),
    "guid that is none": (KEY, encoded({"id": 1, "schema": "", "guid": "1"}), "guid of the value is no UUID"),
    "deleted as text": (KEY, encoded({"id": 1, "deleted": "no"}), "deleted of the value is no boolean"),
    "long type": (
        KEY,
        encoded({"id": 1, "schema": "", "schemaType": "x" * 65}),
        "schemaType of the value has more than 64 characters",
    ),
    "references as text": (
        KEY,
        encoded({"id": 1, "schema": "", "references": "a"}),
        "references of the value are no list of objects",
    ),
    "reference without version": (
        KEY,
        encoded({"id": 1, "schema": "", "references": [{"name": "a", "subject": "a"}]}),
        "version of the reference is missing or no number from 1 to 2147483647",
    ),
    "deletion without subject": (deletion("a", 1)[0], b"{}", "subject of the value is missing or no text"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_a_record_that_no_registry_writes_is_counted_by_its_reason(case: str) -> None:
    key, value, reason = UNUSABLE[case]
    found = taken((KEY, VALUE), (key, value), (key, value))
    ((shown, records),) = found.unusable.items()
    assert shown.startswith(reason) and (records.count, records.first) == (2, "_schemas-0 offset 1")
    assert states(found) == {"a/1": "active"}


def test_damaged_batches_are_counted_and_some_are_named() -> None:
    found = SchemasTopic()
    for number in range(DAMAGE_MAX + 5):
        found.take_damage(CorruptBatch("checksum", path="_schemas-0/0.log", position=number))
    assert (found.damaged, len(found.damage)) == (DAMAGE_MAX + 5, DAMAGE_MAX)


def test_all_partitions_and_segments_of_the_topic_are_read(tmp_path: Path) -> None:
    write_schemas(tmp_path, [schema_record("a", 1, 1), schema_record("a", 1, 1, "newer")])
    write_schemas(tmp_path, [schema_record("b", 1, 2)], "_schemas-1")
    write_schemas(tmp_path, [schema_record("c", 1, 3)], "registry-0")
    directory = LogDirectory.open(str(tmp_path), read_only=True)
    found, sizes = read_schemas_topic(directory), list[int]()
    assert found is not None and [str(each) for each in found.catalog] == ["a/1", "a/1", "b/1"]
    other = read_schemas_topic(directory, "registry", sizes.append)
    assert other is not None and states(other) == {"c/1": "active"} and len(sizes) == 1
    assert read_schemas_topic(directory, "none") is None
    directory.close()
