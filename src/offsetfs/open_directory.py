"""An open log directory, its partitions and topics.

    with offsetfs.open("/var/lib/kafka/data") as data:
        for record in data.partition("orders-0").read(-10):
            print(record.offset, record.key, record.value)

Synchronous and without threads: retention, compaction and periodic syncs run in a mount or in `offsetfs clean`.
docs/use/library.md is the manual.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Literal

from offsetfs import arguments
from offsetfs.partition import Partition, Topic
from offsetfs.storage import READ_COMMITTED, READ_UNCOMMITTED, LogDirectory, TopicPartition
from offsetfs.storage.errors import UnknownPartition

if TYPE_CHECKING:
    from offsetfs.storage.coordinators import ConsumerGroups

Mode = Literal["r", "a"]
Isolation = Literal["read_uncommitted", "read_committed"]

_log = logging.getLogger(__name__)

_COUNT = "the number of partitions, 1 or more"
_NOTHING: Mapping[str, str] = MappingProxyType({})


def open(
    path: str | bytes | os.PathLike[str],
    mode: Mode = "r",
    *,
    isolation: Isolation = "read_uncommitted",
    settings: Mapping[str, str] = _NOTHING,
) -> Directory:
    """Open the log directory at `path`: "r" to read, also beside a running broker or a mount; "a" to append.

    With "r" nothing at all is written, and no lock is taken. With "a" the directory is locked as a broker locks it, and
    recovered when it was not closed cleanly; it may be empty. `isolation`: whether records of open and aborted
    transactions are shown. `settings`: topic settings by Kafka's names, for topics that say nothing themselves.

    Raises `errors.NotALogDirectory`, `errors.LogDirectoryLocked` (its `pid` is that of the holder),
    `errors.InvalidConfig`, OSError, TypeError, and ValueError for another mode or isolation level.
    """
    path, settings = arguments.path_text("path", path), arguments.topic_settings(settings)
    if mode not in ("r", "a"):
        raise ValueError(f"mode {mode!r} is neither 'r' nor 'a'")
    if isolation not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise ValueError(f"isolation {isolation!r} is neither {READ_UNCOMMITTED} nor {READ_COMMITTED}")
    opened = LogDirectory.open(_attached(path, mode), read_only=mode == "r", defaults=settings)
    for cut in opened.cuts():
        _log.warning("%s, position %d, offset %s: %s", cut.path, cut.position, cut.offset, cut.reason)
    return Directory(opened, is_committed_only=isolation == READ_COMMITTED)


def _attached(path: str, mode: Mode) -> str:
    """Return the path of a log directory; the URL of an archive is one once the archive is attached."""
    if "://" not in path:  # local paths import nothing of it
        return path
    from offsetfs.archive import reading, urls

    if not urls.is_remote(path):
        return path
    if mode == "a":
        raise OSError(errno.EROFS, "an archive is read-only; append to the log directory that is archived", path)
    return reading.attach(path)


@dataclass(frozen=True, slots=True)
class CommittedGroup:
    """A consumer group. `offsets`: the offset at which it continues, by the name of the partition, such as orders-0."""

    name: str
    offsets: Mapping[str, int]


class Directory:
    """An open log directory. Use `offsetfs.open`; every method may be called from any thread."""

    def __init__(self, directory: LogDirectory, *, is_committed_only: bool) -> None:
        self._directory = directory
        self._is_committed_only = is_committed_only
        self._partitions: dict[TopicPartition, Partition] = {}
        self._groups: ConsumerGroups | None = None
        self._mutex = threading.Lock()

    def __repr__(self) -> str:
        return f"<Directory {self.path}, to {'append' if self.is_writable else 'read'}>"

    @property
    def path(self) -> str:
        return self._directory.path

    @property
    def is_writable(self) -> bool:
        return not self._directory.read_only

    def partitions(self, topic: str | None = None) -> list[Partition]:
        """Return all partitions, or those of a topic, sorted; as they are now."""
        if topic is not None:
            arguments.text("topic", topic, "orders")
        return [self._of(partition) for partition in self._directory.partitions() if topic in (None, partition.topic)]

    def partition(self, name: str) -> Partition:
        """Return the partition of that name, such as orders-0. Raises `UnknownPartition`, `InvalidName`."""
        wanted = TopicPartition.parse(arguments.text("name", name, "orders-0"))
        if not self._directory.has(wanted):
            raise UnknownPartition(f"no partition {name}", path=self.path)
        return self._of(wanted)

    def topic(self, name: str) -> Topic:
        """Return the topic of that name with its partitions as they are now. Raises `UnknownPartition`."""
        partitions = self.partitions(arguments.text("name", name, "orders"))
        if not partitions:
            raise UnknownPartition(f"no topic {name}", path=self.path)
        return Topic(name, partitions)

    def topics(self) -> list[Topic]:
        """Return all topics, sorted by name, with their partitions as they are now."""
        found: dict[str, list[Partition]] = {}
        for partition in self.partitions():
            found.setdefault(partition.topic, []).append(partition)
        return [Topic(name, partitions) for name, partitions in sorted(found.items())]

    def groups(self) -> list[CommittedGroup]:
        """Return the consumer groups with commits or members, sorted by name, as they are now.

        Reads `__consumer_offsets`, and later what was appended to it since. A record there that cannot be read is left
        out, with a warning in the log of Python. Raises StorageError, OSError.
        """
        from offsetfs.storage import coordinators  # seldom needed, and slow to import

        with self._mutex:
            if self._groups is None:
                self._groups = coordinators.ConsumerGroups(self._directory, _log.warning)
        self._groups.refresh(bytes_max=sys.maxsize)
        return [
            CommittedGroup(
                name.decode("utf-8", "surrogateescape"),
                MappingProxyType({str(commit.partition): commit.offset for commit in self._groups.commits(name) or ()}),
            )
            for name in self._groups.names()
        ]

    def _of(self, name: TopicPartition) -> Partition:
        with self._mutex:  # one object a partition, for one way into its log
            partition = self._partitions.get(name)
            if partition is None:
                partition = Partition(self._directory, name, is_committed_only=self._is_committed_only)
                self._partitions[name] = partition
            return partition

    def create(self, topic: str, partitions: int = 1, settings: Mapping[str, str] = _NOTHING) -> list[Partition]:
        """Make partitions 0 to N-1 of a topic, and return them; on disk after return. `settings` become the topic's.

        Raises `PartitionExists`, `InvalidName`, `InvalidConfig`, `ReadOnlyLog`, OSError.
        """
        arguments.text("topic", topic, "orders")
        count = arguments.number("partitions", partitions, _COUNT)
        if count < 1:
            raise ValueError(f"partitions is {count}; give {_COUNT}")
        wanted = [TopicPartition(topic, number) for number in range(count)]
        self._directory.create_partitions(wanted, arguments.topic_settings(settings))
        return [self._of(partition) for partition in wanted]

    def sync(self) -> None:
        """Return when everything appended to all partitions is on disk. The first failure is raised after all."""
        self._directory.flush()

    def close(self) -> None:
        """Bring everything to disk, write the checkpoints and the mark of a clean shutdown, release the lock.

        A second call does nothing. Raises what kept a log from being closed; the next writer recovers it.
        """
        self._directory.close()

    def __enter__(self) -> Directory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
