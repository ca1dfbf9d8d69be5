"""The log directories of one query: the `log.dirs` of a broker, or of several brokers, as one set of partitions.

The URL of an archive in object storage stands for a log directory.

A broker that has several `log.dirs` keeps each partition in one of them. A partition that two of the directories hold
is ambiguous, because its offsets may mean different records: it is refused, unless the query leaves it out.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator, Mapping, Sequence

from offsetfs.archive import urls
from offsetfs.pipeline.read_options import IN_MEMORY, ArchiveAccess, OptionError
from offsetfs.storage import Log, LogDirectory, TopicPartition

_NEVER_S = 1e9
"""A query sees the state in which it opens an archive; manifests are not read again in between."""


class ScanDirectories:
    """The log directories of one query, opened for reading."""

    def __init__(self, directories: Sequence[LogDirectory]) -> None:
        self._directories = directories
        self._holders: dict[TopicPartition, list[LogDirectory]] = {}
        for directory in directories:
            for partition in directory.partitions():
                self._holders.setdefault(partition, []).append(directory)

    @property
    def path(self) -> str:
        """The paths of the directories, for messages."""
        return ",".join(directory.path for directory in self._directories)

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions that the directories held when they were opened, sorted."""
        return sorted(self._holders)

    def log(self, partition: TopicPartition) -> Log:
        """Return one partition. `OptionError` where two directories hold it; raises as `LogDirectory.log`."""
        return self._holder(partition).log(partition)

    def topic_id(self, partition: TopicPartition) -> str | None:
        """Return the topic id of a partition, as Kafka prints it; None if there is none. Raises as `log`."""
        topic_id = self._holder(partition).topic_id(partition)
        return None if topic_id is None else base64.urlsafe_b64encode(topic_id).decode().rstrip("=")

    def _holder(self, partition: TopicPartition) -> LogDirectory:
        holders = self._holders.get(partition, self._directories[:1])
        # A move between disks that was interrupted leaves two copies; their offsets may differ.
        if len(holders) > 1:
            raise OptionError(
                f"{partition} is in {holders[0].path} and in {holders[1].path}:"
                " load() one of them, or leave the partition out with the options subscribe or assign"
            )
        return holders[0]


@contextlib.contextmanager
def opened(
    paths: Sequence[str], access: ArchiveAccess = IN_MEMORY, *, ends: Mapping[TopicPartition, int] | None = None
) -> Iterator[ScanDirectories]:
    """Open log directories and archives for reading, also beside a broker or a mount; raises as `LogDirectory.open`.

    An archive is in the state that it has now. With `ends` it may be in the state of an earlier call in this process,
    if each of these partitions has all records before its offset there: a task needs no newer one.
    """
    with contextlib.ExitStack() as stack:
        directories = []
        for path in paths:
            make_readable(path, access, ends=ends)
            directories.append(LogDirectory.open(path, read_only=True))
            stack.callback(directories[-1].close)
        yield ScanDirectories(directories)


def make_readable(
    path: str, access: ArchiveAccess = IN_MEMORY, *, ends: Mapping[TopicPartition, int] | None = None
) -> None:
    """Let this process read an archive under its URL; without effect for a directory. `ends`: as of `opened`.

    Each process has connections of its own: none is inherited by a fork.
    """
    if not urls.is_remote(path):
        return
    from offsetfs.archive import reading

    settings = reading.ReadSettings(
        cache=access.cache,
        cache_size=access.cache_bytes_max if access.cache else 0,
        timeout_s=access.timeout_s,
        refresh_s=_NEVER_S,
    )
    if ends is None or not reading.is_attached(path) or not _has(path, ends):
        reading.detach(path)
        reading.attach(path, settings)


def _has(path: str, ends: Mapping[TopicPartition, int]) -> bool:
    """Whether an attached archive has all records before these offsets; partitions that it does not have count not."""
    with contextlib.closing(LogDirectory.open(path, read_only=True)) as directory:
        present = set(directory.partitions())
        return all(
            directory.log(partition).next_offset >= end for partition, end in ends.items() if partition in present
        )
