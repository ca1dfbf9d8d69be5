"""The partition of `__consumer_offsets` that holds the records of a group.

All records of a group are in one partition, chosen by Java's hash of its name. Follows
GroupCoordinatorService.partitionFor and groupMetadataTopicConfigs; docs/internals/format/consumer-offsets.md describes
the whole topic.
"""

from __future__ import annotations

from offsetfs.storage.directory.log_directories import AnyLogDirectory
from offsetfs.storage.errors import NoOffsetsTopic
from offsetfs.storage.names import OFFSETS_TOPIC, TopicPartition

PARTITIONS = 50
"""The default of `offsets.topic.num.partitions`, which is rarely changed."""

SETTINGS = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": str(100 << 20)}
"""The settings that a broker gives the topic."""

_INT_MIN = -(2**31)


def partition_of(group: str, partitions: int) -> int:
    """Return the partition that holds the group's commits if there are `partitions`: |String.hashCode| modulo their
    number.
    """
    units = group.encode("utf-16-be", "surrogatepass")
    hashed = 0
    for position in range(0, len(units), 2):
        # Java's String.hashCode counts UTF-16 units in 32 bits, so a character outside of the BMP counts twice.
        hashed = 31 * hashed + int.from_bytes(units[position : position + 2], "big") & 0xFFFFFFFF
    signed = hashed - (1 << 32 if hashed >> 31 else 0)
    # Kafka's Utils.abs: the absolute value of the smallest int is 0, because Java's Math.abs would return it unchanged.
    return (0 if signed == _INT_MIN else abs(signed)) % partitions


def partition_of_group(
    directory: AnyLogDirectory, group: str, *, may_create: bool, partitions: int | None = None
) -> TopicPartition:
    """Return the partition for the group's commits; with `may_create`, create a missing topic of `partitions`.

    After creation all its partitions are on disk; partition 0 was created last, so a topic that a crash left incomplete
    is completed at the next call. `NoOffsetsTopic` if the topic does not exist or is incomplete. Waits for the disk.
    """
    made = partitions or PARTITIONS
    there = {each.partition for each in directory.partitions() if each.topic == OFFSETS_TOPIC}
    if there != set(range(len(there))) or not there:
        if not may_create or not there <= set(range(made)):
            raise NoOffsetsTopic(f"{OFFSETS_TOPIC} is not here, or not all of it", path=directory.path)
        # A coordinator creates the topic with its own replication factor and settings (`offsets.topic.*`).
        if directory.is_brokers:
            raise NoOffsetsTopic(f"the broker has to make {OFFSETS_TOPIC} itself", path=directory.path)
        _create(directory, set(range(made)) - there)
        there = set(range(made))
    return TopicPartition(OFFSETS_TOPIC, partition_of(group, len(there)))


def _create(directory: AnyLogDirectory, missing: set[int]) -> None:
    directory.configure(OFFSETS_TOPIC, SETTINGS)
    # Partition 0 last: as long as it is missing, the topic counts as incomplete, and a crash in between is repaired.
    for numbers in (sorted(missing - {0}), sorted(missing & {0})):
        directory.create_partitions([TopicPartition(OFFSETS_TOPIC, number) for number in numbers])
