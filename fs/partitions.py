"""The partitions of a mount, numbered in order of first access; numbers are never reused."""

from __future__ import annotations

import errno
import logging
import math
import os
from dataclasses import dataclass

import trio

from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.inodes import NUMBER_MAX, pack, unpack
from offsetfs.fs.naming.tree_table import IN_PARTITION, Kind
from offsetfs.storage import Log, LogView, TopicPartition
from offsetfs.storage.errors import StorageError
from offsetfs.storage.segments import Segments
from offsetfs.storage.views import LineIndexCache

_log = logging.getLogger(__name__)


_OFFSET = "<offset>"
_PATTERNS: dict[int, str] = {
    kind: kind.spec.paths[-1].removeprefix(IN_PARTITION).partition("/<")[0].strip("/") for kind in Kind
}
"""The last path of each kind up to its first part that varies, below the directory of the partition."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The inputs that determine where the newest `count` records begin; a cache key."""

    segments: Segments
    start_offset: int
    end_offset: int
    count: int


class MountedPartition:
    """A partition with its number and, after the first access, its log."""

    def __init__(self, mount: MountContext, number: int, name: TopicPartition) -> None:
        self.number = number
        self.name = name
        self.anchor = 0
        self.topic_id: bytes | None = None
        """The id of the topic; None where the partition has none, as one of Kafka below 2.8. Read by `open`."""
        self.line_index_cache: LineIndexCache | None = None
        """The cache of line indexes of a read-only log. Set when the partition is open."""
        self.listed: tuple[Bounds, int] | None = None
        """The offset at which the last listing began. Finding it reads batch headers and skips damage."""
        self.named_at = -math.inf
        """The time at which the kernel last got the name of a record, on trio's clock."""
        self._mount = mount
        self._log: Log | None = None
        self._was_removed = False
        self._seen = Segments()
        self._replacements = 0
        self._view: LogView | None = None
        self._opening = trio.Lock()

    @property
    def path(self) -> str:
        """The directory of the partition: that of its open log, else that in the first log directory with it.

        FileNotFoundError if none has it.
        """
        if self._log is not None:
            return self._log.path
        having = (directory for directory in self._mount.directory.directories if directory.has(self.name))
        directory = next(having, None)
        if directory is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.name))
        return os.path.join(directory.path, str(self.name))

    @property
    def log(self) -> Log:
        """The log, after `open`."""
        assert self._log is not None
        return self._log

    @property
    def view(self) -> LogView:
        """The log with this mount's isolation level."""
        assert self._view is not None
        return self._view

    @property
    def is_gone(self) -> bool:
        """Whether the log was deleted or recreated: the name then belongs to another partition."""
        return self._was_removed or (self._log is not None and self._log.is_gone)

    @property
    def state(self) -> tuple[int, int, bool]:
        """The state whose change readers wait for: log start offset, next offset, and whether the partition is gone."""
        return self.log.log_start_offset, self.log.next_offset, self.is_gone

    def refresh(self) -> None:
        """Read the current state of the log's files. The log must be open."""
        self.log.refresh()

    def removed(self) -> None:
        """Record that the partition was deleted: a log that was never opened has no state for that."""
        self._was_removed = True

    @property
    def source(self) -> tuple[int, int]:
        """The cache key of the log. It changes with each compaction, so that no cache returns removed records."""
        snapshot = self.log.snapshot()
        if snapshot is not self._seen:
            self._replacements += has_replaced(self._seen, snapshot)
            self._seen = snapshot
        return self.number, self._replacements

    async def open(self) -> None:
        """Open the log in a thread. Raises the errors of the log at each call; ESTALE if it is gone.

        Offsets in inode numbers count from the current base offset of the first segment.
        """
        async with self._opening:
            if self._log is None:
                log = await self._mount.executor.in_thread(lambda: self._mount.directory.log(self.name))
                self.anchor = min(log.snapshot().first.base_offset, log.log_start_offset)
                self._view = LogView(
                    log, is_committed_only=self._mount.options.is_committed_only, on_damage=self._mount.damage.report
                )
                cache = self._mount.options.cache_directory
                self.line_index_cache = LineIndexCache(cache, log) if cache is not None and log.read_only else None
                self.topic_id = await self._mount.executor.in_thread(self._topic_id)
                self._log = log

    def _topic_id(self) -> bytes | None:
        try:
            return self._mount.directory.directory_of(self.name).topic_id(self.name)
        except (StorageError, OSError):
            return None  # `verify` reports a damaged one

    async def recover(self) -> None:
        """Recover the log if its recovery failed, so that it accepts appends. Raises the error that prevents this.

        The log of this object is gone after that: the kernel looks the names up again.
        """
        if self.log.unrecovered is not None and not self.is_gone:
            await self._mount.executor.in_thread(lambda: self._mount.directory.writable_log(self.name))
            _log.info("%s: recovered, accepts writes again", self.name)

    def inode(self, kind: Kind, number: int = 0) -> int:
        return pack(kind, self.number, number)

    def offset_inode(self, kind: Kind, offset: int) -> int:
        """Return the inode number of a file that is named by an offset. OSError EOVERFLOW 10¹² after the first."""
        return pack(kind, self.number, offset - self.anchor)

    def has_inode(self, offset: int) -> bool:
        """Whether `offset_inode` has a number for that offset."""
        return 0 <= offset - self.anchor <= NUMBER_MAX


