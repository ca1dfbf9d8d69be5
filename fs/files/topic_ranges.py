"""`topics/<topic>/range/A..B` and `last/N`: records of all partitions of a topic, in the order of their timestamps.

    topics/orders/range/-2d..-1d           the values of the records from two days to one day ago; A and B are times
    topics/orders/range/-15m...ndjson      with .ndjson: lines as in records.ndjson
    topics/orders/last/1000                the newest thousand records of the topic

Each look-up cuts a range out of each partition (`ranges`), and returns the inode of that combination. Its size is the
sum of theirs, and it never changes. Reading merges the lines of the partitions (storage.views.merged_lines): by
timestamp, then partition, then offset, where the offsets of a partition stay in order. A read holds one batch of each
partition. Bytes far behind the last read are reached by merging, so `tail` reads all of it.

An offset belongs to one partition: EINVAL. EAGAIN as for `ranges`.
"""

from __future__ import annotations

import errno
import functools
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import trio

from offsetfs.fs.attributes import FOREVER_S, PREFERRED_READ_BYTES
from offsetfs.fs.files.line_index_building import WAIT_S
from offsetfs.fs.files.ranges import FrozenRange, RangeFiles
from offsetfs.fs.fuse_types import EntryAttributes, FUSEError
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.grammar import (
    NDJSON_SUFFIX,
    RangeName,
    parse_last,
    parse_range,
    unreadable_range,
)
from offsetfs.fs.naming.inodes import LookupNumbers, pack
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.nodes import Buffer, Listing, Opened, Opening, ShortListing
from offsetfs.fs.reporting.error_log import Fault
from offsetfs.storage import TopicPartition
from offsetfs.storage.views import LineMerge, newest_starts

RangesOf = Callable[[TopicPartition], Awaitable[RangeFiles]]
"""Returns the ranges of a partition, opening it."""

AHEAD_BYTES = 256 << 10
"""Bytes that are merged at once for a sequential reader."""

_DIRECTORIES = tuple(name.decode() for name in Kind.TOPIC_RANGES.file_names)  # number: the topic's × 2, plus the index


@dataclass(frozen=True, slots=True)
class TopicRange:
    """The frozen ranges of the partitions, in partition order."""

    parts: tuple[FrozenRange, ...]

    @property
    def size(self) -> int:
        return sum(part.view.size for part in self.parts)


