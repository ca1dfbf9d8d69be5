"""The record that commits an offset for a consumer group, and where a broker looks for it.

    key      i16 1, group (string), topic (string), partition (i32)
    value    i16 3, offset (i64), leader epoch (i32), metadata (string), commit timestamp (i64); none deletes the commit

Version 3 is what brokers since 2.1 read; 4.1 writes version 4, which older ones do not know. A group's records all lie
in one partition of `__consumer_offsets`, found by Java's hash of its name. Follows GroupCoordinatorRecordHelpers,
GroupCoordinatorService.partitionFor and groupMetadataTopicConfigs; docs/internals/format/consumer-offsets.md has the
whole topic.
"""

from __future__ import annotations

from struct import Struct

from offsetfs.storage.coordinators.consumer_groups import OFFSETS_TOPIC
from offsetfs.storage.directory.log_directories import AnyLogDirectory
from offsetfs.storage.errors import NoOffsetsTopic
from offsetfs.storage.names import TopicPartition

PARTITIONS = 50
"""offsets.topic.num.partitions, whose default is almost never changed."""

SETTINGS = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": str(100 << 20)}
"""Those of the topic, as a broker makes it."""

OFFSET_MAX = 2**63 - 1

_SHORT, _INT = Struct(">h"), Struct(">i")
_VALUE_START, _LONG = Struct(">hqi"), Struct(">q")
_KEY_VERSION, _VALUE_VERSION = 1, 3
_NO_EPOCH = -1
_INT_MIN = -(2**31)


def key_of(group: str, partition: TopicPartition) -> bytes:
    """Return the key of the group's commits for a partition; struct.error for names above 32,767 bytes."""
    names = [_string(group), _string(partition.topic)]
    return b"".join([_SHORT.pack(_KEY_VERSION), *names, _INT.pack(partition.partition)])


def value_of(offset: int, timestamp: int) -> bytes:
    """Return the value that commits `offset`, the next one to read, at `timestamp` in milliseconds."""
    return _VALUE_START.pack(_VALUE_VERSION, offset, _NO_EPOCH) + _string("") + _LONG.pack(timestamp)


def _string(text: str) -> bytes:
    data = text.encode()
    return _SHORT.pack(len(data)) + data


def partition_of(group: str, partitions: int) -> int:
    """Return the partition, of so many, that holds the group's commits: |String.hashCode| modulo."""
    units = group.encode("utf-16-be", "surrogatepass")
    hashed = 0
    for position in range(0, len(units), 2):
        hashed = 31 * hashed + int.from_bytes(units[position : position + 2], "big") & 0xFFFFFFFF
    signed = hashed - (1 << 32 if hashed >> 31 else 0)
    return (0 if signed == _INT_MIN else abs(signed)) % partitions


def home_of(directory: AnyLogDirectory, group: str, *, may_create: bool) -> TopicPartition:
    """Return the partition for the group's commits; with `may_create` the topic is made where there is none.

    Then all its partitions are there and on disk, the first one at last: what a crash leaves of it is no whole topic,
    and is completed the next time. `NoOffsetsTopic` where it is not there, or not whole. Waits for the disk.
    """
    there = {each.partition for each in directory.partitions() if each.topic == OFFSETS_TOPIC}
    if there != set(range(len(there))) or not there:
        if not may_create or not there <= set(range(PARTITIONS)):
            raise NoOffsetsTopic(f"{OFFSETS_TOPIC} is not here, or not all of it", path=directory.path)
        if directory.is_brokers:
            raise NoOffsetsTopic(f"the broker has to make {OFFSETS_TOPIC} itself", path=directory.path)
        _create(directory, there)
        there = set(range(PARTITIONS))
    return TopicPartition(OFFSETS_TOPIC, partition_of(group, len(there)))


def _create(directory: AnyLogDirectory, there: set[int]) -> None:
    directory.configure(OFFSETS_TOPIC, SETTINGS)
    missing = set(range(PARTITIONS)) - there
    for numbers in (sorted(missing - {0}), sorted(missing & {0})):
        directory.create_partitions([TopicPartition(OFFSETS_TOPIC, number) for number in numbers])