def has_replaced(old: Segments, new: Segments) -> bool:
    """Whether a segment of `old` was replaced in `new`. Segments behind the end of `old` are growth."""
    if not len(old):
        return False
    known, end = {id(segment) for segment in old}, old.active.base_offset
    return any(id(segment) not in known for segment in new if segment.base_offset <= end)


class Partitions:
    """All partitions that were accessed, by number (from 1 on) and by name."""

    def __init__(self, mount: MountContext) -> None:
        self._mount = mount
        self._seen: list[MountedPartition] = []
        self._by_name: dict[TopicPartition, MountedPartition] = {}

    def numbered(self, number: int) -> MountedPartition | None:
        return self._seen[number - 1] if 0 < number <= len(self._seen) else None

    def find(self, name: bytes) -> MountedPartition | None:
        """Return the partition with that name, None if the log directory has none."""
        parsed = TopicPartition.parse_or_none(name.decode("ascii", "replace"))
        return self.of(parsed) if parsed is not None and self._mount.directory.has(parsed) else None

    def of(self, name: TopicPartition) -> MountedPartition:
        partition = self._by_name.get(name)
        if partition is None or partition.is_gone:
            partition = self._by_name[name] = MountedPartition(self._mount, len(self._seen) + 1, name)
            self._seen.append(partition)
        return partition

    def removed(self, name: TopicPartition) -> None:
        """Record that a partition was deleted."""
        partition = self._by_name.get(name)
        if partition is not None:
            partition.removed()

    def seen(self, name: TopicPartition) -> MountedPartition | None:
        """Return the partition with that name if it was accessed before and exists."""
        partition = self._by_name.get(name)
        return None if partition is None or partition.is_gone else partition

    def refresh(self) -> list[MountedPartition]:
        """Read the log directory; return its partitions, ordered by number."""
        return sorted(map(self.of, self._mount.directory.partitions()), key=lambda partition: partition.number)

    def path_of(self, inode: int, name: bytes = b"") -> str:
        """Return the path of an inode below the mount point, for messages; with `name` appended. A minus for the root.

        An inode number does not contain a whole name. For files that are found by a time, a key or a range the result
        is only the directory, for a segment's file `segments`.
        """
        kind, partition, number = unpack(inode)
        known = self.numbered(partition)
        parts = ["" if known is None else str(known.name), _path_within(kind, number, known)]
        parts.append(name.decode("utf-8", "backslashreplace"))
        return "/".join(part for part in parts if part) or "-"


def _path_within(kind: int, number: int, partition: MountedPartition | None) -> str:
    """Return the path below the mount point or the directory of the partition."""
    pattern = _PATTERNS.get(kind, "")
    if _OFFSET not in pattern:
        return pattern
    return "" if partition is None else pattern.replace(_OFFSET, str(partition.anchor + number))
