"""Errors as clients get them: Kafka's codes for errors of the engine, and the responses to failed requests.

A request whose handler failed by a bug gets UNKNOWN_SERVER_ERROR for everything that it asked. The response is built
from the schemas: each field `error_code` gets the code, and an array whose elements have one gets an element for each
that the request names. Kafka's `AbstractRequest.getErrorResponse` does the same for each API. A client retries or
reports the error; after a closed connection it would send the same request forever.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any

from offsetfs.kafka.protocol import messages
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import ProtocolMessage
from offsetfs.kafka.protocol.schemas import SchemaField, includes, schema
from offsetfs.storage import errors

_CODES: tuple[tuple[type[Exception], ErrorCode], ...] = (
    (errors.OffsetOutOfRange, ErrorCode.OFFSET_OUT_OF_RANGE),
    (errors.UnknownPartition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (errors.RecordTooLarge, ErrorCode.MESSAGE_TOO_LARGE),
    (errors.InvalidName, ErrorCode.INVALID_TOPIC_EXCEPTION),
    (errors.PartitionExists, ErrorCode.TOPIC_ALREADY_EXISTS),
    (errors.InvalidConfig, ErrorCode.INVALID_CONFIG),
    (errors.PolicyViolation, ErrorCode.INVALID_RECORD),
    (errors.ReadOnlyLog, ErrorCode.POLICY_VIOLATION),
    (errors.InheritedSecurity, ErrorCode.POLICY_VIOLATION),
    (errors.OutOfOrderSequence, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    (errors.InvalidProducerEpoch, ErrorCode.INVALID_PRODUCER_EPOCH),
    (errors.InvalidTransactionState, ErrorCode.INVALID_TXN_STATE),
    (errors.CoordinatorFenced, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    (errors.CorruptBatch, ErrorCode.CORRUPT_MESSAGE),
    (errors.MalformedBatch, ErrorCode.CORRUPT_MESSAGE),
    (errors.StorageError, ErrorCode.KAFKA_STORAGE_ERROR),
    (OSError, ErrorCode.KAFKA_STORAGE_ERROR),
    (MemoryError, ErrorCode.KAFKA_STORAGE_ERROR),
)


_STOPPED = {errno.ETIMEDOUT: ErrorCode.REQUEST_TIMED_OUT, errno.ECANCELED: ErrorCode.NOT_CONTROLLER}
"""Work that ended early: at the time limit of its request, or because the broker ends."""


def is_stopped(error: Exception) -> bool:
    """Return whether work ended early, and the disk is fine."""
    return isinstance(error, OSError) and error.errno in _STOPPED


def message_of(error: Exception) -> str:
    """Return the text of an error for a client, without the paths of the server."""
    if isinstance(error, errors.StorageError):
        return error.reason
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def code_of(error: Exception) -> ErrorCode:
    """Return the code of an error of the engine or of the system; UNKNOWN_SERVER_ERROR for a mistake of ours."""
    if isinstance(error, OSError) and error.errno in _STOPPED:
        return _STOPPED[error.errno]
    return next((code for kind, code in _CODES if isinstance(error, kind)), ErrorCode.UNKNOWN_SERVER_ERROR)


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
"""Kafka's values of other fields of a failed request."""

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
    topics = [topic for move in request.dirs for topic in move.topics]
    results = [
        messages.AlterReplicaLogDirTopicResult(
            topic.name, [messages.AlterReplicaLogDirPartitionResult(partition, code) for partition in topic.partitions]
        )
        for topic in topics
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
    known = [field for field in asked_fields if includes(field.versions, version)]
    present = [field for field in fields if includes(field.versions, version)]
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
                    _failed(field.struct, field.fields, element, array.fields, version, code, values)
                    for element in getattr(asked, array.name) or ()
                ]
                setattr(failed, field.name, elements)
        elif not field.is_array and field.type != "struct":
            _take(failed, field, asked, known, version)
    return failed


def _name_field(fields: list[SchemaField], asked: object) -> str | None:
    """Return the field for an element that is a text or number: the first of its type."""
    kind = {str: "string", int: "int32"}.get(type(asked))
    return next((field.name for field in fields if field.type == kind and field.name not in _VALUES), None)


def _take(failed: Any, field: SchemaField, asked: Any, known: list[SchemaField], version: int) -> None:
    """Copy the field that identifies a topic, partition, group or resource."""
    source = next(
        (known_field for known_field in known if not known_field.is_array and _is_same(known_field, field)), None
    )
    if source is not None:
        value = getattr(asked, source.name)
        may_be_null = includes(field.nullable, version)
        setattr(failed, field.name, "" if value is None and not may_be_null else value)


def _is_same(source: SchemaField, field: SchemaField) -> bool:
    if source.type != field.type:
        return False
    return source.name == field.name or any(source.name in names and field.name in names for names in _SYNONYMS)


def _array_for(field: SchemaField, known: list[SchemaField]) -> SchemaField | None:
    """Return the array of the request to which an array of the response has the answers."""
    arrays = [field for field in known if field.is_array]
    same = next((array for array in arrays if array.name == field.name), None)
    if same is not None:
        return same
    structs = next((array for array in arrays if array.type == "struct"), None)
    return structs or next(iter(arrays), None)


def _has_error_code(fields: tuple[SchemaField, ...], version: int) -> bool:
    return any(
        field.name in _ERROR_CODES or (field.is_array and _has_error_code(field.fields, version))
        for field in fields
        if includes(field.versions, version)
    )
