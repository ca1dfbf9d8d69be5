"""The records of `__cluster_metadata` and of KRaft's snapshots: topics, partitions, brokers, settings.

    value   uvarint frame version 1, uvarint type, uvarint version, then the fields

The key is not used. Errors have Kafka's texts. Follows MetadataRecordSerde and KIP-631.
"""

from __future__ import annotations

from typing import NamedTuple

from offsetfs.kafka.protocol import codec, kafka_reader
from offsetfs.kafka.protocol.codec import InvalidMessage
from offsetfs.kafka.protocol.message import ProtocolMessage
from offsetfs.kafka.protocol.schemas import record_schemas, schema
from offsetfs.storage.units import I16_MAX

_TOPIC = "__cluster_metadata"
_FRAME_VERSION = 1

Buffer = bytes | bytearray | memoryview


class UnknownRecordType(InvalidMessage):
    """A record of a type that has no schema: a newer Kafka wrote it."""


class RecordHead(NamedTuple):
    """Type and version of a record, the name of its schema, and where its fields begin."""

    type_id: int
    name: str
    version: int
    position: int


def read_head(value: Buffer, topic: str = _TOPIC) -> RecordHead:
    """Return what precedes the fields; `InvalidMessage`, and `UnknownRecordType` for an unknown type.

    `topic`: one whose records have the same frame.
    """
    data = memoryview(value)
    frame_version, position = _short(data, 0, "frame version")
    if frame_version == 0:
        raise InvalidMessage(
            "Could not deserialize metadata record with frame version 0. Note that upgrades from the preview release "
            "of KRaft in 2.8 to newer versions are not supported."
        )
    if frame_version != _FRAME_VERSION:
        raise InvalidMessage(
            f"Could not deserialize metadata record due to unknown frame version {frame_version}"
            "(only frame version 1 is supported)"
        )
    type_id, position = _short(data, position, "type")
    version, position = _short(data, position, "version")
    schemas = record_schemas(topic).get(type_id)
    if schemas is None:
        raise UnknownRecordType(
            f"org.apache.kafka.common.errors.UnsupportedVersionException: Unknown metadata id {type_id}"
        )
    return RecordHead(type_id, schemas.value, version, position)


def read_message(value: Buffer, head: RecordHead) -> ProtocolMessage:
    """Return the message of a record; `InvalidMessage`."""
    data = memoryview(value)
    message: ProtocolMessage
    try:
        message, position = kafka_reader.reader(head.name, head.version)(data, head.position)
    except InvalidMessage:
        raise InvalidMessage(f"Failed to deserialize record with type {head.type_id}") from None
    if position < len(data):
        raise InvalidMessage(f"Found {len(data) - position} byte(s) of garbage after {head.type_id}")
    return message


def write_record(record: ProtocolMessage) -> bytes:
    """Return the value of a record, in version 0."""
    name = type(record).__name__
    head = codec.uvarint(_FRAME_VERSION) + codec.uvarint(schema(name).key) + codec.uvarint(0)
    return b"".join([head, *codec.writer(name, 0)(record)])


def _short(data: memoryview, position: int, what: str) -> tuple[int, int]:
    try:
        number, position = kafka_reader.read_unsigned(data, position)
    except (InvalidMessage, IndexError):
        raise InvalidMessage(f"Error while reading {what}") from None
    if number > I16_MAX:
        raise InvalidMessage(f"Value for {what} was too large.")
    return number, position
