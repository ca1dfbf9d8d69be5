"""Common parts of the requests of administrators: work in threads, and errors as results."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any, TypeVar

import trio

from offsetfs.common.threads import in_thread
from offsetfs.kafka.broker.errors import code_of, is_stopped, message_of
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage.errors import (
    InvalidConfig,
    InvalidName,
    OffsetOutOfRange,
    PartitionExists,
    PolicyViolation,
    ReadOnlyLog,
    StorageError,
    UnknownPartition,
)

_log = logging.getLogger(__name__)

_MISTAKES_OF_CLIENTS = UnknownPartition, PartitionExists, OffsetOutOfRange, ReadOnlyLog

INLINE_ENTRIES_MAX = 500
"""More ACLs or credentials are searched in a thread: one takes about a microsecond."""

RECORDS_MAX = 10_000
"""ACLs or credentials that a request changes, at most. Kafka: `QuorumController.MAX_RECORDS_PER_USER_OP`."""

TOO_MANY_RECORDS = "Unable to perform excessively large batch operation."
"""Kafka's text."""

_Key = TypeVar("_Key", bound=Hashable)

UNKNOWN_TOPIC = "This server does not host this topic-partition."
"""Kafka's text, by which some clients recognize the error."""


class Rejected(Exception):
    """A request that is not carried out; `code` and text go to the client."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def repeated(keys: Iterable[_Key]) -> set[_Key]:
    """Return the keys that occur more than once."""
    return {key for key, count in Counter(keys).items() if count > 1}


async def completed(work: Callable[..., Any], *arguments: object) -> Any:
    """Return what `work` returns in a thread. It is completed even if the request is cancelled."""
    with trio.CancelScope(shield=True):  # a thread goes on when its task is cancelled
        return await in_thread(partial(work, *arguments))


async def answer(result: Any, work: Callable[[], Any], *, has_message: bool = True) -> None:
    """Do `work`; put its error into `result`. Errors of the disk are logged, too."""
    try:
        await work()
    except Rejected as error:
        result.error_code, message = error.code, str(error)
    except InvalidConfig as error:
        result.error_code, message = ErrorCode.INVALID_CONFIG, message_of(error)
    except InvalidName as error:
        result.error_code, message = ErrorCode.INVALID_TOPIC_EXCEPTION, message_of(error)
    except PolicyViolation as error:
        result.error_code, message = ErrorCode.POLICY_VIOLATION, message_of(error)
    except _MISTAKES_OF_CLIENTS as error:
        result.error_code, message = code_of(error), message_of(error)
    except (StorageError, OSError, MemoryError) as error:
        if not is_stopped(error):
            _log.error("%s", error)
        result.error_code, message = code_of(error), message_of(error)
    else:
        return
    if has_message:
        result.error_message = message
