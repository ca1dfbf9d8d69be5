"""The partition of `__consumer_offsets` that holds the records of a group.

Follows groupMetadataTopicConfigs; docs/internals/format/consumer-offsets.md describes the whole topic.
"""

from __future__ import annotations

from offsetfs.storage.coordinators.coordinator_topic import partition_of_key
from offsetfs.storage.coordinators.group_records import CommitChange, change_of
from offsetfs.storage.directory.log_directories import AnyLogDirectory
from offsetfs.storage.errors import UNREADABLE, OffsetOutOfRange
from offsetfs.storage.names import OFFSETS_TOPIC, TopicPartition
from offsetfs.storage.partition.log import Log

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
