"""The state of the group coordinator on disk: commits and groups in `__consumer_offsets`, in Kafka's format.

`CoordinatorLog` reads and writes. Commits in a transaction count when its marker is in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from offsetfs.kafka.broker.coordinator_log import CoordinatorLog, KeyValue, Shard
from offsetfs.kafka.broker.groups.consumer_group import ConsumerGroup, ConsumerMember
from offsetfs.kafka.broker.groups.group import GroupError
from offsetfs.kafka.broker.log_sync import LogSync
from offsetfs.kafka.protocol.records import GroupMetadataValue
from offsetfs.storage import LogDirectory, TopicPartition
from offsetfs.storage.coordinators import (
    OFFSETS_TOPIC,
    Change,
    ClassicGroupChange,
    CommitChange,
    CommittedOffset,
    ConsumerGroupRecord,
    ConsumerRecord,
    NewerGroupChange,
    OffsetsReplay,
    commit_key,
    commit_value,
    consumer_record,
    group_key,
    group_value,
    partition_of_group,
)
from offsetfs.storage.errors import StorageError


@dataclass(slots=True, eq=False)
class StoredGroup:
    """The records of a group in the log. `newer`: the records of a group of a newer protocol, values by keys.

    `consumer`: what they say of a consumer group; None of other groups.
    """

    metadata: GroupMetadataValue | None = None
    offsets: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)
    newer: dict[bytes, bytes] = field(default_factory=dict)
    consumer: ConsumerGroup | None = None
    _at: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return self.metadata is None and not self.offsets and not self.newer

    def note_commit(self, change: CommitChange) -> None:
        # As OffsetMetadataManager: a transaction that ends does not replace a later commit.
        if self._at.get(change.partition, -1) > change.at:
            return
        if change.commit is None:
            self.offsets.pop(change.partition, None)
            self._at.pop(change.partition, None)
        else:
            self.offsets[change.partition] = change.commit
            self._at[change.partition] = change.at

    def note_newer(self, change: NewerGroupChange) -> ConsumerGroupRecord | None:
        """Take a record of a group of a newer protocol; return what it says of a consumer group."""
        if change.value is None:
            self.newer.pop(change.key, None)
        else:
            self.newer[change.key] = change.value
        record = consumer_record(change)
        if record is not None:
            if self.consumer is None:
                self.consumer = ConsumerGroup(change.group)
            self.consumer.apply(record)
        if not self.newer:
            self.consumer = None
        return record


_Shard = Shard[StoredGroup, Change]
OnGroup = Callable[[str, GroupMetadataValue | None], None]
OnMember = Callable[[str, str, ConsumerMember | None], None]


def commit_record(group: str, partition: TopicPartition, commit: CommittedOffset | None) -> KeyValue:
    """Return the record of a commit, or of its deletion."""
    return commit_key(group, partition), None if commit is None else commit_value(commit)


def group_record(group: str, value: GroupMetadataValue | None) -> KeyValue:
    """Return the record of a classic group, or of its deletion."""
    return group_key(group), None if value is None else group_value(value)


def _replays(shards: Iterable[_Shard]) -> Iterator[OffsetsReplay]:
    return (shard.replay for shard in shards if isinstance(shard.replay, OffsetsReplay))


class GroupLog(CoordinatorLog[StoredGroup, Change]):
    """Reads and writes `__consumer_offsets` of one directory."""

    def __init__(
        self, directory: LogDirectory, partitions: int, handlers: tuple[OnGroup, OnMember], syncs: LogSync
    ) -> None:
        """`partitions`: the number of partitions of a new topic. The handlers are called with each classic group that
        another coordinator has written or deleted, and with each member of a consumer group that has changed.
        """
        super().__init__(directory, OFFSETS_TOPIC, "groups and committed offsets", syncs, GroupError, OffsetsReplay)
        self._partitions = partitions
        self._on_group, self._on_member = handlers

    def loaded_s(self, group: str) -> float:
        """Return when the partition of a group was loaded."""
        return max((shard.loaded_s or 0.0 for shard in self._shards_of(group)), default=0.0)

    def pending_commits(self, group: str) -> set[TopicPartition]:
        """Return the partitions that open transactions commit offsets of a group for."""
        return {commit for replay in _replays(self._shards_of(group)) for commit in replay.pending_commits(group)}

    def pending_groups(self) -> set[str]:
        """Return the groups that open transactions commit offsets of."""
        return {name for replay in _replays(self._shards.values()) for name in replay.pending_groups()}

    def _create(self, key: str) -> None:
        partition_of_group(self._directory, key, may_create=True, partitions=self._partitions)

    def _record(self, change: Change) -> KeyValue:
        if isinstance(change, CommitChange):
            return commit_record(change.group, change.partition, change.commit)
        if isinstance(change, ClassicGroupChange):
            return group_record(change.group, change.value)
        return change.key, change.value

    def _on_forget(self, shard: _Shard) -> None:
        if shard.loaded_s is None or self._directory.read_only:
            for name in shard.states:
                self._on_group(name, None)

    def _apply(self, shard: _Shard, change: Change, *, own_offset: int | None) -> None:
        stored = shard.states.get(change.group) or StoredGroup()
        if isinstance(change, CommitChange):
            stored.note_commit(change if own_offset is None else change._replace(at=own_offset))
            if own_offset is not None and change.commit is None and shard.replay is not None:
                shard.replay.discard_staged(commit_key(change.group, change.partition))
        elif isinstance(change, ClassicGroupChange):
            stored.metadata = change.value
            # In a writing process no other coordinator writes groups: later ones that are read are our own.
            if own_offset is None and (shard.loaded_s is None or self._directory.read_only):
                self._on_group(change.group, change.value)
        else:
            self._apply_newer(shard, stored, change)
        if stored.is_empty:
            shard.states.pop(change.group, None)
        else:
            shard.states[change.group] = stored

    def _apply_newer(self, shard: _Shard, stored: StoredGroup, change: NewerGroupChange) -> None:
        try:
            record = stored.note_newer(change)
        except ValueError as reason:
            raise StorageError(f"group {change.group}: {reason}", path=str(shard.partition)) from None
        if record is not None and record.kind in (ConsumerRecord.MEMBER, ConsumerRecord.CURRENT):
            members = {} if stored.consumer is None else stored.consumer.members
            self._on_member(change.group, record.detail, members.get(record.detail))
