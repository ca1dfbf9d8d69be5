"""The topics and partitions that the broker serves: one index by name and topic id, creation, waiting for changes.

The index follows the listing of the directory, which costs one stat call while nothing changes. So it also has what
another part of the process or, beside a running broker, another process creates and deletes.

Only the event loop uses this module's objects, except for the methods that wait for the disk.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import trio

from offsetfs.common.change_feed import ChangeFeed
from offsetfs.common.threads import in_thread
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import NO_ID
from offsetfs.storage import INTERNAL_TOPICS, Log, LogDirectory, TopicPartition
from offsetfs.storage.directory import LogChange
from offsetfs.storage.errors import StorageError, UnknownPartition

_OPENED_MAX = 16
"""Logs of a new topic that are opened with it: the first request for the end of a log is answered in order then."""


@dataclass(slots=True)
class ServedTopic:
    """A topic of the index."""

    name: str
    partitions: dict[int, TopicPartition]
    """The partitions by number, sorted."""
    topic_id: bytes | None = None
    """None until it is asked for."""


class Topics:
    """The topics of a log directory."""

    def __init__(self, directory: LogDirectory, partitions_default: int, *, creates: bool) -> None:
        self.directory = directory
        self._partitions_default = partitions_default
        self.creates = creates and not directory.read_only
        self._listing: Sequence[TopicPartition] | None = None
        self._topics: dict[str, ServedTopic] = {}
        self._by_id: dict[bytes, ServedTopic] = {}
        self._has_all_ids = False
        self._epochs: dict[TopicPartition, int] = {}
        self.watchers: dict[TopicPartition, set[Watcher]] = {}
        self.is_closing = False
        """Whether nothing may wait for records any more."""
        # A mount of the directory, or a coordinator, changes logs, too.
        self.changes = ChangeFeed(directory)
        self.changes.subscribe(self._on_change)

    # --- look-up -----------------------------------------------------------------------------------------------------

    def all(self) -> Mapping[str, ServedTopic]:
        """Return all topics by name, sorted. The object is the same until a partition is created or deleted."""
        listing = self.directory.partitions()
        if listing is not self._listing:
            topics: dict[str, ServedTopic] = {}
            for partition in listing:
                topic = topics.get(partition.topic)
                if topic is None:
                    topics[partition.topic] = topic = ServedTopic(partition.topic, {})
                topic.partitions[partition.partition] = partition
            self._listing, self._topics, self._by_id, self._has_all_ids = listing, topics, {}, False
            self._forget_epochs()
        return self._topics

    def _forget_epochs(self) -> None:
        """Keep the leader epochs of partitions that are still there: each costs a read of a file."""
        if self.directory.read_only:  # another process may have created a partition again
            self._epochs.clear()
            return
        for partition in self._epochs.keys() - set(self._listing or ()):
            del self._epochs[partition]

    def name(self, topic: str, partition: int) -> TopicPartition:
        """Return the name of a partition that exists; UnknownPartition."""
        served = self.all().get(topic)
        name = None if served is None else served.partitions.get(partition)
        if name is None:
            path = os.path.join(self.directory.path, f"{topic}-{partition}")
            raise UnknownPartition("there is no such partition", path=path)
        return name

    def log(self, topic: str, partition: int) -> Log:
        """Return the log of a partition, up to date; UnknownPartition. The first call waits for the disk."""
        log = self.directory.log(self.name(topic, partition))
        log.refresh()
        return log

    def ready(self, topic: str | None, partition: int) -> Log | None:
        """Return the log of a partition if it is open; never waits. None may also mean that there is none."""
        served = None if topic is None else self._topics.get(topic)
        name = None if served is None else served.partitions.get(partition)
        return None if name is None else self.directory.ready(name)

    async def opened_log(self, topic: str, partition: int) -> Log:
        """Return `log`; what waits for the disk runs in a thread. StorageError, OSError."""
        if not self.directory.read_only and self.directory.opened(self.name(topic, partition)) is not None:
            return self.log(topic, partition)
        name = self.name(topic, partition)
        with trio.CancelScope(shield=True):  # a thread goes on when its task is cancelled
            log = await in_thread(partial(self.directory.log, name))
            await in_thread(log.refresh)
        return log

    def topic_id(self, topic: str) -> bytes:
        """Return the id of a topic, which `partition.metadata` of its partitions has; `NO_ID` if none has."""
        served = self.all().get(topic)
        return NO_ID if served is None else self._id_of(served)

    def _id_of(self, topic: ServedTopic) -> bytes:
        if topic.topic_id is None:
            ids = map(self._read_id, topic.partitions.values())
            topic.topic_id = next((topic_id for topic_id in ids if topic_id is not None), NO_ID)
            self._by_id[topic.topic_id] = topic
        return topic.topic_id

    def _read_id(self, partition: TopicPartition) -> bytes | None:
        try:
            return self.directory.topic_id(partition)
        except (StorageError, OSError):  # damaged, or just deleted
            return None

    def name_of(self, topic_id: bytes) -> str | None:
        """Return the topic with an id, or None."""
        topics = self.all()
        if topic_id not in self._by_id and not self._has_all_ids:
            for topic in topics.values():
                self._id_of(topic)
            self._has_all_ids = True
        served = None if topic_id == NO_ID else self._by_id.get(topic_id)
        return None if served is None else served.name

    def leader_epoch(self, partition: TopicPartition) -> int:
        """Return the leader epoch that clients get for a partition: the latest one of its log, at least 0."""
        log = self.directory.opened(partition)
        if log is not None and not log.is_gone:
            return leader_epoch_of(log)
        epoch = self._epochs.get(partition)
        if epoch is None:
            try:
                epoch = max(self.directory.leader_epoch(partition), 0)
            except OSError:  # the disk fails, or the partition is gone: opening the log reports it
                return 0
            self._epochs[partition] = epoch
        return epoch

    async def load(self) -> None:
        """Read the ids and the leader epochs of all topics ahead, in a thread."""
        topics = self.all()
        epochs = await in_thread(partial(self._read, list(topics.values())), abandon_on_cancel=True)
        if self.all() is topics:  # no partition was created again meanwhile
            self._epochs.update(epochs)

    def _read(self, topics: Iterable[ServedTopic]) -> dict[TopicPartition, int]:
        """Return leader epochs; the directory keeps the ids that it has read."""
        epochs: dict[TopicPartition, int] = {}
        for topic in topics:
            self._read_id(next(iter(topic.partitions.values())))
            for partition in topic.partitions.values():
                with contextlib.suppress(OSError):
                    epochs[partition] = max(self.directory.leader_epoch(partition), 0)
        return epochs

    # --- creation and deletion ---------------------------------------------------------------------------------------

    def create_missing(self, topic: str) -> bool:
        """Create a topic that a client asked for, if topics are created automatically; return whether it was.

        Waits for the disk. InvalidName, PartitionExists, OSError.
        """
        # The coordinators create theirs with their own settings: `__consumer_offsets` must be compacted.
        if not self.creates or topic in INTERNAL_TOPICS:
            return False
        self.create(topic, range(self._partitions_default), {})
        return True

    def create(
        self, topic: str, partitions: Iterable[int], settings: dict[str, str] | None, ends_s: float = math.inf
    ) -> None:
        """Create partitions of a topic; durable on return. InvalidName, PartitionExists, InvalidConfig, OSError.

        Nothing is created if that takes until `ends_s`, by the monotonic clock, or the broker ends meanwhile: OSError
        with ETIMEDOUT or ECANCELED.
        """
        wanted = [TopicPartition(topic, partition) for partition in partitions]
        try:
            self.directory.create_partitions(
                wanted, settings, is_stopped=lambda: self.is_closing or time.monotonic() > ends_s
            )
        except OSError as error:
            if error.errno == errno.ECANCELED and not self.is_closing:
                raise OSError(errno.ETIMEDOUT, "the time of the request was over; nothing was created") from error
            raise
        with contextlib.suppress(StorageError, OSError):  # reported by the request that needs the log
            for partition in wanted[:_OPENED_MAX]:
                self.directory.log(partition)

    def delete_logs(self, partitions: Iterable[TopicPartition]) -> None:
        """Delete partitions. Waits for the disk."""
        for partition in partitions:
            self.directory.delete_partition(partition)

    # --- waiting for changes -----------------------------------------------------------------------------------------

    def _on_change(self, partition: TopicPartition, change: LogChange) -> None:
        if change is LogChange.DELETED:  # it may be created again before the next listing
            self._epochs.pop(partition, None)
        self.changed(partition)

    def changed(self, partition: TopicPartition) -> None:
        """Wake the requests that wait for a partition: records were appended or removed, or it was deleted."""
        for watcher in self.watchers.get(partition, ()):
            watcher.wake(partition)

    def close(self) -> None:
        """End the waits for records: the broker ends."""
        self.is_closing = True
        for partition in list(self.watchers):
            self.changed(partition)


class Watcher:
    """Wakes a waiting request, and knows which of the partitions that were added to it have changed; close it."""

    __slots__ = ("_changed", "_event", "_partitions", "_watchers")

    def __init__(self, topics: Topics) -> None:
        self._watchers = topics.watchers
        self._partitions: set[TopicPartition] = set()
        self._changed: set[TopicPartition] = set()
        self._event = trio.Event()

    def add(self, partition: TopicPartition) -> None:
        """Watch a partition, too."""
        if partition not in self._partitions:
            self._partitions.add(partition)
            self._watchers.setdefault(partition, set()).add(self)

    def remove(self, partition: TopicPartition) -> None:
        """Watch a partition no longer."""
        if partition in self._partitions:
            self._partitions.remove(partition)
            watchers = self._watchers[partition]
            watchers.remove(self)
            if not watchers:
                del self._watchers[partition]

    def close(self) -> None:
        """Watch nothing more."""
        for partition in list(self._partitions):
            self.remove(partition)

    def wake(self, partition: TopicPartition) -> None:
        """Report a change of a partition."""
        self._changed.add(partition)
        self._event.set()

    def take(self) -> set[TopicPartition]:
        """Return the partitions that have changed since the last call. Call it before looking at their logs."""
        changed, self._changed = self._changed, set()
        if self._event.is_set():
            self._event = trio.Event()
        return changed

    async def wait(self, seconds: float) -> None:
        """Return when a partition has changed since `take`, or after `seconds`."""
        with trio.move_on_after(seconds):
            await self._event.wait()


def leader_epoch_of(log: Log) -> int:
    """Return the leader epoch that clients get for a log: the latest one, at least 0."""
    return max(log.leader_epoch, 0)


IDS_SINCE_OFFSET_COMMIT = 10
IDS_SINCE_OFFSET_FETCH = 10
IDS_SINCE_TXN_OFFSET_COMMIT = 6
"""From these versions on, requests have the ids of topics and not their names."""


def unknown_topic(name: str, *, has_ids: bool) -> ErrorCode:
    """Return the error for a partition that is not there, of a topic as handlers get it."""
    is_of_id = has_ids and not name
    return ErrorCode.UNKNOWN_TOPIC_ID if is_of_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def named(request: Any, topics: Topics, answer: Callable[[], Awaitable[Any]]) -> Any:
    """Return `answer()` for a request for committed offsets whose topics have only ids: it finds their names there.

    Rules and handlers know topics by name. A topic whose id is not known has an empty name; handlers answer
    UNKNOWN_TOPIC_ID. The topics of the response get ids. Follows KafkaApis (KIP-848, KIP-1319).
    """
    ids = dict[str, bytes]()
    for topic in _topics(request):
        topic.name = topics.name_of(topic.topic_id) or ""
        ids[topic.name] = topic.topic_id
    response = await answer()
    for topic in _topics(response):
        if topic.topic_id == NO_ID and topic.name:
            topic.topic_id = ids.get(topic.name) or topics.topic_id(topic.name)
    return response


def _topics(message: Any) -> Iterable[Any]:
    """Return the topics of a request or response; those of all groups of OffsetFetch."""
    holders = message.groups if hasattr(message, "groups") else [message]
    return [topic for holder in holders for topic in holder.topics or ()]
