"""Links of a topic to records of its partitions: `first`, `latest` and the calendar `by-time`.

    topics/orders/latest                 → ../../orders-1/42
    topics/orders/by-time/-15m           → ../../../orders-1/40, of any partition the first record at or after that time
    topics/orders/by-time/2026/11/21/13  the minutes that have records in any partition
    topics/orders/decoded/latest         → ../../../orders-1/decoded/42, and the same for the others

In each partition the first record at or after a time is that of its own `by-time`. Of these the oldest counts, of equal
ones that of the lowest partition. `first` and `latest` are the first and the last record of the topic's `range/` and
`last/` (see `topic_ranges`).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from offsetfs.common.quantities import parse_time, unreadable_time
from offsetfs.fs.attributes import milliseconds_ns
from offsetfs.fs.files.topic_ranges import TopicRanges
from offsetfs.fs.fuse_types import EntryAttributes
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.grammar import EVERYTHING, Level, Span, listed_children
from offsetfs.fs.naming.inodes import PermanentNumbers, pack
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.nodes import Listing, ShortListing
from offsetfs.fs.partitions import MountedPartition
from offsetfs.storage import TopicPartition
from offsetfs.storage.views import first_offset, record_rows

_DEPTHS = (2, 3, 7)  # directories between the link and the root: first and latest, by-time/<T>, by-time/<minute>
AT_TOPIC, AT_TIME, AT_MINUTE = range(len(_DEPTHS))


class TopicLinks:
    """The links of a topic to records of one partition. `number`: (offset less anchor) × 4, plus the depth's index."""

    def __init__(
        self, mount: MountContext, partition: MountedPartition, kind: Kind = Kind.TOPIC_LINK, folder: str = ""
    ) -> None:
        """`folder`: in that of the topic, and in that of the partition."""
        self._mount = mount
        self._partition = partition
        self._kind = kind
        self._folder = folder

    def entry(self, offset: int, depth: int) -> EntryAttributes:
        """Return the attributes of a link to `offset`. OSError EOVERFLOW 2³⁸ offsets after the first."""
        number = (offset - self._partition.anchor) * 4 + depth
        return self._mount.attributes.link(self._partition.inode(self._kind, number), self.target(number))

    async def attributes(self, number: int) -> EntryAttributes:
        return self._mount.attributes.link(self._partition.inode(self._kind, number), self.target(number))

    def target(self, number: int) -> bytes:
        above, depth = divmod(number, 4)
        up, offset = "../" * (_DEPTHS[depth] + self._folder.count("/")), self._partition.anchor + above
        return f"{up}{self._partition.name}/{self._folder}{offset}".encode()


LinksOf = Callable[[TopicPartition], Awaitable[tuple[MountedPartition, TopicLinks]]]
"""Returns a partition, opening it, with its links."""


class TopicTimes:
    """`by-time` of all topics and everything below it, `first` and `latest`. `number`: of topic and span."""

    def __init__(
        self,
        mount: MountContext,
        partitions: Callable[[int], list[TopicPartition]],
        links_of: LinksOf,
        ranges: TopicRanges,
        now: Callable[[], float] = time.time,
        *,
        kind: Kind = Kind.TOPIC_TIMES,
    ) -> None:
        self._kind = kind
        self._mount = mount
        self._partitions = partitions
        self._links_of = links_of
        self._ranges = ranges
        self._now = now
        self._spans: PermanentNumbers[tuple[int, Span]] = PermanentNumbers()

    # --- ends ------------------------------------------------------------------------------------------------------

    async def first(self, topic: int) -> EntryAttributes | None:
        """Return the link to the oldest record of a topic. None if there is none."""
        found: list[tuple[int, EntryAttributes]] = []
        for partition, links in await self._opened(topic):
            offset = await self._mount.executor.answer(first_offset, partition.view)
            if offset is not None:
                timestamp = await self._mount.executor.in_thread(partial(self._timestamp, partition, offset))
                found.append((timestamp, links.entry(offset, AT_TOPIC)))
        return min(found, key=lambda pair: pair[0])[1] if found else None

    def _timestamp(self, partition: MountedPartition, offset: int) -> int:
        rows = record_rows(partition.view, offset, offset + 1, self._mount.damage.report)
        return next((row.timestamp for row in rows), 0)

    async def latest(self, topic: int) -> EntryAttributes | None:
        """Return the link to the newest record of a topic. None if there is none."""
        newest = await self._ranges.newest(topic)
        if newest is None:
            return None
        name, offset = newest
        return (await self._links_of(name))[1].entry(offset, AT_TOPIC)

    # --- calendar --------------------------------------------------------------------------------------------------

    async def root(self, topic: int) -> EntryAttributes:
        """Return the entry of `by-time`."""
        return self._directory(topic, EVERYTHING)

    async def attributes(self, number: int) -> EntryAttributes:
        return self._directory(*self._spans.at(number))

    def _directory(self, topic: int, span: Span) -> EntryAttributes:
        mtime_ns = 0 if span.level == Level.ALL else milliseconds_ns(span.start)
        inode = pack(self._kind, 0, self._spans.of((topic, span)))
        return self._mount.attributes.directory(inode, mtime_ns)

    async def _opened(self, topic: int) -> list[tuple[MountedPartition, TopicLinks]]:
        return [await self._links_of(name) for name in self._partitions(topic)]

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        topic, span = self._spans.at(number)
        child = span.child(name)
        if child is not None and child.level < Level.MINUTE:
            found = await self._find(topic, child.start)
            # A directory without records has no number, so that names that are tried take no memory.
            return self._directory(topic, child) if found is not None and found[1] < child.end else None
        if child is not None:
            return await self._link(topic, child.start, AT_MINUTE)
        if span.level != Level.ALL or name.startswith(b"."):  # programs look for hidden files everywhere
            return None
        timestamp = parse_time(name, int(self._now() * 1000))
        if timestamp is None:
            raise unreadable_time(name)
        return await self._link(topic, timestamp, AT_TIME)

    async def _link(self, topic: int, timestamp: int, depth: int) -> EntryAttributes | None:
        found = await self._find(topic, timestamp)
        if found is None:
            return None
        (links, offset), _ = found
        return links.entry(offset, depth)

    async def _find(self, topic: int, timestamp: int) -> tuple[tuple[TopicLinks, int], int] | None:
        opened = await self._opened(topic)
        return await self._mount.executor.in_thread(lambda: _first_of(opened, timestamp))

    async def listing(self, number: int) -> Listing:
        topic, span = self._spans.at(number)
        opened = await self._opened(topic)
        children = await self._mount.executor.in_thread(
            lambda: list(listed_children(span, lambda timestamp: _first_of(opened, timestamp)))
        )
        return ShortListing(
            [
                (
                    child.name,
                    links.entry(offset, AT_MINUTE) if child.level == Level.MINUTE else self._directory(topic, child),
                )
                for child, (links, offset) in children
            ]
        )


def _first_of(
    opened: Sequence[tuple[MountedPartition, TopicLinks]], timestamp: int
) -> tuple[tuple[TopicLinks, int], int] | None:
    """Return the oldest of the first records at or after a time of each partition, and its timestamp."""
    found = [
        ((links, first[0]), first[1])
        for partition, links in opened
        if (first := partition.view.find_timestamp(timestamp)) is not None
    ]
    return min(found, key=lambda pair: pair[1], default=None)
