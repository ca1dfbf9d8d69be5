"""Which of Kafka's error codes an error of the engine has."""

from __future__ import annotations

import errno

from offsetfs.kafka.protocol.error_codes import ErrorCode
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
    """Whether work ended early, and the disk is fine."""
    return isinstance(error, OSError) and error.errno in _STOPPED


def message_of(error: Exception) -> str:
    """Return what a client may know of an error: the paths of the server are not among it."""
    if isinstance(error, errors.StorageError):
        return error.reason
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def code_of(error: Exception) -> ErrorCode:
    """Return the code of an error of the engine or of the system; UNKNOWN_SERVER_ERROR for a mistake of ours."""
    if isinstance(error, OSError) and error.errno in _STOPPED:
        return _STOPPED[error.errno]
    return next((code for kind, code in _CODES if isinstance(error, kind)), ErrorCode.UNKNOWN_SERVER_ERROR)
