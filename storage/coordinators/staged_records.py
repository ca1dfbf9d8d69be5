"""The records of open transactions in a coordinator's topic, which count when their transaction commits.

Of the commits of one transaction for a partition the last one is kept. A tombstone takes commits of its key away from
all transactions: what a group or a topic has lost does not come back with a transaction that ends later. Follows
OffsetMetadataManager.replay of Kafka 4.2 (`openTransactions`).
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.format.record import Record

_COMMITS = (0, 1)  # the types of key of commits; they differ in nothing else
_START = Struct(">hh")  # type, size of the group's name
_SIZE = Struct(">h")
_PARTITION = Struct(">i")

CommitName = tuple[bytes, bytes]
"""The group of a commit, and its partition as keys have it."""


def commit_name(key: bytes | None) -> CommitName | None:
    """Return what a commit is for, from the key of its record; None for other records."""
    if key is None or len(key) < _START.size:
        return None
    kind, size = _START.unpack_from(key)
    end = _START.size + size
    return (key[_START.size : end], key[end:]) if kind in _COMMITS and 0 <= size <= len(key) - _START.size else None


def partition_name(partition: TopicPartition) -> bytes:
    """Return a partition as keys of commits have it."""
    topic = partition.topic.encode()
    return _SIZE.pack(len(topic)) + topic + _PARTITION.pack(partition.partition)


class StagedRecords:
    """The records of one partition of the topic."""

    def __init__(self, *, has_commits: bool) -> None:
        """`has_commits`: the topic is `__consumer_offsets`; records of others are kept as they are."""
        self._has_commits = has_commits
        self._by_producer: dict[int, dict[CommitName | int, Record]] = {}
        self._producers: dict[bytes, dict[bytes, set[int]]] = {}

    def add(self, producer_id: int, record: Record) -> bool:
        """Keep a record; return False if it replaced an earlier record."""
        name = self._name(record)
        records = self._by_producer.setdefault(producer_id, {})
        if name is None:
            records[record.offset] = record
            return True
        is_new = records.pop(name, None) is None
        records[name] = record
        group, partition = name
        self._producers.setdefault(group, {}).setdefault(partition, set()).add(producer_id)
        return is_new

    def discard(self, key: bytes | None) -> int:
        """Remove what the tombstone of a commit takes away, by its key; return the number of records."""
        name = commit_name(key) if self._producers else None
        if name is None:
            return 0
        producers = list(self._producers.get(name[0], {}).get(name[1], ()))
        for producer_id in producers:
            del self._by_producer[producer_id][name]
            self._forget(producer_id, name)
        return len(producers)

    def end(self, producer_id: int) -> list[Record]:
        """Remove the records of a producer's transaction, which has ended, and return them."""
        records = self._by_producer.pop(producer_id, {})
        for name in records:
            if not isinstance(name, int):
                self._forget(producer_id, name)
        return list(records.values())

    def is_removal(self, record: Record) -> bool:
        """Return whether a record is the tombstone of a commit. It counts at once, also in a transaction."""
        return record.value is None and self._name(record) is not None

    def __iter__(self) -> Iterator[bytes]:
        """Yield the groups that have commits here."""
        return iter(self._producers)

    def has(self, group: bytes, partition: bytes) -> bool:
        """Return whether there is a commit of a group for a partition, which is as keys have it."""
        return partition in self._producers.get(group, {})

    def partitions(self, group: bytes) -> Iterator[bytes]:
        """Yield the partitions of a group's commits as keys have them."""
        return iter(self._producers.get(group, {}))

    def _name(self, record: Record) -> CommitName | None:
        return commit_name(record.key) if self._has_commits else None

    def _forget(self, producer_id: int, name: CommitName) -> None:
        group, partition = name
        of_group = self._producers[group]
        producers = of_group[partition]
        producers.discard(producer_id)
        if not producers:
            del of_group[partition]
        if not of_group:
            del self._producers[group]
