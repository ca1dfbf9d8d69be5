"""Removing old segments: by start offset, by size, by age.

What goes is decided oldest first, and a segment that stays keeps all behind it:

    1. start    the next segment begins at or below the log start           every topic
    2. size     without it the log is still `retention.bytes` long           cleanup.policy with delete
    3. time     its latest record is older than `retention.ms`               cleanup.policy with delete

Whole segments only, and never the active one: where that is due as well, the log is rolled first, so that an empty
segment remains. The time of a segment is that of its latest record; where no record has one, the file's own. Follows
Kafka's UnifiedLog.deleteOldSegments.

The log start never falls, not over a power cut either: it is in the checkpoint, on disk, before it is shown and before
any file goes; one write for all logs of a pass. Removing is then only taking away what lies below the start, so that a
pass that was cut short is finished by the next one. Where the disk is too full for the checkpoint, the oldest segment
that is due is unlinked at once to make room, without waiting for readers.
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
    """What is due of one log: its oldest segments, and why each.

    The active segment may be the last of them: it is to be rolled first. `log_start_offset`: where the log begins once
    they are gone.
    """

    segments: tuple[Segment, ...]
    reasons: tuple[str, ...]
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class RemovedSegments:
    """What a pass took from one log. `bytes`: of the `.log` files; `log_start_offset`: where it begins now."""

    partition: TopicPartition
    segments: int
    bytes: int
    log_start_offset: int
    reasons: tuple[str, ...]


# --- the decision ----------------------------------------------------------------------------------------------------


def expired_segments(log: Log, now_ms: int, *, knows_policy: bool = True) -> ExpiredSegments:
    """Return what is due at `now_ms`; changes nothing. Without `knows_policy` only what lies below the log start.

    Costs a look at the time index of the first segment that stays, and a walk over the headers behind the last entry
    in those that go.
    """
    segments = log.snapshot().values()
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
    """Count the oldest segments without which the rest is still `bytes_max` bytes long; -1: no limit."""
    beyond, count = sum(segment.size for segment in segments) - bytes_max, 0
    while bytes_max >= 0 and count < _removable(segments) and beyond >= segments[count].size:
        beyond -= segments[count].size
        count += 1
    return count


def _count_too_old(segments: Sequence[Segment], age_ms_max: int, now_ms: int) -> int:
    count = 0
    while age_ms_max >= 0 and count < _removable(segments):
        if segments[count].reaches_timestamp(now_ms - age_ms_max):
            break
        count += 1
    return count


def _removable(segments: Sequence[Segment]) -> int:
    """How many of these may go at most: not the last, which is the active one, while it is empty."""
    return len(segments) if segments and segments[-1].size else len(segments) - 1


# --- the pass --------------------------------------------------------------------------------------------------------


def sweep(
    directory: LogDirectory, partitions: Iterable[TopicPartition], now_ms: int
) -> tuple[list[RemovedSegments], dict[TopicPartition, Exception]]:
    """Remove what is due of these partitions; return what went, and what kept others from going.

    The new log starts are on disk before the first file goes. What goes is called `.deleted` after return, on disk, and
    is unlinked by `directory.deletions` after `file.delete.delay.ms`. OSError when the log starts cannot be written.
    """
    due: dict[TopicPartition, ExpiredSegments] = {}
    failures: dict[TopicPartition, Exception] = {}
    removed: list[RemovedSegments] = []
    for partition in partitions:
        with _collecting(failures, partition):
            due[partition] = _decide(directory, partition, now_ms)
    due = {partition: expiry for partition, expiry in due.items() if expiry.segments}
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
    """Return the log as it is open, be it lent to this pass alone; else open it."""
    return directory.opened(partition) or directory.log(partition)


def _decide(directory: LogDirectory, partition: TopicPartition, now_ms: int) -> ExpiredSegments:
    """Decide of one log. Where the active segment is due it is rolled, and decided anew what is due of it as it is."""
    log = _log_of(directory, partition)
    if log.read_only:
        return ExpiredSegments((), (), log.log_start_offset)
    knows_policy = directory.knows_policy(partition.topic)
    expiry = expired_segments(log, now_ms, knows_policy=knows_policy)
    if expiry.segments and expiry.segments[-1] is log.snapshot().active:
        if _rolled(log):
            expiry = expired_segments(log, now_ms, knows_policy=knows_policy)
        expiry = _without_active(expiry, log)
    if expiry.log_start_offset > log.recovery_point:
        log.flush()
    return expiry


def _rolled(log: Log) -> bool:
    try:
        log.roll()
    except OSError as error:
        if error.errno not in FULL:
            raise
        return False  # the sealed ones go all the same, and make room
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
            if error.errno not in FULL or not any(_make_room(log, segments) for log, segments in waiting):
                raise


def _make_room(log: Log, segments: list[Segment]) -> bool:
    """Unlink the oldest of `segments`, the first of `log`, without the checkpoint for which there is no room.

    The name that goes says the same as the checkpoint: the log is shown to begin later once that is on disk.
    """
    while segments:
        segment = segments.pop(0)
        with log.changing():
            if log.snapshot().first is segment and segment is not log.snapshot().active:
                segment_names.unlink_at_once(segment)
                with log.fencing():
                    files.sync_directory(log.path)
                log.adopt(log.snapshot().without([segment]))
                return True
    return False


def _remove(log: Log, expiry: ExpiredSegments) -> RemovedSegments:
    gone = take_out_below_start(log)
    reasons = {segment.base_offset: reason for segment, reason in zip(expiry.segments, expiry.reasons, strict=True)}
    told = tuple(dict.fromkeys(reasons.get(segment.base_offset, START) for segment in gone))
    return RemovedSegments(log.partition, len(gone), sum(segment.size for segment in gone), log.log_start_offset, told)


def take_out_below_start(log: Log) -> list[Segment]:
    """Take the segments that lie below the log start as a whole out of the log, on disk after return; return them.

    Their files are called `.deleted` then, and wait for their removal. When it fails half way, doing it again finishes.
    """
    with log.changing():
        segments = log.snapshot()
        gone = segments.values()[: _count_below(segments.values(), log.log_start_offset)]
        if not gone:
            return []
        for segment in gone:
            segment_names.remove_from_log(segment)
        with log.fencing():
            files.sync_directory(log.path)
        log.adopt(segments.without(gone))
    segment_names.unlink_later(gone, log.context.deletions, log.config.file_delete_delay_ms)
    return gone
