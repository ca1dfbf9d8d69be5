"""Formats records of Kafka's coordinator topics for a dump.

    key     i16 type, then the fields of the key
    value   i16 version, then the fields of the value; no value at all is a tombstone

    key: {"type":"1","data":{"group":"billing","topic":"orders","partition":0}} payload: {"version":"4","data":{…}}

An error is printed instead of the key, in Kafka's words. Follows Kafka's CoordinatorRecordSerde and the parsers of
DumpLogSegments on top of it. The types and their fields are those of Kafka's schemas (`offsetfs.kafka.protocol`).
docs/internals/format/consumer-offsets.md lists them.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from offsetfs.kafka.protocol import json_text, kafka_reader
from offsetfs.kafka.protocol.codec import InvalidMessage
from offsetfs.kafka.protocol.records import GroupMetadataValue
from offsetfs.kafka.protocol.schemas import includes, record_schemas, schema
from offsetfs.storage.errors import MalformedBatch

DELETED = "<DELETE>"

_VERSION = Struct(">h")
_CONSUMER_PROTOCOL = "consumer"
_CLIENT_MESSAGES = {"subscription": "ConsumerProtocolSubscription", "assignment": "ConsumerProtocolAssignment"}

Buffer = bytes | bytearray | memoryview
RecordTexts = tuple[str | None, str | None]
"""The text of key and value; None prints nothing."""


def show(topic: str, offset: int, key: Buffer | None, value: Buffer | None) -> RecordTexts:
    """Return the texts of a record; `MalformedBatch` if it has no key, which no coordinator writes."""
    if key is None:
        raise MalformedBatch("the record has no key, and this decoder reads keys", offset=offset)
    try:
        type_id = _version(key, "key")
        schemas = record_schemas(topic).get(type_id)
        if schemas is None or schemas.key is None:
            return f"Unknown record type {type_id} at offset {offset}, skipping.", None
        fields = json_text.json_writer(schemas.key, 0)(_message(schemas.key, 0, key, type_id, "key"))
        shown_key = f'{{"type":"{type_id}","data":{fields}}}'
        return shown_key, DELETED if value is None else _value(schemas.value, type_id, value)
    except InvalidMessage as error:
        return f"Error at offset {offset}, skipping. {error}", None


def _value(name: str, type_id: int, value: Buffer) -> str:
    version = _version(value, "value")
    if not includes(schema(name).versions, version):
        raise InvalidMessage(f"Found an unknown record version {version} for {type_id} type")
    message = _message(name, version, value, version, "value")
    is_of_consumers = isinstance(message, GroupMetadataValue) and message.protocol_type == _CONSUMER_PROTOCOL
    bytes_text = _client_message_text if is_of_consumers else json_text.bytes_text
    return f'{{"version":"{version}","data":{json_text.json_writer(name, version)(message, bytes_text)}}}'


def _version(data: Buffer, what: str) -> int:
    if len(data) < _VERSION.size:
        raise InvalidMessage(f"Could not read version from {what}'s buffer.")
    version: int = _VERSION.unpack_from(data)[0]
    return version


def _message(name: str, version: int, data: Buffer, shown_version: int, what: str) -> Any:
    try:
        return kafka_reader.reader(name, version)(memoryview(data), _VERSION.size)[0]
    except InvalidMessage as error:
        raise InvalidMessage(
            f"Could not read record with version {shown_version} from {what}'s buffer due to: {error}."
        ) from None


def _client_message_text(field: str, data: bytes) -> str:
    """Return what a member of a group of consumers subscribed to or got, which the coordinator keeps as bytes.

    The bytes themselves where they are no such message.
    """
    if len(data) >= _VERSION.size:
        name, version = _CLIENT_MESSAGES[field], _VERSION.unpack_from(data)[0]
        try:
            message, _ = kafka_reader.reader(name, version)(memoryview(data), _VERSION.size)
            return json_text.json_writer(name, version)(message)
        except InvalidMessage:
            pass
    return json_text.bytes_text(field, data)
