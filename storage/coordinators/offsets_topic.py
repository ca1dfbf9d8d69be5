"""The partition of `__consumer_offsets` that holds the records of a group.

Follows groupMetadataTopicConfigs; docs/internals/format/consumer-offsets.md describes the whole topic.
"""

from __future__ import annotations

from offsetfs.storage.coordinators.coordinator_topic import partition_of_key
from offsetfs.storage.directory.log_directories import AnyLogDirectory
from offsetfs.storage.names import OFFSETS_TOPIC, TopicPartition

SETTINGS = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": str(100 << 20)}
"""The settings that a broker gives the topic."""


def partition_of_group(
    directory: AnyLogDirectory, group: str, *, may_create: bool, partitions: int | None = None
) -> TopicPartition:
    """Return the partition for the group's commits, as `partition_of_key`."""
    return partition_of_key(directory, OFFSETS_TOPIC, group, SETTINGS, may_create=may_create, partitions=partitions)
