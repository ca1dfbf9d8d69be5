"""Responses to requests whose handler failed by a bug: UNKNOWN_SERVER_ERROR for everything that was asked.

The response is built from the schemas: each field `error_code` gets the code, and an array whose elements have one gets
an element for each that the request names. Kafka's `AbstractRequest.getErrorResponse` does the same for each API. A
client retries or reports the error; after a closed connection it would send the same request forever.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from offsetfs.kafka.protocol import messages
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import ProtocolMessage
from offsetfs.kafka.protocol.schemas import SchemaField, includes, schema

_MESSAGE = "The server experienced an unexpected error when processing the request."
_ERROR_CODES = frozenset(("error_code", "partition_error_code"))

_VALUES: dict[str, object] = {
    "base_offset": -1,
    "high_watermark": -1,
    "log_append_time_ms": -1,
    "low_watermark": -1,
    "producer_id": -1,
    "records": b"",
}
"""What Kafka returns in other fields of a failed request."""

_SYNONYMS = (
    frozenset(("name", "topic", "topic_name")),
    frozenset(("index", "partition", "partition_index")),
    frozenset(("group", "group_id")),
    frozenset(("key", "coordinator_key")),
)
"""Names of the same field in a request and in its response."""


def failure_response(
    request: ProtocolMessage,
    version: int,
    code: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR,
    message: str | None = _MESSAGE,
) -> Any:
    """Return the response; None for a Produce request that expects none."""
    if isinstance(request, messages.ProduceRequest) and not request.acks:
        return None
    if isinstance(request, messages.AlterReplicaLogDirsRequest):  # the request is by directory, the response by topic
        return _failed_moves(request, code)
    asked = type(request).__name__
    answered = asked.replace("Request", "Response")
    return _failed(
        answered,
        schema(answered).layout(version).fields,
        request,
        schema(asked).layout(version).fields,
        version,
        code,
        {**_VALUES, "error_message": message},
    )


def _failed_moves(
    request: messages.AlterReplicaLogDirsRequest, code: ErrorCode
) -> messages.AlterReplicaLogDirsResponse:
    topics = [topic for each in request.dirs for topic in each.topics]
    results = [
        messages.AlterReplicaLogDirTopicResult(
            each.name, [messages.AlterReplicaLogDirPartitionResult(partition, code) for partition in each.partitions]
        )
        for each in topics
    ]
    return messages.AlterReplicaLogDirsResponse(results=results)


def _failed(
    name: str,
    fields: tuple[SchemaField, ...],
    asked: Any,
    asked_fields: tuple[SchemaField, ...],
    version: int,
    code: ErrorCode,
    values: Mapping[str, object],
) -> Any:
    """Return the struct `name` of a response for `asked`: the request, an element of one, or a text or number."""
    failed = getattr(messages, name)()
    known = [each for each in asked_fields if includes(each.versions, version)]
    present = [each for each in fields if includes(each.versions, version)]
    name_field = None if known else _name_field(present, asked)
    if name_field is not None:
        setattr(failed, name_field, asked)
    for field in present:
        if field.name in _ERROR_CODES:
            setattr(failed, field.name, code)
        elif field.name in values:
            setattr(failed, field.name, values[field.name])
        elif field.is_array and _has_error_code(field.fields, version):
            array = _array_for(field, known)
            if array is not None:
                elements = [
                    _failed(field.struct, field.fields, each, array.fields, version, code, values)
                    for each in getattr(asked, array.name) or ()
                ]
                setattr(failed, field.name, elements)
        elif not field.is_array and field.type != "struct":
            _take(failed, field, asked, known, version)
    return failed


def _name_field(fields: list[SchemaField], asked: object) -> str | None:
    """Return the field for an element that is a text or number: the first of its type."""
    kind = {str: "string", int: "int32"}.get(type(asked))
    return next((each.name for each in fields if each.type == kind and each.name not in _VALUES), None)


def _take(failed: Any, field: SchemaField, asked: Any, known: list[SchemaField], version: int) -> None:
    """Copy the field that identifies a topic, partition, group or resource."""
    source = next((each for each in known if not each.is_array and _is_same(each, field)), None)
    if source is not None:
        value = getattr(asked, source.name)
        may_be_null = includes(field.nullable, version)
        setattr(failed, field.name, "" if value is None and not may_be_null else value)


def _is_same(source: SchemaField, field: SchemaField) -> bool:
    if source.type != field.type:
        return False
    return source.name == field.name or any(source.name in each and field.name in each for each in _SYNONYMS)


def _array_for(field: SchemaField, known: list[SchemaField]) -> SchemaField | None:
    """Return the array of the request to which an array of the response has the answers."""
    arrays = [each for each in known if each.is_array]
    same = next((each for each in arrays if each.name == field.name), None)
    if same is not None:
        return same
    structs = next((each for each in arrays if each.type == "struct"), None)
    return structs or next(iter(arrays), None)


def _has_error_code(fields: tuple[SchemaField, ...], version: int) -> bool:
    return any(
        each.name in _ERROR_CODES or (each.is_array and _has_error_code(each.fields, version))
        for each in fields
        if includes(each.versions, version)
    )
