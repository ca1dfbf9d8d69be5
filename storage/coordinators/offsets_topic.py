"""The topic `__consumer_offsets`: the partition of a group, single commits, their deletion, and replay.

Follows groupMetadataTopicConfigs and OffsetMetadataManager.onPartitionsDeleted.
docs/internals/format/consumer-offsets.md describes the whole topic.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from offsetfs.kafka.protocol import kafka_reader
from offsetfs.kafka.protocol.codec import InvalidMessage
from offsetfs.storage.coordinators.changes_replay import ChangesReplay
from offsetfs.storage.coordinators.coordinator_topic import partition_of_key
from offsetfs.storage.coordinators.group_records import (
    Change,
    CommitChange,
    CommittedOffset,
    change_of,
    commit_key,
    commit_value,
)
from offsetfs.storage.directory.log_directories import AnyLogDirectory
from offsetfs.storage.errors import UNREADABLE, InvalidName, OffsetOutOfRange
from offsetfs.storage.names import OFFSETS_TOPIC, TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.format.batch_writer import BatchLimit, BatchWriter

if TYPE_CHECKING:  # a broker does not load it
    from offsetfs.storage.coordinators.consumer_groups import ConsumerGroups

SETTINGS = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": str(100 << 20)}
"""The settings that a broker gives the topic."""


def partition_of_group(
    directory: AnyLogDirectory, group: str, *, may_create: bool, partitions: int | None = None
) -> TopicPartition:
    """Return the partition for the group's commits, as `partition_of_key`."""
    return partition_of_key(directory, OFFSETS_TOPIC, group, SETTINGS, may_create=may_create, partitions=partitions)


def commit_at(log: Log, offset: int) -> CommitChange | None:
    """Return the commit in the record at `offset` of a partition of the topic; None if no commit can be read there.

    Reads one batch; OSError.
    """
    try:
        batch = log.batch_at(offset)
        record = None if batch is None else batch.record(offset)
        change = None if record is None else change_of(record)
    except (*UNREADABLE, OffsetOutOfRange, ValueError):
        return None
    return change if isinstance(change, CommitChange) else None


_BATCH_BYTES = 1 << 18


def delete_commits(directory: AnyLogDirectory, groups: ConsumerGroups, partitions: Collection[TopicPartition]) -> int:
    """Delete the commits of all groups for `partitions`, which are about to be deleted; return their number.

    Kafka's coordinator does that for each deleted topic: a new topic of the same name begins without commits. In the
    directory of a Kafka broker nothing is deleted: other brokers may have replicas of the partition, and the topic goes
    on. For use while no broker runs. A broker that starts does not delete the commits of missing partitions, as in
    Kafka: they may be in another directory, on another broker, or in a backup that is not restored yet.

    `groups` are those of the directory. Durable on return. StorageError, OSError; some commits may be deleted then.
    """
    is_of_offsets = any(partition.topic == OFFSETS_TOPIC for partition in partitions)
    if directory.is_brokers or is_of_offsets:
        return 0
    groups.refresh(bytes_max=sys.maxsize)
    keys: defaultdict[TopicPartition, list[bytes]] = defaultdict(list)
    for partition in partitions:
        for group in groups.committed_to(partition):
            home = partition_of_group(directory, group, may_create=False)
            keys[home].append(commit_key(group, partition))
    for home, of_home in keys.items():
        _append_records(directory.writable_log(home), [(key, None) for key in of_home])
    return sum(map(len, keys.values()))


def copy_commits(
    directory: AnyLogDirectory, groups: ConsumerGroups, names: Mapping[TopicPartition, TopicPartition]
) -> None:
    """Commit what each group has committed for a partition also for another one, if it has no commit there.

    `names`: the other partition of each. `groups` are those of the directory. Durable on return. StorageError, OSError.
    """
    groups.refresh(bytes_max=sys.maxsize)
    records: defaultdict[TopicPartition, list[tuple[bytes, bytes | None]]] = defaultdict(list)
    for partition, other in names.items():
        for group in groups.committed_to(partition):
            commits = {commit.partition: commit.at for commit in groups.commits(group.encode()) or ()}
            if other in commits or partition not in commits:
                continue
            home = partition_of_group(directory, group, may_create=False)
            change = commit_at(directory.log(home), commits[partition])
            if change is not None and change.commit is not None:
                records[home].append((commit_key(group, other), commit_value(change.commit)))
    for home, of_home in records.items():
        _append_records(directory.writable_log(home), of_home)


def commit_offsets(directory: AnyLogDirectory, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit offsets of a group, one for each partition. Durable on return. StorageError, OSError.

    For use while no broker runs, in a directory that is not that of a Kafka broker: replicas of the partition would not
    get the commits.
    """
    home = partition_of_group(directory, group, may_create=True)
    log = directory.writable_log(home)
    now_ms = log.clock.now_ms()
    _append_records(
        log,
        [
            (commit_key(group, partition), commit_value(CommittedOffset(offset, -1, "", now_ms)))
            for partition, offset in offsets.items()
        ],
    )


def _append_records(log: Log, records: Iterable[tuple[bytes, bytes | None]]) -> None:
    def limit() -> BatchLimit:
        config = log.config
        return BatchLimit.within(config.compression, config.max_message_bytes, config.segment_bytes)

    now_ms = log.clock.now_ms()
    writer = BatchWriter(limit, _BATCH_BYTES, log.append, log.path)
    for key, value in records:
        writer.append(key, value, (), now_ms)
    writer.write()
    log.flush()


class OffsetsReplay(ChangesReplay[Change]):
    """The changes of the records of one partition, and the commits of open transactions in it."""

    def __init__(self, log: Log) -> None:
        super().__init__(log, change_of)

    def pending_commits(self, group: str) -> set[TopicPartition]:
        """Return the partitions that open transactions commit offsets of a group for."""
        partitions = set()
        for name in self.staged.partitions(group.encode()):
            try:
                partitions.add(_partition(name))
            except (InvalidMessage, InvalidName):
                continue
        return partitions

    def pending_groups(self) -> set[str]:
        """Return the groups that open transactions commit offsets of."""
        return {name for group in self.staged if (name := group.decode(errors="replace")).encode() == group}


def _partition(name: bytes) -> TopicPartition:
    read, _ = kafka_reader.reader("OffsetCommitKey", 0)(memoryview(b"\0\0" + name), 0)
    return TopicPartition(read.topic, read.partition)
