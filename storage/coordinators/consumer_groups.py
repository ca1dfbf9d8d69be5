"""The committed offsets of consumer groups, from `__consumer_offsets`.

The latest record of a key counts, and a tombstone deletes it. Commits of a transaction count when it is committed
(`topic_replay`). Follows GroupMetadataManager and OffsetMetadataManager of Kafka's group coordinator.

Only key, committed offset and time of a record are kept, for at most `COMMITS_MAX` commits. Commits beyond that,
unreadable records and records of unknown types are left out, and each kind of them is reported once.

Thread-safe. One lock protects everything; with `nowait`, a busy lock is `WouldBlock`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import NamedTuple

from offsetfs.kafka.protocol import kafka_reader
from offsetfs.kafka.protocol.codec import InvalidMessage
from offsetfs.kafka.protocol.schemas import record_schemas
from offsetfs.storage.coordinators import group_state
from offsetfs.storage.coordinators.group_lag import seconds_behind
from offsetfs.storage.coordinators.staged_records import partition_name
from offsetfs.storage.coordinators.topic_replay import (
    STEP_BYTES,
    Limits,
    OmissionReport,
    StateBudget,
    TopicReplay,
    log_end,
)
from offsetfs.storage.directory.log_directories import AnyLogDirectory
from offsetfs.storage.errors import InvalidName, StorageError
from offsetfs.storage.names import OFFSETS_TOPIC, TopicPartition
from offsetfs.storage.records.format.record import Record

COMMITS_MAX = 500_000
"""Commits kept in memory, some 250 bytes each: protects the daemon from a topic that holds more."""

DESCRIBED_BYTES_MAX = 64 << 20
"""Records of groups and their members kept in memory, over all partitions: protects it as `COMMITS_MAX` does."""

_LEGACY_COMMIT, _COMMIT = 0, 1  # the types of key of commits
_KEY_START = Struct(">hh")  # type, size of the group's name, which comes first in each of them
_NAME_AT = 2  # where the key begins that both types of commit share
_VALUE_START = Struct(">hq")  # version, offset: in all versions
_VALUE_VERSION_MAX = 4
_VALUE_SIZE_MIN = 20
_WITH_TOPIC_ID = b"\0\4"  # the version
_METADATA_AT = 14  # behind version, offset and leader epoch
_TIME_SIZE = 8
_ONE_TOPIC_ID = b"\1\0\x10"  # one tagged field: its number, its size
_ID_SIZE = 16


class Commit(NamedTuple):
    """The offset at which a group continues to read a partition. `timestamp`: of the record, in milliseconds.

    `at`: the offset of the record in its partition of `__consumer_offsets`. `topic_id`: the 16 bytes of the topic's id
    when it was committed; None if the client did not know it.
    """

    partition: TopicPartition
    offset: int
    timestamp: int
    at: int
    topic_id: bytes | None = None


class Lag(NamedTuple):
    """A commit and the end of its partition; None if the directory has no such partition, or it does not open.

    `seconds`: those of `seconds_behind`; None if they are not known, or were not asked for.
    """

    partition: TopicPartition
    committed: int
    end: int | None
    seconds: float | None = None


class _StoredCommit(NamedTuple):
    offset: int
    timestamp: int
    at: int  # the offset of the record
    topic_id: bytes | None


class ConsumerGroups:
    """The groups of one log directory."""

    def __init__(self, directory: AnyLogDirectory, on_omission: Callable[[str], None]) -> None:
        """`on_omission` is called with a sentence, once for each kind of record that is left out."""
        self._directory = directory
        self._replay = TopicReplay(directory, OFFSETS_TOPIC, _CommittedOffsets, on_omission)

    def refresh(self, *, nowait: bool = False, bytes_max: int = STEP_BYTES) -> bool:
        """Process records that were appended since, about `bytes_max` of them; return whether all are processed.

        With `nowait`, `WouldBlock` if there are any.
        """
        limits = Limits("commits", COMMITS_MAX, "groups and members", DESCRIBED_BYTES_MAX)
        return self._replay.refresh(limits, nowait=nowait, bytes_max=bytes_max)

    def names(self, *, nowait: bool = False) -> list[bytes]:
        """Return the groups with commits or members, sorted, as of the last `refresh`."""
        with self._replay.states(nowait=nowait) as states:
            return sorted({group for state in states for group in state.groups()})

    def commits(self, group: bytes, *, nowait: bool = False) -> list[Commit] | None:
        """Return the group's commits by partition, as of the last `refresh`; None when there is no such group."""
        with self._replay.states(nowait=nowait) as states:
            mine = [state for state in states if state.knows(group)]
            commits = [commit for state in mine for commit in self._decoded(state.commits.get(group, {}))]
        return sorted(commits) if mine else None

    def committed_to(self, partition: TopicPartition, *, nowait: bool = False) -> list[str]:
        """Return the groups that have a commit for a partition, sorted, as of the last `refresh`.

        Commits of open transactions are among them.
        """
        rest = partition_name(partition)
        # First, because a commit that is staged now may be stored a moment later.
        with self._replay.staged(nowait=nowait) as staged:
            groups = {group for transaction in staged for group in transaction if transaction.has(group, rest)}
        with self._replay.states(nowait=nowait) as states:
            groups |= {
                group
                for state in states
                for group, commits in state.commits.items()
                if len(group).to_bytes(2, "big") + group + rest in commits
            }
        # Clients send names in UTF-8: other names are not from a coordinator.
        return sorted(name for group in groups if (name := group.decode(errors="replace")).encode() == group)

    def state(self, group: bytes, *, nowait: bool = False) -> dict[str, object] | None:
        """Return type, state and members of a group as of the last `refresh` (see `group_state`); None if the records
        contain commits only. What cannot be read, with which no broker of a known version loads the group, is named.
        """
        description = group_state.describe(self._described(group, nowait))
        with self._replay.states(nowait=nowait) as states:
            unreadable = [at for state in states for at in state.unreadable.get(group, {}).values()]
        if unreadable:
            description = description or {"type": None, "state": None}
            description["unreadable"] = [f"the commit at offset {at} of {OFFSETS_TOPIC}" for at in sorted(unreadable)]
        return description

    def share_topics(self, group: bytes, *, nowait: bool = False) -> dict[str, str]:
        """Return the names of the topics that a share group reads, by their ids."""
        return group_state.share_topics(self._described(group, nowait))

    def _described(self, group: bytes, nowait: bool) -> dict[bytes, bytes]:
        records: dict[bytes, bytes] = {}
        with self._replay.states(nowait=nowait) as states:
            for state in states:
                records |= state.described.get(group, {})
        return records

    def lag(self, group: bytes, *, nowait: bool = False) -> list[Lag]:
        """Return the group's commits with the ends of their partitions, whose logs are opened for that."""
        commits = self.commits(group, nowait=nowait) or []
        return [
            Lag(commit.partition, commit.offset, log_end(self._directory, commit.partition, nowait=nowait))
            for commit in commits
        ]

    def timed_lag(self, group: bytes) -> list[Lag]:
        """Return what `lag` returns, with seconds. Reads at most two batches for a partition."""
        return [lag._replace(seconds=self._seconds(lag)) for lag in self.lag(group)]

    def _seconds(self, lag: Lag) -> float | None:
        if lag.end is None or lag.committed < 0:
            return None
        try:
            return seconds_behind(self._directory.log(lag.partition), lag.committed, lag.end)
        except (StorageError, OSError):
            return None  # a reader of the partition gets the error

    def _decoded(self, kept: dict[bytes, _StoredCommit]) -> Iterator[Commit]:
        for key, commit in kept.items():
            try:
                named, _ = kafka_reader.reader("OffsetCommitKey", 0)(memoryview(key), 0)
                yield Commit(TopicPartition(named.topic, named.partition), *commit)
            except (InvalidMessage, InvalidName):
                self._replay.omissions.report_once("a commit names no partition")


