"""Removes old segments: below the log start, by size, by age.

Segments are checked oldest first, and the first one that stays keeps all later ones. None is removed of a log that its
broker keeps in remote storage, too; of others:

    1. start    the next segment begins at or below the log start           every topic
    2. size     without it the log is still `retention.bytes` long           cleanup.policy with delete
    3. time     its latest record is older than `retention.ms`               cleanup.policy with delete

Only whole segments are removed, and never the active one: if it is expired, the log is rolled first, so that an empty
segment remains. The age of a segment is that of its latest record, or of the file if no record has a timestamp. Follows
Kafka's UnifiedLog.deleteOldSegments.

The log start never falls, not even after a power cut: it is durable in the checkpoint before it takes effect and before
any file is removed, with one write for all logs of a pass. Removal then only concerns files below the log start, so the
next pass completes an interrupted one. If the disk is too full to write the checkpoint, the oldest expired segment is
unlinked at once, without waiting for readers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from offsetfs.storage import files
from offsetfs.storage.errors import StorageError, UnknownPartition
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.segments import segment_names
from offsetfs.storage.segments.segment import FULL, Segment

if TYPE_CHECKING:
    from offsetfs.storage.directory.directory import LogDirectory

START, SIZE, TIME = "start", "size", "time"


@dataclass(frozen=True, slots=True)
class ExpiredSegments:
    """The expired segments of one log, oldest first, and the reason for each.

    The active segment may be the last of them: it must be rolled first. `log_start_offset`: the new log start.
    """

    segments: tuple[Segment, ...]
    reasons: tuple[str, ...]
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class RemovedSegments:
    """The segments that a pass removed from one log.

    `bytes`: of the `.log` files; `log_start_offset`: the new log start.
    """

    partition: TopicPartition
    segments: int
    bytes: int
    log_start_offset: int
    reasons: tuple[str, ...]


# --- the decision ----------------------------------------------------------------------------------------------------


def expired_segments(log: Log, now_ms: int, *, knows_policy: bool = True) -> ExpiredSegments:
    """Return the expired segments at `now_ms`; changes nothing. Without `knows_policy`, only those below the log start.

    Costs a look-up in the time index of the first segment that stays, and a scan of the headers after the last entry of
    each expired one.
    """
    if log.remote_start_offset is not None:
        return ExpiredSegments((), (), log.log_start_offset)
    segments = list(log.snapshot())
    end = log.next_offset
    reasons = [START] * _count_below(segments, log.log_start_offset)
    if log.config.is_deleted and knows_policy:
        reasons += [SIZE] * _count_beyond_size(segments[len(reasons) :], log.config.retention_bytes)
        reasons += [TIME] * _count_too_old(segments[len(reasons) :], log.config.retention_ms, now_ms)
    gone = segments[: len(reasons)]
    kept = segments[len(reasons) :]
    start = kept[0].base_offset if kept else end
    return ExpiredSegments(tuple(gone), tuple(reasons), max(start, log.log_start_offset))


def _count_below(segments: Sequence[Segment], log_start_offset: int) -> int:
    return sum(following.base_offset <= log_start_offset for _, following in pairwise(segments))


def _count_beyond_size(segments: Sequence[Segment], bytes_max: int) -> int:
    """Count the oldest segments without which the rest is still `bytes_max` bytes long; -1 means no limit."""
    beyond, count = sum(segment.size for segment in segments) - bytes_max, 0
    # As UnifiedLog.deleteRetentionSizeBreachedSegments: a segment is removed only if the rest is still
    # `retention.bytes` long.
    while bytes_max >= 0 and count < _removable(segments) and beyond >= segments[count].size:
        beyond -= segments[count].size
        count += 1
    return count


def _count_too_old(segments: Sequence[Segment], age_ms_max: int, now_ms: int) -> int:
    count = 0
    while age_ms_max >= 0 and count < _removable(segments):
        # By the record's time and not the file's, so that a copied log keeps its age. Kafka uses the largest timestamp
        # as well.
        if segments[count].reaches_timestamp(now_ms - age_ms_max):
            break
        count += 1
    return count


def _removable(segments: Sequence[Segment]) -> int:
    """Count the segments that may be removed: all but the active one, the last, if it is empty."""
    return len(segments) if segments and segments[-1].size else len(segments) - 1


# --- the pass --------------------------------------------------------------------------------------------------------


def sweep(
    directory: LogDirectory, partitions: Iterable[TopicPartition], now_ms: int
) -> tuple[list[RemovedSegments], dict[TopicPartition, Exception]]:
    """Remove the expired segments of these partitions; return the removed segments, and the errors.

    The new log starts are durable before the first file is renamed. Removed files are called `.deleted` on return,
    durably, and `directory.deletions` unlinks them after `file.delete.delay.ms`. OSError if the log starts cannot be
    written.
    """
    due: dict[TopicPartition, ExpiredSegments] = {}
    failures: dict[TopicPartition, Exception] = {}
    removed: list[RemovedSegments] = []
    for partition in partitions:
        with _collecting(failures, partition):
            due[partition] = _decide(directory, partition, now_ms)
    due = {partition: expiry for partition, expiry in due.items() if expiry.segments}
    # One write of the checkpoint for all logs: a pass over a thousand partitions would otherwise sync it a thousand
    # times.
    _raise_log_starts(directory, due)
    for partition, expiry in due.items():
        with _collecting(failures, partition):
            removed.append(_remove(_log_of(directory, partition), expiry))
    return removed, failures


@contextlib.contextmanager
def _collecting(failures: dict[TopicPartition, Exception], partition: TopicPartition) -> Iterator[None]:
    try:
        yield
    except UnknownPartition:
        pass  # deleted meanwhile
    except (StorageError, OSError) as error:
        failures[partition] = error


def _log_of(directory: LogDirectory, partition: TopicPartition) -> Log:
    """Return the open log, also if it is only lent to this pass; else open it."""
    return directory.opened(partition) or directory.log(partition)


def _decide(directory: LogDirectory, partition: TopicPartition, now_ms: int) -> ExpiredSegments:
    """Decide for one log. If the active segment is expired, roll it and decide again."""
    log = _log_of(directory, partition)
    if log.read_only:
        return ExpiredSegments((), (), log.log_start_offset)
    knows_policy = directory.knows_policy(partition.topic)
    expiry = expired_segments(log, now_ms, knows_policy=knows_policy)
    if expiry.segments and expiry.segments[-1] is log.snapshot().active:
        if _rolled(log):
            expiry = expired_segments(log, now_ms, knows_policy=knows_policy)
        expiry = _without_active(expiry, log)
    # A log start on disk above the records on disk would look like a log that has lost its end.
    if expiry.log_start_offset > log.recovery_point:
        log.flush()
    return expiry


def _rolled(log: Log) -> bool:
    try:
        log.roll()
    except OSError as error:
        if error.errno not in FULL:
            raise
        return False  # the sealed segments are removed anyway, which frees space
    return True


def _without_active(expiry: ExpiredSegments, log: Log) -> ExpiredSegments:
    active = log.snapshot().active
    sealed = [segment for segment in expiry.segments if segment is not active]
    start = min(expiry.log_start_offset, active.base_offset)
    return ExpiredSegments(tuple(sealed), expiry.reasons[: len(sealed)], max(start, log.log_start_offset))


def _raise_log_starts(directory: LogDirectory, due: Mapping[TopicPartition, ExpiredSegments]) -> None:
    waiting = [(_log_of(directory, partition), list(expiry.segments)) for partition, expiry in due.items()]
    while due:
        try:
            directory.raise_log_starts({partition: expiry.log_start_offset for partition, expiry in due.items()})
            return
        except OSError as error:
            if error.errno not in FULL or not any(_free_space(log, segments) for log, segments in waiting):
                raise


def _free_space(log: Log, segments: list[Segment]) -> bool:
    """Unlink the oldest of `segments`, the first of `log`, to make space for the checkpoint.

    The missing file name implies the new log start, which takes effect once the checkpoint is durable.
    """
    while segments:
        segment = segments.pop(0)
        with log.changing():
            if log.snapshot().first is segment and segment is not log.snapshot().active:
                segment_names.unlink_at_once(segment)
                with log.fail_on_error():
                    files.sync_directory(log.path)
                log.publish(log.state.with_segments(log.snapshot().without([segment])))
                return True
    return False


def _remove(log: Log, expiry: ExpiredSegments) -> RemovedSegments:
    gone = take_out_below_start(log)
    reasons = {segment.base_offset: reason for segment, reason in zip(expiry.segments, expiry.reasons, strict=True)}
    previous = tuple(dict.fromkeys(reasons.get(segment.base_offset, START) for segment in gone))
    return RemovedSegments(
        log.partition, len(gone), sum(segment.size for segment in gone), log.log_start_offset, previous
    )


def take_out_below_start(log: Log) -> list[Segment]:
    """Remove the segments that lie completely below the log start from the log, durable on return; return them.

    Their files are then called `.deleted`. After an error half way, repeating the call completes it.
    """
    with log.changing():
        segments = log.snapshot()
        gone = list(segments)[: _count_below(list(segments), log.log_start_offset)]
        if not gone:
            return []
        for segment in gone:
            segment_names.remove_from_log(segment)
        with log.fail_on_error():
            files.sync_directory(log.path)
        log.publish(log.state.with_segments(segments.without(gone)))
    segment_names.unlink_later(gone, log.context.deletions, log.config.file_delete_delay_ms)
    return gone