class TopicRanges:
    """The ranges of all topics that were looked up. `number`: from `LookupNumbers`."""

    def __init__(
        self,
        mount: MountContext,
        partitions: Callable[[int], list[TopicPartition]],
        ranges_of: RangesOf,
        now: Callable[[], float] = time.time,
        *,
        kinds: tuple[Kind, Kind] = (Kind.TOPIC_RANGES, Kind.TOPIC_RANGE),
        folder: str = "",
    ) -> None:
        """`partitions` returns the partitions of the topic with a number, in order.

        `kinds`: of the directories and of the files; `folder`: in that of the topic.
        """
        self._kind = kinds[1]
        self._folder = folder
        self.lookups: LookupNumbers[TopicRange] = LookupNumbers()
        self.directories = TopicRangeDirectories(mount, self, kinds[0])
        self._mount = mount
        self._partitions = partitions
        self._ranges_of = ranges_of
        self._now = now

    async def find_range(self, topic: int, name: bytes) -> EntryAttributes | None:
        """Return the entry of `range/<name>`. None if the name is no range."""
        parsed = parse_range(name, int(self._now() * 1000))
        if parsed is None:
            if b".." in name[1:] or name.endswith(NDJSON_SUFFIX):
                raise unreadable_range(name)
            return None
        partitions = self._partitions(topic)
        if not partitions:
            return None
        if any(point is not None and not point.is_time for point in (parsed.start, parsed.end)):
            raise OSError(
                errno.EINVAL,
                f"an offset belongs to one partition; write {partitions[0]}/{self._folder}range/{name.decode()}, or "
                f"for the topic times, such as range/-1h..",
            )
        return await self._look_up(partitions, f"range/{name.decode()}", functools.partial(self._cut, parsed))

    async def find_last(self, topic: int, name: bytes) -> EntryAttributes | None:
        """Return the entry of `last/<name>`. None if the name is not a number."""
        parsed, partitions = parse_last(name), self._partitions(topic)
        if parsed is None or not partitions:
            return None
        return await self._look_up(partitions, f"last/{name.decode()}", functools.partial(self._newest, *parsed))

    async def newest(self, topic: int) -> tuple[TopicPartition, int] | None:
        """Return the newest record of a topic: its partition and offset. None if there is none."""
        files = [await self._ranges_of(partition) for partition in self._partitions(topic)]
        starts, ends = await self._newest_starts(files, 1)
        return next(
            ((file.partition.name, start) for file, start, end in zip(files, starts, ends, strict=True) if start < end),
            None,
        )

    async def _look_up(
        self,
        partitions: list[TopicPartition],
        name: str,
        cut: Callable[[list[RangeFiles]], Awaitable[list[tuple[int, int, bool]]]],
    ) -> EntryAttributes:
        """Return the entry of the ranges that `cut` selects. EAGAIN if they cannot be measured within ten seconds."""
        parts: list[FrozenRange] = []
        path = f"topics/{partitions[0].topic}/{self._folder}{name}"
        with trio.move_on_after(WAIT_S):
            files = [await self._ranges_of(partition) for partition in partitions]
            for file, (start, end, is_json) in zip(files, await cut(files), strict=True):
                parts.append(await file.frozen(path, start, end, is_json))
        if len(parts) < len(partitions):
            cause = f"{len(parts)} of {len(partitions)} partitions are measured, {partitions[len(parts)]} is next"
            self._mount.error_log.report(Fault(errno.EAGAIN, "lookup", path, cause, "ask again, or for less"))
            raise FUSEError(errno.EAGAIN)
        return await self.attributes(self.lookups.look_up(TopicRange(tuple(parts))))

    async def _cut(self, parsed: RangeName, files: list[RangeFiles]) -> list[tuple[int, int, bool]]:
        return [(*await file.clipped(parsed), parsed.is_json) for file in files]

    async def _newest(self, count: int, is_json: bool, files: list[RangeFiles]) -> list[tuple[int, int, bool]]:
        starts, ends = await self._newest_starts(files, count)
        return [(min(start, end), end, is_json) for start, end in zip(starts, ends, strict=True)]

    async def _newest_starts(self, files: list[RangeFiles], count: int) -> tuple[list[int], list[int]]:
        """Return from where on the partitions together have `count` records, and the ends of the partitions."""
        views, ends = [file.partition.view for file in files], [(await file.bounds())[1] for file in files]
        find = functools.partial(newest_starts, views, ends, count, self._mount.damage.report)
        return await self._mount.executor.in_thread(find), ends

    async def attributes(self, number: int) -> EntryAttributes:
        cut = self.lookups.at(number)
        entry = self._mount.attributes.file(
            pack(self._kind, 0, number),
            cut.size,
            max(part.mtime_ns for part in cut.parts),
            attr_timeout_s=FOREVER_S,
        )
        entry.st_blksize = PREFERRED_READ_BYTES
        return entry

    async def open(self, number: int, opening: Opening) -> Opened:
        # Past the page cache: its read-ahead asks for several places at once, and merging goes forward only.
        return Opened(MergedHandle(self._mount, self.lookups.at(number)), direct=True)


class MergedHandle:
    """An open range of a topic."""

    def __init__(self, mount: MountContext, cut: TopicRange) -> None:
        self._mount = mount
        self._size = cut.size
        self._merge = LineMerge([part.view for part in cut.parts], [part.start for part in cut.parts])
        self._lock = trio.Lock()
        self._start = 0  # the position of `_block`
        self._block = b""

    async def read(self, position: int, size: int) -> Buffer:
        size = min(size, self._size - position)
        if size <= 0:
            return b""
        async with self._lock:
            end = self._start + len(self._block)
            if not (self._start <= position and position + size <= end):
                is_sequential = position == end > 0
                wanted = min(max(size, AHEAD_BYTES if is_sequential else 0), self._size - position)
                self._block = await self._mount.executor.in_thread(
                    functools.partial(self._merge.read, position, wanted)
                )
                self._start = position
                if len(self._block) < wanted:
                    raise OSError(errno.EIO, "records of the range cannot be read any more")
            return memoryview(self._block)[position - self._start :][:size]

    async def release(self) -> None:
        self._merge.close()


class TopicRangeDirectories:
    """`topics/<topic>/range` and `last`; listings are empty. `number`: that of the topic × 2, plus 1 for `last`."""

    def __init__(self, mount: MountContext, ranges: TopicRanges, kind: Kind) -> None:
        self._mount = mount
        self._kind = kind
        self._finds = {"range": ranges.find_range, "last": ranges.find_last}

    async def entry(self, topic: int, name: str) -> EntryAttributes:
        """Return the entry of the directory with this name."""
        return await self.attributes(topic * len(_DIRECTORIES) + _DIRECTORIES.index(name))

    async def attributes(self, number: int) -> EntryAttributes:
        return self._mount.attributes.directory(pack(self._kind, 0, number))

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        topic, which = divmod(number, len(_DIRECTORIES))
        return await self._finds[_DIRECTORIES[which]](topic, name)

    async def listing(self, number: int) -> Listing:
        return ShortListing([])