class _CommittedOffsets:
    """The state that the records of one partition result in. Keys are stored without their type."""

    def __init__(self, budget: StateBudget, omissions: OmissionReport) -> None:
        self.commits: dict[bytes, dict[bytes, _StoredCommit]] = {}
        self.described: dict[bytes, dict[bytes, bytes]] = {}
        """The records of each group and its members, values by keys."""
        self.unreadable: dict[bytes, dict[bytes, int]] = {}
        """The offsets of unreadable commits of each group, by keys. The commits that they replaced do not count."""
        self._topic_ids: dict[bytes, bytes] = {}
        self._budget = budget
        self._omissions = omissions

    def groups(self) -> set[bytes]:
        """Return the known groups."""
        return {*self.commits, *self.described, *self.unreadable}

    def knows(self, group: bytes) -> bool:
        return group in self.commits or group in self.described or group in self.unreadable

    def apply(self, record: Record) -> None:
        key = record.key or b""
        if len(key) < _KEY_START.size:
            self._omissions.report_once("a record without a whole key")
            return
        kind, size = _KEY_START.unpack_from(key)
        if kind not in (_LEGACY_COMMIT, _COMMIT) and kind not in group_state.DESCRIBED:
            # Newer brokers add types (KIP-848, KIP-932, KIP-1071); a coordinator skips those that it does not know as
            # well.
            if kind not in record_schemas(OFFSETS_TOPIC):
                self._omissions.report_once(f"a record of the unknown type {kind}")
            return
        group = key[_KEY_START.size : _KEY_START.size + size]
        if size < 0 or len(group) < size:
            self._omissions.report_once("a key that ends inside the group's name")
        elif kind in group_state.DESCRIBED:
            self._describe(group, key, record.value)
        else:
            self._apply_commit(group, key[_NAME_AT:], record)

    def _describe(self, group: bytes, key: bytes, value: bytes | None) -> None:
        known = self.described.get(group, {})
        before = known.pop(key, None)
        if before is not None:
            self._budget.release(1, len(key) + len(before))
        if value is not None and self._budget.reserve(1, len(key) + len(value)):
            known[key] = value
        if known:
            self.described[group] = known
        else:
            self.described.pop(group, None)

    def _apply_commit(self, group: bytes, key: bytes, record: Record) -> None:
        commits = self.commits.get(group, {})
        before = commits.get(key)
        # As OffsetMetadataManager: a pending transactional commit does not replace a later one when its transaction
        # ends.
        if before is not None and before.at > record.offset:
            return  # a transaction that ended after a later commit
        if record.offset < self.unreadable.get(group, {}).get(key, -1):
            return
        self._mark(group, key, None)  # there is a later record
        offset = None if record.value is None else self._offset_in(record.value)
        if offset is None:
            if before is not None:
                del commits[key]
                self._budget.release(1)
                if not commits:
                    del self.commits[group]
            if record.value is not None:
                self._mark(group, key, record.offset)
            return
        if before is None and not self._budget.reserve(1):
            return
        topic_id = topic_id_in(record.value) if record.value is not None else None
        if topic_id is not None:
            topic_id = self._topic_ids.setdefault(topic_id, topic_id)  # one object for all commits of a topic
        self.commits.setdefault(group, commits)[key] = _StoredCommit(offset, record.timestamp, record.offset, topic_id)

    def _mark(self, group: bytes, key: bytes, at: int | None) -> None:
        """Note the offset of a commit that cannot be read; None that there is no such commit."""
        marked = self.unreadable.get(group, {})
        if marked.pop(key, None) is not None:
            self._budget.release(1)
        if at is not None and self._budget.reserve(1):
            marked[key] = at
        if marked:
            self.unreadable[group] = marked
        else:
            self.unreadable.pop(group, None)

    def _offset_in(self, value: bytes) -> int | None:
        if len(value) < _VALUE_SIZE_MIN:
            self._omissions.report_once("a commit that ends too early")
            return None
        version, offset = _VALUE_START.unpack_from(value)
        # The offset has the same place in all known versions; in an unknown one it may be another field.
        if not 0 <= version <= _VALUE_VERSION_MAX:
            self._omissions.report_once(f"a commit of the unknown version {version}")
            return None
        return int(offset)


def topic_id_in(value: bytes) -> bytes | None:
    """Return the 16 bytes of the topic id in the value of a commit; None without one.

    Reads the value where brokers write it, without an object for each field: a topic has millions of commits.
    """
    if len(value) <= _METADATA_AT or value[:2] != _WITH_TOPIC_ID:
        return None
    size = value[_METADATA_AT]  # of a compact string: a varint, one more than its bytes
    if size < 0x80:
        tags = _METADATA_AT + max(size, 1) + _TIME_SIZE
        found = value[tags + 3 :] if value[tags : tags + 3] == _ONE_TOPIC_ID else b""
        return found if len(found) == _ID_SIZE and any(found) else None
    try:
        topic_id = bytes(kafka_reader.reader("OffsetCommitValue", 4)(memoryview(value), 2)[0].topic_id)
    except InvalidMessage:
        return None
    return topic_id if any(topic_id) else None
