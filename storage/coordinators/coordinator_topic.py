"""The topic in which a coordinator keeps its state, and the partition of it that has the records of a key.

All records of a key, a group or a transactional id, are in one partition, chosen by Java's hash of it. Follows
Utils.abs, GroupCoordinatorService.partitionFor and TransactionStateManager.partitionFor.
"""

from __future__ import annotations

from collections.abc import Mapping

from offsetfs.storage.directory.log_directories import AnyLogDirectory
from offsetfs.storage.errors import NoOffsetsTopic
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.units import I32_MIN

PARTITIONS = 50
"""The default of `offsets.topic.num.partitions` and `transaction.state.log.num.partitions`, rarely changed."""


def partition_of(key: str, partitions: int) -> int:
    """Return the partition that holds the records of a key if there are `partitions`: |String.hashCode| modulo their
    number.
    """
    units = key.encode("utf-16-be", "surrogatepass")
    hashed = 0
    for position in range(0, len(units), 2):
        # Java's String.hashCode counts UTF-16 units in 32 bits, so a character outside of the BMP counts twice.
        hashed = 31 * hashed + int.from_bytes(units[position : position + 2], "big") & 0xFFFFFFFF
    signed = hashed - (1 << 32 if hashed >> 31 else 0)
    # Kafka's Utils.abs: the absolute value of the smallest int is 0, because Java's Math.abs would return it unchanged.
    return (0 if signed == I32_MIN else abs(signed)) % partitions


def partition_of_key(
    directory: AnyLogDirectory,
    topic: str,
    key: str,
    settings: Mapping[str, str],
    *,
    may_create: bool,
    partitions: int | None = None,
) -> TopicPartition:
    """Return the partition for the records of a key; with `may_create`, create a missing topic of `partitions`.

    After creation all its partitions are on disk; partition 0 was created last, so a topic that a crash left incomplete
    is completed at the next call. `NoOffsetsTopic` if the topic does not exist or is incomplete. Waits for the disk.
    """
    made = partitions or PARTITIONS
    there = {partition.partition for partition in directory.partitions_of(topic)}
    if there != set(range(len(there))) or not there:
        if not may_create or not there <= set(range(made)):
            raise NoOffsetsTopic(f"{topic} is missing or incomplete", path=directory.path)
        # A coordinator creates the topic with its own replication factor and settings (`offsets.topic.*`).
        if directory.is_brokers:
            raise NoOffsetsTopic(
                f"{topic} must be created by the broker of this directory: start the broker, then repeat",
                path=directory.path,
            )
        _create(directory, topic, set(range(made)) - there, settings)
        there = set(range(made))
    return TopicPartition(topic, partition_of(key, len(there)))


def _create(directory: AnyLogDirectory, topic: str, missing: set[int], settings: Mapping[str, str]) -> None:
    directory.configure(topic, settings)
    # Partition 0 last: as long as it is missing, the topic counts as incomplete, and a crash in between is repaired.
    for numbers in (sorted(missing - {0}), sorted(missing & {0})):
        directory.create_partitions([TopicPartition(topic, number) for number in numbers])
