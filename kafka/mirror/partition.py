"""One partition of a mirror: its source broker, its offsets, its error.

    checking ──► fetching ⇄ waiting (a leader changes, the disk is full) ──► stopped (a lasting cause)

`position` is the offset of the next request, ahead of `end` while a response is being appended. Other changes of `end`
(a truncation, a skipped gap) begin a new `generation`: responses to earlier requests are discarded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from offsetfs.kafka.client.errors import KafkaError
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import Log, TopicPartition

UNKNOWN = -1

MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
"""Errors after which the metadata says more."""


@dataclass(slots=True)
class PassingError:
    """A temporary error of the source for one partition, since the last answer without an error."""

    text: str
    since: float
    is_reported: bool = False


@dataclass(slots=True, eq=False)
class MirroredPartition:
    """A partition of the source, and its log here. Only the event loop changes it."""

    name: TopicPartition
    topic_id: bytes
    log: Log
    leader: int = UNKNOWN
    leader_epoch: int = UNKNOWN
    named_leader: int = UNKNOWN
    """The leader in the metadata, before it has returned the start of the partition."""
    read_replica: int = UNKNOWN
    """The nearer follower that the leader has named; UNKNOWN: none."""
    generation: int = 0
    end: int = 0
    """The end of the local log, or the offset of the next record if the source has no record before it."""
    position: int = 0
    position_epoch: int = UNKNOWN
    """The leader epoch of the record before `position`."""
    is_checked: bool = False
    """Whether the local log was compared with that of the leader, and is a prefix of it."""
    is_out_of_range: bool = False
    """Whether the source does not have `position`."""
    high_watermark: int = UNKNOWN
    source_start: int = UNKNOWN
    stop_at: float = math.inf
    """With `once`: the offset at which the partition is complete."""
    empty_at: int = UNKNOWN
    """With `once`: the offset from which the source has sent no records, up to `stop_at`. UNKNOWN: none."""
    is_confirmed: bool = False
    """With `once`: whether the source, asked at the end, still has the mirrored records."""
    empty_since: float = math.inf
    """The time since which the source sends nothing although it has records at `end`, in remote storage."""
    gap_end: int = UNKNOWN
    """The offset of the first record of the last response, if it is behind `end`: the source is asked again."""
    gaps: int = 0
    """The number of confirmed gaps."""
    wait_until: float = 0.0
    passing_error: PassingError | None = None
    """The error that the source returns instead of records; None: it answers."""
    leaderless_since: float = math.inf
    failure: str = ""
    """The reason for which the partition is not mirrored, for now or for good."""
    is_stopped: bool = False
    is_another: bool = False
    """Whether the source has another log under the name, or none: its committed offsets do not apply to this log."""
    appended_bytes: int = 0
    unflushed_bytes: int = 0
    """The bytes that were appended since the last flush for their number began."""
    behind_since: float = math.inf
    """The time since which the source has more records; infinite if the mirror has all of them."""

    @property
    def node(self) -> int:
        """The node id of the broker that is asked for records."""
        return self.leader if self.read_replica == UNKNOWN else self.read_replica

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to do with `once`."""
        return self.is_stopped or (self.is_checked and self.is_at_stop and self.is_confirmed)

    @property
    def is_at_stop(self) -> bool:
        """Whether the mirror has all records that the source had at the start, with `once`."""
        return self.end >= self.stop_at

    @property
    def lag(self) -> int:
        """The number of offsets that the source is ahead; UNKNOWN before the first response."""
        return UNKNOWN if self.high_watermark == UNKNOWN else max(self.high_watermark - self.end, 0)

    def note_lag(self, now: float) -> None:
        """Record whether the source has more records at `now`."""
        self.behind_since = min(self.behind_since, now) if self.lag > 0 else math.inf

    def forget_lag(self) -> None:
        """Record that the source has no such partition any more."""
        self.high_watermark, self.behind_since = UNKNOWN, math.inf

    def lag_seconds(self, now: float) -> float:
        """Return the seconds for which the source has had more records; 0 when the mirror has all of them."""
        return max(now - self.behind_since, 0.0)

    def note_error(self, text: str, now: float) -> None:
        """Record a temporary error of the source."""
        if self.passing_error is None:
            self.passing_error = PassingError(text, now)
        else:
            self.passing_error.text = text

    def note_answer(self) -> bool:
        """Record that the source answers without an error; return whether an error was reported before."""
        before, self.passing_error = self.passing_error, None
        return before is not None and before.is_reported

    def can_fetch(self, now: float) -> bool:
        """Whether records can be asked for at `now`."""
        is_ready = self.is_checked and not (self.is_out_of_range or self.is_at_stop or self.is_stopped)
        return is_ready and self.wait_until <= now

    def restart(self, end: int) -> None:
        """Continue at `end`, where the log ends now; earlier requests do not count."""
        self.generation += 1
        self.end = self.position = end
        self.is_confirmed = False
        # Not the latest epoch of the log: that may be one whose records could not be written.
        self.position_epoch = self.log.epochs.epoch_of(self.log.next_offset - 1) if self.log.size_bytes else UNKNOWN

    def stop(self, failure: str, *, is_another: bool = False) -> None:
        """Stop mirroring the partition, for a lasting reason."""
        self.failure, self.is_stopped, self.is_another = failure, True, is_another
        self.generation += 1


def is_passing(code: int) -> bool:
    """Whether an error of a partition may pass: it is asked again, as by Kafka's consumer.

    An unknown error of the server, too, such as that of remote storage which does not answer. Not a damaged batch.
    """
    if code == ErrorCode.CORRUPT_MESSAGE:
        return False
    return code in MOVED or code == ErrorCode.UNKNOWN_SERVER_ERROR or KafkaError(code).is_retriable
