"""The partitions that the broker serves: logs by name and topic id, creation of topics, waiting for appends.

Only the event loop uses this module's objects.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import trio

from offsetfs.protocol.message import NO_ID
from offsetfs.runtime.change_feed import ChangeFeed
from offsetfs.storage import INTERNAL_TOPICS, Log, LogDirectory, TopicPartition
from offsetfs.storage.directory import LogChange
from offsetfs.storage.errors import InvalidName, UnknownPartition


class Topics:
    """The topics of a log directory."""

    def __init__(self, directory: LogDirectory, partitions_default: int, *, creates: bool) -> None:
        self.directory = directory
        self._partitions_default = partitions_default
        self._creates = creates and not directory.read_only
        self._ids: dict[str, bytes] = {}
        self._growth: dict[TopicPartition, trio.Event] = {}
        ChangeFeed(directory).subscribe(self._changed)

    def all(self) -> dict[str, list[int]]:
        """Return the partitions of each topic, sorted."""
        found: dict[str, list[int]] = {}
        for each in self.directory.partitions():
            found.setdefault(each.topic, []).append(each.partition)
        return {topic: sorted(partitions) for topic, partitions in sorted(found.items())}

    def log(self, topic: str, partition: int) -> Log:
        """Return the log of a partition; UnknownPartition."""
        name = self._name(topic, partition)
        if not self.directory.has(name):
            raise UnknownPartition("there is no such partition", path=os.path.join(self.directory.path, str(name)))
        log = self.directory.log(name)
        log.refresh()
        return log

    def find(self, topic: str, partition: int) -> TopicPartition | None:
        """Return the name of a partition that is there, or None."""
        try:
            name = TopicPartition(topic, partition)
        except InvalidName:
            return None
        return name if self.directory.has(name) else None

    @staticmethod
    def _name(topic: str, partition: int) -> TopicPartition:
        try:
            return TopicPartition(topic, partition)
        except InvalidName as error:
            raise UnknownPartition(str(error)) from None

    def topic_id(self, topic: str, partitions: Iterable[int]) -> bytes:
        """Return the id of a topic, which `partition.metadata` of its partitions has; `NO_ID` if none has."""
        if topic not in self._ids:
            for partition in partitions:
                found = self.directory.topic_id(TopicPartition(topic, partition))
                if found is not None:
                    self._ids[topic] = found
                    break
        return self._ids.get(topic, NO_ID)

    def name_of(self, topic_id: bytes) -> str | None:
        """Return the topic with an id, or None."""
        topics = self.all()
        return next((topic for topic, parts in topics.items() if self.topic_id(topic, parts) == topic_id), None)

    def create_missing(self, topic: str) -> bool:
        """Create a topic that a client asked for, if topics are created automatically; return whether it was.

        Waits for the disk. InvalidName, PartitionExists, OSError.
        """
        # The coordinators create theirs with their own settings: `__consumer_offsets` must be compacted.
        if not self._creates or topic in INTERNAL_TOPICS:
            return False
        self.create(topic, self._partitions_default, {})
        return True

    def create(self, topic: str, partitions: int, settings: dict[str, str]) -> None:
        """Create a topic; durable on return. InvalidName, PartitionExists, InvalidConfig, OSError."""
        self.directory.create_partitions([TopicPartition(topic, each) for each in range(partitions)], settings)

    def delete_logs(self, topic: str, partitions: Iterable[int]) -> None:
        """Delete the partitions of a topic. Waits for the disk."""
        for each in partitions:
            self.directory.delete_partition(TopicPartition(topic, each))

    # --- waiting for records -----------------------------------------------------------------------------------------

    def growth(self, partition: TopicPartition) -> trio.Event:
        """Return the event of the next append to a partition, or of its deletion. Take it before looking at the log."""
        return self._growth.setdefault(partition, trio.Event())

    def _changed(self, partition: TopicPartition, change: LogChange) -> None:
        """Wake everything that waits for `partition`. A mount of the directory may have changed it, too."""
        if change is not LogChange.APPENDED:
            self._ids.pop(partition.topic, None)
        event = self._growth.pop(partition, None)
        if event is not None:
            event.set()
