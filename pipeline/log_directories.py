"""The log directories of one query: the `log.dirs` of a broker, or of several brokers, as one set of partitions.

A broker that has several `log.dirs` keeps each partition in one of them. A partition that two of the directories hold
is ambiguous, because its offsets may mean different records: it is refused, unless the query leaves it out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from offsetfs.pipeline.read_options import OptionError
from offsetfs.storage import Log, LogDirectory, TopicPartition


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
        return ",".join(each.path for each in self._directories)

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions that the directories held when they were opened, sorted."""
        return sorted(self._holders)

    def log(self, partition: TopicPartition) -> Log:
        """Return one partition. `OptionError` where two directories hold it; raises as `LogDirectory.log`."""
        holders = self._holders.get(partition, self._directories[:1])
        # A move between disks that was interrupted leaves two copies; their offsets may differ (decision 24).
        if len(holders) > 1:
            raise OptionError(
                f"{partition} is in {holders[0].path} and in {holders[1].path}:"
                " load() one of them, or leave the partition out with the options subscribe or assign"
            )
        return holders[0].log(partition)


@contextlib.contextmanager
def opened(paths: Sequence[str]) -> Iterator[ScanDirectories]:
    """Open log directories for reading, also beside a broker or a mount; raises as `LogDirectory.open`."""
    with contextlib.ExitStack() as ends:
        directories = []
        for path in paths:
            directories.append(LogDirectory.open(path, read_only=True))
            ends.callback(directories[-1].close)
        yield ScanDirectories(directories)
