"""Deletes the committed offsets of partitions that are deleted while no broker runs.

Kafka's coordinator does that for each deleted topic: a new topic of the same name begins without commits. In the
directory of a Kafka broker nothing is deleted: other brokers may have replicas of the partition, and the topic goes on.

A broker does not delete the commits of missing partitions when it starts. Kafka does not do that either: the partitions
may be in another directory, on another broker, or in a backup that is not restored yet. Follows
OffsetMetadataManager.onPartitionsDeleted.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Collection

from offsetfs.storage.coordinators.consumer_groups import ConsumerGroups
from offsetfs.storage.coordinators.group_records import commit_key
from offsetfs.storage.coordinators.offsets_topic import partition_of_group
from offsetfs.storage.directory.log_directories import AnyLogDirectory
from offsetfs.storage.names import OFFSETS_TOPIC, TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.format.batch_writer import BatchLimit, BatchWriter

_BATCH_BYTES = 1 << 18


def delete_commits(directory: AnyLogDirectory, groups: ConsumerGroups, partitions: Collection[TopicPartition]) -> int:
    """Delete the commits of all groups for `partitions`, which are about to be deleted; return their number.

    `groups` are those of the directory. Durable on return. StorageError, OSError; some commits may be deleted then.
    """
    is_of_offsets = any(each.topic == OFFSETS_TOPIC for each in partitions)
    if directory.is_brokers or is_of_offsets:
        return 0
    groups.refresh(bytes_max=sys.maxsize)
    keys: defaultdict[TopicPartition, list[bytes]] = defaultdict(list)
    for partition in partitions:
        for group in groups.committed_to(partition):
            home = partition_of_group(directory, group, may_create=False)
            keys[home].append(commit_key(group, partition))
    for home, of_home in keys.items():
        _append_deletions(directory.writable_log(home), of_home)
    return sum(map(len, keys.values()))


def _append_deletions(log: Log, keys: list[bytes]) -> None:
    def limit() -> BatchLimit:
        config = log.config
        return BatchLimit.within(config.compression, config.max_message_bytes, config.segment_bytes)

    now_ms = log.clock.now_ms()
    writer = BatchWriter(limit, _BATCH_BYTES, log.append, log.path)
    for key in keys:
        writer.append(key, None, (), now_ms)
    writer.write()
    log.flush()
