"""The records in a partition's listing: page by page, so that a listing of any length needs memory for one page.

Pages are made in a thread, batch after batch; sizes come from whole-batch scans. If a batch cannot be read, or its
offsets contradict those of its neighbors, its offsets are listed with size 0, and the kernel caches no attributes:
stat(2) of them returns the error. The damage is reported. No record makes readdir(3) fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import trio

from offsetfs.fs.attributes import FOREVER_S, NEVER_S, REMOVABLE_S, milliseconds_ns, set_times
from offsetfs.fs.files.records import segment_mtime_ns
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.nodes import Reply
from offsetfs.fs.partitions import Bounds, MountedPartition
from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.records import NO_TIMESTAMP
from offsetfs.storage.views import OnDamage, newest_start, record_rows

PAGE_ROWS = 1000


class ListedRow(NamedTuple):
    """A record in a listing. `size` -1: its batch cannot be read."""

    offset: int
    size: int
    mtime_ns: int


class RecordListing:
    """The newest `count_max` records (None: all) at the time of the first reply."""

    def __init__(self, mount: MountContext, partition: MountedPartition, count_max: int | None) -> None:
        self._mount = mount
        self._partition = partition
        self._count_max = count_max
        self._begin: int | None = None
        self._end = 0  # known after `_find_bounds`
        self._rows: Iterator[ListedRow] = iter(())
        self._page: list[ListedRow] = []
        self._index = 0  # in the page
        self._next = -1  # the offset at which page and rows go on

    async def reply(self, offset: int | None, first_cookie: int, reply: Reply) -> None:
        """Reply the records from `offset` on (None: the first listed).

        The cookie after one: `first_cookie` + offset + 1, less the anchor.
        """
        try:
            await self._reply(offset, first_cookie, reply)
        finally:
            self._partition.named_at = trio.current_time()

    async def _reply(self, offset: int | None, first_cookie: int, reply: Reply) -> None:
        if self._begin is None:
            begin, self._end = await self._mount.executor.in_thread(self._find_bounds)
            self._begin = begin
        offset = self._begin if offset is None else max(offset, self._begin)
        if offset != self._next:
            self._rows = rows(self._partition, offset, self._end, self._mount.damage.report)
            self._page, self._index = [], 0
        entry = self._mount.attributes.file(0, 0, 0)
        anchor = self._partition.anchor
        while True:
            if self._index == len(self._page):
                self._page = await self._mount.executor.in_thread(lambda: list(islice(self._rows, PAGE_ROWS)))
                self._index = 0
                if not self._page:
                    self._next = self._end
                    return
            row = self._page[self._index]
            if row.offset < self._partition.log.log_start_offset:
                self._index += 1  # deleted since the page was made
                continue
            if not self._partition.has_inode(row.offset):  # nor has any behind it
                self._report_unlisted(row.offset)
                self._index = len(self._page)
                self._rows = iter(())
                continue
            entry.st_ino = self._partition.offset_inode(Kind.RECORD, row.offset)
            entry.st_size = max(row.size, 0)
            entry.attr_timeout = FOREVER_S if row.size >= 0 else NEVER_S
            entry.entry_timeout = REMOVABLE_S if row.size >= 0 else NEVER_S
            set_times(entry, row.mtime_ns)
            if not reply(b"%d" % row.offset, entry, first_cookie + row.offset + 1 - anchor):
                self._next = row.offset
                return
            self._index += 1
            self._next = row.offset + 1

    def _report_unlisted(self, offset: int) -> None:
        """Report that the records from `offset` on have no inode number and are left out."""
        path = self._partition.log.snapshot().active.log_path
        reason = "too far above the first record to be listed; its base offset may be damaged"
        self._mount.damage.report(MalformedBatch(reason, path=path, offset=offset))

    def _find_bounds(self) -> tuple[int, int]:
        view = self._partition.view
        log, end = view.log, view.end_offset()
        if self._count_max is None:
            return log.log_start_offset, end
        bounds = Bounds(log.snapshot(), log.log_start_offset, end, self._count_max)
        known = self._partition.listed
        if known is None or known[0] != bounds:
            known = self._partition.listed = bounds, newest_start(view, self._count_max, end=end)
        return known[1], end


def rows(partition: MountedPartition, begin: int, end: int, on_damage: OnDamage) -> Iterator[ListedRow]:
    """Yield the records of `record_rows`. Those without a timestamp have the time of their segment's file."""
    hidden_until, hidden_ns = -1, 0  # one look at the file for a run of unreadable records
    for row in record_rows(partition.view, begin, end, on_damage):
        if row.size < 0:
            if row.offset != hidden_until:
                hidden_ns = segment_mtime_ns(partition, row.offset)
            hidden_until, mtime_ns = row.offset + 1, hidden_ns
        elif row.timestamp == NO_TIMESTAMP:
            mtime_ns = segment_mtime_ns(partition, row.offset)
        else:
            mtime_ns = milliseconds_ns(row.timestamp)
        yield ListedRow(row.offset, row.size, mtime_ns)
