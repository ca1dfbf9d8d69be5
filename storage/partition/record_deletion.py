"""DeleteRecords: raises the log start (KIP-107).

Only the log start moves. The next retention pass removes segments that lie completely below it; deleted records in the
segment that contains it stay on disk and are not visible. Follows Kafka's Partition.deleteRecordsOnLeader and
UnifiedLog.maybeIncrementLogStartOffset for one replica, whose high watermark is the log end.

The new start is durable in the log start checkpoint before it takes effect, so that it never falls. The records below
it are synced first, so that records that are deleted after a crash existed on disk.
"""

from __future__ import annotations

from offsetfs.storage.errors import OffsetOutOfRange, PolicyViolation
from offsetfs.storage.partition.log_interfaces import ChangeableLog

ALL = -1
"""Instead of an offset: all records."""


def delete_records(log: ChangeableLog, offset: int) -> int:
    """Raise the log start to `offset` (`ALL`: the log end) and return it; a lower offset changes nothing.

    Raises `PolicyViolation` for a topic that only compacts, and for a log that is kept in remote storage, too,
    `OffsetOutOfRange` beyond the end, `ReadOnlyLog`, `LogFailed`, OSError.
    """
    if log.read_only:
        raise log.refusal()
    # As Kafka from 4.2 on: an empty policy keeps records until a client deletes them.
    if log.config.is_compacted and not log.config.is_deleted:
        raise PolicyViolation("records are not deleted where cleanup.policy is compact", path=log.path)
    if log.remote_start_offset is not None:
        raise PolicyViolation("its broker has records of it in remote storage: delete them there", path=log.path)
    start = log.next_offset if offset == ALL else offset
    if not 0 <= start <= log.next_offset:
        raise OffsetOutOfRange(offset, log.log_start_offset, log.next_offset, log.path)
    if start > log.log_start_offset:
        raise_log_start(log, start)
    return log.log_start_offset


def raise_log_start(log: ChangeableLog, start: int) -> None:
    """Raise the log start to `start`, which is at most the log end; durable on return."""
    # Otherwise a crash could leave a log start above the end of the log.
    if start > log.recovery_point:
        log.flush()
    log.context.before_change()
    # On disk before it takes effect: after a kill a reader could see the new start, and a power cut would let it fall
    # back.
    log.context.save_log_start(start)
    log.raise_log_start(start)
