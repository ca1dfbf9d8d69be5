"""The replay of one partition of `__consumer_offsets` for a group coordinator."""

from __future__ import annotations

from offsetfs.kafka.protocol import kafka_reader
from offsetfs.kafka.protocol.codec import InvalidMessage
from offsetfs.storage.coordinators.changes_replay import ChangesReplay
from offsetfs.storage.coordinators.group_records import Change, change_of
from offsetfs.storage.errors import InvalidName
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log


class OffsetsReplay(ChangesReplay[Change]):
    """What the records of one partition change, and the commits of open transactions in it."""

    def __init__(self, log: Log) -> None:
        super().__init__(log, change_of)

    def pending_commits(self, group: str) -> set[TopicPartition]:
        """Return the partitions that open transactions commit offsets of a group for."""
        found = set()
        for name in self.staged.partitions(group.encode()):
            try:
                found.add(_partition(name))
            except (InvalidMessage, InvalidName):
                continue
        return found

    def pending_groups(self) -> set[str]:
        """Return the groups that open transactions commit offsets of."""
        return {name for each in self.staged if (name := each.decode(errors="replace")).encode() == each}


def _partition(name: bytes) -> TopicPartition:
    read, _ = kafka_reader.reader("OffsetCommitKey", 0)(memoryview(b"\0\0" + name), 0)
    return TopicPartition(read.topic, read.partition)
