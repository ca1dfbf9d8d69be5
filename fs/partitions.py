"""The partitions that a mount has seen, numbered in the order of first sight; numbers are never given again."""

from __future__ import annotations

import errno
import logging
import math
import os
from dataclasses import dataclass

import trio

from offsetfs.fs.inodes import NUMBER_MAX, Kind, pack
from offsetfs.fs.shared import Shared
from offsetfs.storage.errors import InvalidName
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.isolation import LogView
from offsetfs.storage.partition.log import Log
from offsetfs.storage.segments.segment_map import Segments
from offsetfs.storage.views.line_index_cache import LineIndexCache

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What it depends on where the newest `count` records begin."""

    segments: Segments
    start_offset: int
    end_offset: int
    count: int


class Partition:
    """A partition with its number and, once something in it was asked for, its log."""

    def __init__(self, shared: Shared, number: int, name: TopicPartition) -> None:
        self.number = number
        self.name = name
        self.anchor = 0
        self.map_cache: LineIndexCache | None = None
        """Where view maps are kept of a log that may not be written to. Of an open partition."""
        self.listed: tuple[Bounds, int] | None = None
        """The offset at which the last listing began. Finding it walks over headers, and over what is damaged."""
        self.named_at = -math.inf
        """When the kernel was last told the name of a record, on trio's clock."""
        self._shared = shared
        self._log: Log | None = None
        self._was_removed = False
        self._seen = Segments()
        self._replacements = 0
        self._view: LogView | None = None
        self._opening = trio.Lock()

    @property
    def path(self) -> str:
        """Where the partition's files are: that of its log once it is open, else in the first directory that
        holds it. FileNotFoundError when none does."""
        if self._log is not None:
            return self._log.path
        having = (each for each in self._shared.directory.directories if each.has(self.name))
        directory = next(having, None)
        if directory is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.name))
        return os.path.join(directory.path, str(self.name))

    @property
    def log(self) -> Log:
        """The log, which `open` has opened."""
        assert self._log is not None
        return self._log

    @property
    def view(self) -> LogView:
        """The log as this mount's isolation level shows it."""
        assert self._view is not None
        return self._view

    @property
    def is_gone(self) -> bool:
        """Whether the log below was deleted or made anew: its name stands for another partition then."""
        return self._was_removed or (self._log is not None and self._log.is_gone)

    @property
    def state(self) -> tuple[int, int, bool]:
        """What readers wait for to change: log start, log end, and whether the partition is gone."""
        return self.log.log_start_offset, self.log.next_offset, self.is_gone

    def refresh(self) -> None:
        """Look at the files of the log, which is open."""
        self.log.refresh()

    def removed(self) -> None:
        """Take note that the partition was deleted, which a log that was never opened could not tell."""
        self._was_removed = True

    @property
    def source(self) -> tuple[int, int]:
        """Names what is read from the log: another one after each compaction, lest caches show what it removed."""
        snapshot = self.log.snapshot()
        if snapshot is not self._seen:
            self._replacements += has_replaced(self._seen, snapshot)
            self._seen = snapshot
        return self.number, self._replacements

    async def open(self) -> None:
        """Open the log, in a thread; what is wrong with it is raised here, each time. ESTALE when it is gone.

        Offsets in inode numbers count from the base offset of the first segment as it is now.
        """
        async with self._opening:
            if self._log is None:
                log = await self._shared.in_thread(lambda: self._shared.directory.log(self.name))
                self.anchor = min(log.snapshot().first.base_offset, log.log_start_offset)
                self._view = LogView(
                    log, is_committed_only=self._shared.options.is_committed_only, on_damage=self._shared.damaged
                )
                cache = self._shared.options.cache_directory
                self.map_cache = LineIndexCache(cache, log) if cache is not None and log.read_only else None
                self._log = log

    async def recover(self) -> None:
        """Recover the log first where that failed, so that it can be appended to. Raises what prevents it.

        The log of this partition is gone after that: the kernel asks for its names again.
        """
        if self.log.unrecovered is not None and not self.is_gone:
            await self._shared.in_thread(lambda: self._shared.directory.writable_log(self.name))
            _log.info("%s: recovered, takes writes again", self.name)

    def inode(self, kind: Kind, number: int) -> int:
        return pack(kind, self.number, number)

    def offset_inode(self, kind: Kind, offset: int) -> int:
        """Return the inode number of something that an offset names; OverflowError 10¹² records after the first."""
        return pack(kind, self.number, offset - self.anchor)

    def has_inode(self, offset: int) -> bool:
        """Whether `offset_inode` has a number for that offset."""
        return 0 <= offset - self.anchor <= NUMBER_MAX


def has_replaced(old: Segments, new: Segments) -> bool:
    """Whether `new` has other segments than `old` has where both hold offsets: those that follow the old are growth."""
    if not len(old):
        return False
    known, end = {id(segment) for segment in old}, old.active.base_offset
    return any(id(segment) not in known for segment in new if segment.base_offset <= end)


class Partitions:
    """All partitions seen so far, by number (from 1 on) and by name."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._seen: list[Partition] = []
        self._by_name: dict[TopicPartition, Partition] = {}

    def numbered(self, number: int) -> Partition | None:
        return self._seen[number - 1] if 0 < number <= len(self._seen) else None

    def find(self, name: bytes) -> Partition | None:
        """Return the partition of that name, None when the log directory has none."""
        try:
            parsed = TopicPartition.parse(name.decode("ascii", "replace"))
        except InvalidName:
            return None
        return self.of(parsed) if self._shared.directory.has(parsed) else None

    def of(self, name: TopicPartition) -> Partition:
        partition = self._by_name.get(name)
        if partition is None or partition.is_gone:
            partition = self._by_name[name] = Partition(self._shared, len(self._seen) + 1, name)
            self._seen.append(partition)
        return partition

    def seen(self, name: TopicPartition) -> Partition | None:
        """Return the partition of that name when somebody has asked for it, and it is there."""
        partition = self._by_name.get(name)
        return None if partition is None or partition.is_gone else partition

    def refresh(self) -> list[Partition]:
        """Look at the log directory; return the partitions in it by number."""
        return sorted(map(self.of, self._shared.directory.partitions()), key=lambda partition: partition.number)
