"""The records of Kafka's internal topics: every type of Kafka 4.4, by Kafka's own schemas."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from fixtures.messages.random_messages import random_message

from offsetfs.kafka.protocol import codec
from offsetfs.kafka.protocol.message import ProtocolMessage
from offsetfs.kafka.protocol.schemas import SchemaField, camel, record_schemas, schema, schema_names
from offsetfs.storage.dump import decoders
from offsetfs.storage.dump.decoders import show_coordinator_record

pytestmark = pytest.mark.unit

STORAGE = Path(__file__).parents[2] / "storage"
TYPES = {
    "__consumer_offsets": {*range(9), *range(10, 18), *range(19, 24)},
    "__transaction_state": {0},
    "__share_group_state": {0, 1},
    "__cluster_metadata": {*range(6), *range(7, 13), 14, 15, *range(17, 30)},
    "__remote_log_metadata": {0, 1, 2, 3},
}
"""Those that DumpLogSegments of Kafka 4.4 decodes; tests/interop/test_dump_against_kafka.py tries each number."""


@pytest.mark.parametrize("topic", TYPES)
def test_every_type_that_kafka_decodes_has_a_schema(topic: str) -> None:
    assert set(record_schemas(topic)) == TYPES[topic]


@pytest.mark.parametrize("topic", [topic for topic in TYPES if not topic.endswith("metadata")])
def test_every_version_of_every_type_is_shown(topic: str) -> None:
    for type_id, names in record_schemas(topic).items():
        assert names.key is not None
        key = type_id.to_bytes(2, "big") + written(names.key, 0)
        for version in range(schema(names.value).versions[1] + 1):
            value = version.to_bytes(2, "big") + written(names.value, version)
            shown_key, shown_value = show_coordinator_record(topic, 0, key, value)
            assert shown_key is not None and shown_key.startswith(f'{{"type":"{type_id}","data":{{')
            assert shown_value is not None and shown_value.startswith(f'{{"version":"{version}","data":{{')


def written(name: str, version: int) -> bytes:
    message: ProtocolMessage = random_message(name, schema(name).layout(version), version, 0)
    return b"".join(codec.writer(name, version)(message))


def test_commits_and_groups_of_all_brokers_can_be_read() -> None:
    assert record_schemas("__consumer_offsets")[0] == ("LegacyOffsetCommitKey", "LegacyOffsetCommitValue")
    assert schema("OffsetCommitValue").versions == schema("GroupMetadataValue").versions == (0, 4)
    assert schema("TransactionLogValue").versions == (0, 1)


def test_versions_of_records_are_not_those_of_requests() -> None:
    """SaslHandshake has two versions, and the number of this record."""
    assert schema("BrokerRegistrationChangeRecord").versions == (0, 3)


def test_control_records_have_schemas() -> None:
    assert {schema(name).name for _, name in decoders.CONTROL_MESSAGES.values()} <= set(schema_names())


def test_no_schema_of_a_record_is_written_by_hand() -> None:
    """A description of a message would name its fields as Kafka does, such as `leaderEpoch`."""
    stored = [schema(name) for name in schema_names() if schema(name).module != "messages"]
    fields = {name for each in stored for layout in each.layouts for name in names_in(layout.fields)}
    assert "leaderEpoch" in fields
    found = {
        (path.relative_to(STORAGE).as_posix(), node.value)
        for folder in ("cluster", "coordinators")
        for path in (STORAGE / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in fields
    }
    assert found == set()


def names_in(fields: tuple[SchemaField, ...]) -> set[str]:
    """Return the names of more than one word, as Kafka has them: the others could be anything."""
    names = {camel(field.name) for field in fields if "_" in field.name}
    return names.union(*(names_in(field.fields) for field in fields))
