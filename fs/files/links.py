"""Symbolic links to records: `first`, `latest`, and `by-time`, a calendar of the records. UTC throughout.

    by-time/2026/11/21/13/05          symlink to the first record at or after that minute
    by-time/2026-11-21T13:05:07Z      the same for any time that `quantities.parse_time` accepts, never listed

A link's inode number encodes the offset of its target, so a link never changes. When a record is appended, the name
`latest` gets another inode. The kernel looks each name up again, and caches targets without a time limit.

"First" is in offset order, as in Kafka's ListOffsets. A directory lists a minute (hour, day, …) if the first record
at or after its start is before its end. If timestamps are out of order, a minute with only a late record may be missing
from the listing; it can still be opened by name, as any time up to that of the last record.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from offsetfs.common.quantities import MINUTE_MS, parse_time, unreadable_time
from offsetfs.fs.attributes import milliseconds_ns
from offsetfs.fs.fuse_types import EntryAttributes
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.grammar import EVERYTHING, Level, Span, listed_children
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.nodes import Listing, ShortListing
from offsetfs.fs.partitions import MountedPartition
from offsetfs.storage.views import first_offset, last_offset

DEPTH = {Kind.LINK: 0, Kind.TIME_LINK: 1, Kind.MINUTE_LINK: 5}
"""The number of directories between each kind of link and the partition's directory."""

_LEVELS = 4  # year, month, day and hour have two bits of a number


class OffsetLinks:
    """Links of one kind to records. `number`: the offset less the partition's anchor."""

    def __init__(self, mount: MountContext, partition: MountedPartition, kind: Kind) -> None:
        self._mount = mount
        self._partition = partition
        self._kind = kind

    def entry(self, offset: int) -> EntryAttributes:
        """Return the attributes of a link to `offset`."""
        inode = self._partition.offset_inode(self._kind, offset)
        return self._mount.attributes.link(inode, self.target(offset - self._partition.anchor))

    async def attributes(self, number: int) -> EntryAttributes:
        return self.entry(self._partition.anchor + number)

    def target(self, number: int) -> bytes:
        return b"../" * DEPTH[self._kind] + b"%d" % (self._partition.anchor + number)


class EndLinks:
    """`first` and `latest` of one partition: absent if it has no record.

    After a change of the log the next look-up searches again, which reads a batch.
    """

    def __init__(self, mount: MountContext, partition: MountedPartition, links: OffsetLinks) -> None:
        self._mount = mount
        self._log = partition.log
        self._view = partition.view
        self._links = links
        self._first: tuple[object, int | None] = ((), None)
        self._latest: tuple[object, int | None] = ((), None)

    async def first(self) -> EntryAttributes | None:
        state = self._state()
        if self._first[0] != state:
            self._first = state, await self._mount.executor.answer(first_offset, self._view)
        return self._entry(self._first[1])

    async def latest(self) -> EntryAttributes | None:
        state = self._state()
        if self._latest[0] != state:
            self._latest = state, await self._mount.executor.answer(last_offset, self._view)
        return self._entry(self._latest[1])

    def _state(self) -> object:
        return self._log.log_start_offset, self._log.next_offset, self._log.snapshot()

    def _entry(self, offset: int | None) -> EntryAttributes | None:
        return None if offset is None else self._links.entry(offset)


class TimeDirectories:
    """`by-time` and everything below it. `number` of a year, month, day or hour: minutes since 1970 × 4 + level - 1."""

    def __init__(
        self,
        mount: MountContext,
        partition: MountedPartition,
        links: OffsetLinks,
        minute_links: OffsetLinks,
        now: Callable[[], float] = time.time,
        *,
        kinds: tuple[Kind, Kind] = (Kind.BY_TIME, Kind.TIME_DIRECTORY),
    ) -> None:
        """`kinds`: of the root, and of the directories below it."""
        self._root, self._below = kinds
        self._mount = mount
        self._partition = partition
        self._links = links
        self._minute_links = minute_links
        self._now = now

    def root(self) -> EntryAttributes:
        return self._mount.attributes.directory(self._partition.inode(self._root))

    async def attributes(self, number: int) -> EntryAttributes:
        return self._directory(self._span(number))

    def _directory(self, span: Span) -> EntryAttributes:
        if span.level == Level.ALL:
            return self.root()
        inode = self._partition.inode(self._below, span.start // MINUTE_MS * _LEVELS + span.level - 1)
        return self._mount.attributes.directory(inode, milliseconds_ns(span.start))

    def _entry(self, span: Span, offset: int) -> EntryAttributes:
        return self._minute_links.entry(offset) if span.level == Level.MINUTE else self._directory(span)

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        span = self._span(number)
        child = span.child(name)
        if child is not None:
            offset = await self._find(child.start)
            return None if offset is None else self._entry(child, offset)
        if span.level != Level.ALL or name.startswith(b"."):  # programs look for hidden files everywhere
            return None
        timestamp = parse_time(name, int(self._now() * 1000))
        if timestamp is None:
            raise unreadable_time(name)
        offset = await self._find(timestamp)
        return None if offset is None else self._links.entry(offset)

    async def _find(self, timestamp: int) -> int | None:
        source = self._partition.source
        record = await self._mount.executor.answer(self._partition.view.find_record, timestamp)
        if record is None:
            return None
        self._mount.caches.batches.keep(source, record.batch)  # the reader that follows the link needs it next
        return record.offset

    async def listing(self, number: int) -> Listing:
        span = self._span(number)
        find = self._partition.view.find_timestamp
        children = await self._mount.executor.in_thread(lambda: list(listed_children(span, find)))
        return ShortListing([(child.name, self._entry(child, offset)) for child, offset in children])

    def _span(self, number: int) -> Span:
        if number == self._root:  # no directory has this number: no hour begins in the first minutes of 1970
            return EVERYTHING
        return Span(Level(number % _LEVELS + 1), number // _LEVELS * MINUTE_MS)
