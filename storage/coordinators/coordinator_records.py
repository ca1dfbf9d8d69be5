"""Formats records of Kafka's coordinator topics for a dump.

    key     i16 type, then the fields of the key
    value   i16 version, then the fields of the value; no value at all is a tombstone

    key: {"type":"1","data":{"group":"billing","topic":"orders","partition":0}} payload: {"version":"4","data":{…}}

An error is printed instead of the key, in Kafka's words. Follows Kafka's CoordinatorRecordSerde and the parsers of
DumpLogSegments on top of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from struct import Struct

from offsetfs.storage.cluster.kafka_messages import Buffer, MalformedMessage, Message, json_text, read
from offsetfs.storage.errors import MalformedBatch

DELETED = "<DELETE>"

_VERSION = Struct(">h")

RecordTexts = tuple[str | None, str | None]
"""The text of key and value; None prints nothing."""


@dataclass(frozen=True, slots=True)
class RecordType:
    """The key and value schemas of one record type. `expand` may change the fields of a value before printing."""

    key: Message
    value: Message
    expand: Callable[[dict[str, object]], None] = lambda fields: None


def show(types: Mapping[int, RecordType], offset: int, key: Buffer | None, value: Buffer | None) -> RecordTexts:
    """Return the texts of a record; `MalformedBatch` if it has no key, which no coordinator writes."""
    if key is None:
        raise MalformedBatch("the record has no key, and this decoder reads keys", offset=offset)
    try:
        type_id = _version(key, "key")
        record_type = types.get(type_id)
        if record_type is None:
            return f"Unknown record type {type_id} at offset {offset}, skipping.", None
        fields = _fields(record_type.key, key, type_id, "key")
        shown_key = json_text({"type": str(type_id), "data": fields})
        return shown_key, DELETED if value is None else _value(record_type, type_id, value)
    except MalformedMessage as error:
        return f"Error at offset {offset}, skipping. {error}", None


def _value(record_type: RecordType, type_id: int, value: Buffer) -> str:
    version = _version(value, "value")
    if not 0 <= version <= record_type.value.last_version:
        raise MalformedMessage(f"Found an unknown record version {version} for {type_id} type")
    fields = _fields(record_type.value, value, version, "value")
    record_type.expand(fields)
    return json_text({"version": str(version), "data": fields})


def _version(data: Buffer, what: str) -> int:
    if len(data) < _VERSION.size:
        raise MalformedMessage(f"Could not read version from {what}'s buffer.")
    version: int = _VERSION.unpack_from(data)[0]
    return version


def _fields(message: Message, data: Buffer, version: int, what: str) -> dict[str, object]:
    try:
        return read(message, data, 0 if what == "key" else version, _VERSION.size)[0]
    except MalformedMessage as error:
        raise MalformedMessage(
            f"Could not read record with version {version} from {what}'s buffer due to: {error}."
        ) from None
