"""DeleteRecords: a log begins at a later offset from now on (KIP-107).

Only the log start moves. Segments that lie below it as a whole go at the next retention pass; what is left in the one
that holds it stays on disk and is not shown. Follows Kafka's Partition.deleteRecordsOnLeader and
UnifiedLog.maybeIncrementLogStartOffset for one replica, where the high watermark is the log end.

The new start is in the log start checkpoint, on disk, before it is shown, so that it never falls. The records below it
are on disk before that: what is read as deleted after a crash was once written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.errors import OffsetOutOfRange, PolicyViolation

if TYPE_CHECKING:
    from offsetfs.storage.partition.log import Log

ALL = -1
"""In the place of an offset: every record that there is."""


def delete_records(log: Log, offset: int) -> int:
    """Raise the log start to `offset` (`ALL`: the log end) and return it; one that lies lower changes nothing.

    Raises `PolicyViolation` unless the topic's `cleanup.policy` has `delete`, `OffsetOutOfRange` beyond the end,
    `ReadOnlyLog`, `LogFenced`, OSError.
    """
    if log.read_only:
        raise log.refusal()
    if not log.config.is_deleted:
        policy = ",".join(log.config.cleanup_policy) or "empty"
        raise PolicyViolation(f"records are not deleted where cleanup.policy is {policy}", path=log.path)
    start = log.next_offset if offset == ALL else offset
    if not 0 <= start <= log.next_offset:
        raise OffsetOutOfRange(offset, log.log_start_offset, log.next_offset, log.path)
    if start > log.log_start_offset:
        raise_log_start(log, start)
    return log.log_start_offset


def raise_log_start(log: Log, start: int) -> None:
    """Raise the log start to `start`, which is at most the log end; on disk after return."""
    if start > log.recovery_point:
        log.flush()
    log.context.before_change()
    log.context.save_log_start(start)
    log.raise_log_start(start)
