"""`by-time`: a calendar of the records, and any time by name. UTC throughout.

    by-time/2026/11/21/13/05          symlink to the first record at or after that minute
    by-time/2026-11-21T13:05:07Z      the same for any time that `grammar.parse_time` accepts, never listed

"First" is in offset order, as in Kafka's ListOffsets. A directory lists a minute (hour, day, …) if the first record
at or after its start is before its end. If timestamps are out of order, a minute with only a late record may be missing
from the listing; it can still be opened by name, as any time up to that of the last record.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pyfuse3 import EntryAttributes

from offsetfs.common.quantities import parse_time, unreadable_time
from offsetfs.fs.attributes import milliseconds_ns
from offsetfs.fs.files.links import OffsetLinks
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.grammar import EVERYTHING, Level, Span, listed_children
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.nodes import Listing, ShortListing
from offsetfs.fs.partitions import MountedPartition

_MINUTE_MS = 60_000
_LEVELS = 4  # year, month, day and hour have two bits of a number


class TimeDirectories:
    """`by-time` and everything below it. `number` of a year, month, day or hour: minutes since 1970 × 4 + level - 1."""

    def __init__(
        self,
        mount: MountContext,
        partition: MountedPartition,
        links: OffsetLinks,
        minute_links: OffsetLinks,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._mount = mount
        self._partition = partition
        self._links = links
        self._minute_links = minute_links
        self._now = now

    def root(self) -> EntryAttributes:
        return self._mount.attributes.directory(self._partition.inode(Kind.BY_TIME))

    async def attributes(self, number: int) -> EntryAttributes:
        return self._directory(_span(number))

    def _directory(self, span: Span) -> EntryAttributes:
        if span.level == Level.ALL:
            return self.root()
        inode = self._partition.inode(Kind.TIME_DIRECTORY, span.start // _MINUTE_MS * _LEVELS + span.level - 1)
        return self._mount.attributes.directory(inode, milliseconds_ns(span.start))

    def _entry(self, span: Span, offset: int) -> EntryAttributes:
        return self._minute_links.entry(offset) if span.level == Level.MINUTE else self._directory(span)

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        span = _span(number)
        child = span.child(name)
        if child is not None:
            found = await self._find(child.start)
            return None if found is None else self._entry(child, found)
        if span.level != Level.ALL or name.startswith(b"."):  # programs look for hidden files everywhere
            return None
        timestamp = parse_time(name, int(self._now() * 1000))
        if timestamp is None:
            raise unreadable_time(name)
        found = await self._find(timestamp)
        return None if found is None else self._links.entry(found)

    async def _find(self, timestamp: int) -> int | None:
        source = self._partition.source
        found = await self._mount.executor.answer(self._partition.view.find_record, timestamp)
        if found is None:
            return None
        self._mount.caches.batches.keep(source, found.batch)  # the reader that follows the link needs it next
        return found.offset

    async def listing(self, number: int) -> Listing:
        span = _span(number)
        find = self._partition.view.find_timestamp
        children = await self._mount.executor.in_thread(lambda: list(listed_children(span, find)))
        return ShortListing([(child.name, self._entry(child, offset)) for child, offset in children])


def _span(number: int) -> Span:
    if number == Kind.BY_TIME:  # no directory has this number: no hour begins at the third minute of 1970
        return EVERYTHING
    return Span(Level(number % _LEVELS + 1), number // _LEVELS * _MINUTE_MS)
