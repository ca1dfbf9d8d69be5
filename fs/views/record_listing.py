"""The records in a partition's listing: page by page, so that a listing of any length needs memory for one page.

Pages are made in a thread, batch after batch; sizes come from whole-batch scans. A batch that cannot be read, or whose
offsets contradict those of its neighbors, lists the offsets that are missing there with size 0 and nothing for the
kernel to cache: stat(2) of one answers with the error. The damage is reported. No record makes readdir(3) fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import trio

from offsetfs.fs.attributes import FOREVER_S, NEVER_S, REMOVABLE_S, milliseconds_ns, set_times
from offsetfs.fs.inodes import Kind
from offsetfs.fs.nodes import Reply
from offsetfs.fs.partitions import Bounds, Partition
from offsetfs.fs.shared import Shared
from offsetfs.fs.views.ends import newest_start
from offsetfs.fs.views.records import segment_mtime_ns
from offsetfs.storage.errors import MalformedBatch, StorageError
from offsetfs.storage.partition.segment_retry import SegmentRetry
from offsetfs.storage.records.batch import Batch
from offsetfs.storage.records.codec import COLUMNS
from offsetfs.storage.segments.offset_order import in_order, misplaced
from offsetfs.storage.segments.offset_search import OFFSET_END
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.views.view_blocks import UNREADABLE, OnDamage, walk

PAGE_ROWS = 1000
HIDDEN_ROWS_MAX = 100_000
"""How many records are listed as unreadable for one damaged place; more than a batch of a megabyte holds."""

_VALUE_SIZE = 5  # the column of a scanned row


class ListedRow(NamedTuple):
    """A record in a listing. `size` -1: its batch cannot be read."""

    offset: int
    size: int
    mtime_ns: int


class RecordListing:
    """The newest `count_max` records (None: all) as they are when the first of them is asked for."""

    def __init__(self, shared: Shared, partition: Partition, count_max: int | None) -> None:
        self._shared = shared
        self._partition = partition
        self._count_max = count_max
        self._begin: int | None = None
        self._end = 0  # known with the beginning
        self._rows: Iterator[ListedRow] = iter(())
        self._page: list[ListedRow] = []
        self._place = 0  # in the page
        self._next = -1  # the offset at which page and rows go on

    async def reply(self, offset: int | None, first_place: int, reply: Reply) -> None:
        """Reply the records from `offset` on (None: the first listed). The place after one: `first_place` + offset + 1,
        less the anchor."""
        try:
            await self._reply(offset, first_place, reply)
        finally:
            self._partition.named_at = trio.current_time()

    async def _reply(self, offset: int | None, first_place: int, reply: Reply) -> None:
        if self._begin is None:
            begin, self._end = await self._shared.in_thread(self._find_bounds)
            self._begin = begin
        offset = self._begin if offset is None else max(offset, self._begin)
        if offset != self._next:
            self._rows = rows(self._partition, offset, self._end, self._shared.damaged)
            self._page, self._place = [], 0
        entry = self._shared.attributes.file(0, 0, 0)
        anchor = self._partition.anchor
        while True:
            if self._place == len(self._page):
                self._page = await self._shared.in_thread(lambda: list(islice(self._rows, PAGE_ROWS)))
                self._place = 0
                if not self._page:
                    self._next = self._end
                    return
            row = self._page[self._place]
            if row.offset < self._partition.log.log_start_offset:
                self._place += 1  # deleted since the page was made
                continue
            if not self._partition.has_inode(row.offset):  # nor has any behind it
                self._report_unlisted(row.offset)
                self._place = len(self._page)
                self._rows = iter(())
                continue
            entry.st_ino = self._partition.offset_inode(Kind.RECORD, row.offset)
            entry.st_size = max(row.size, 0)
            entry.attr_timeout = FOREVER_S if row.size >= 0 else NEVER_S
            entry.entry_timeout = REMOVABLE_S if row.size >= 0 else NEVER_S
            set_times(entry, row.mtime_ns)
            if not reply(b"%d" % row.offset, entry, first_place + row.offset + 1 - anchor):
                self._next = row.offset
                return
            self._place += 1
            self._next = row.offset + 1

    def _report_unlisted(self, offset: int) -> None:
        """Report that the records from `offset` on have no inode number and are left out."""
        path = self._partition.log.snapshot().active.log_path
        reason = "too far above the first record to be listed; its base offset may be damaged"
        self._shared.damaged(MalformedBatch(reason, path=path, offset=offset))

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


def rows(partition: Partition, begin: int, end: int, on_damage: OnDamage) -> Iterator[ListedRow]:
    """Yield the records with offsets in `[begin, end)`, each offset once and in order.

    Waits for the disk; holds one batch at a time, where offsets do not rise a few of them. What is wrong with a batch
    that cannot be read, or whose offsets cannot be right, is passed to `on_damage`. Goes on when a segment was replaced
    or removed, and ends when the partition was.
    """
    log, expected, retry = partition.log, begin, SegmentRetry(partition.log)
    while True:
        segments = log.snapshot()
        try:
            for segment in segments.from_floor(begin):
                following = segments.next_base_offset(segment) or OFFSET_END
                damage: list[int] = []  # positions

                def damaged(error: StorageError, seen: list[int] = damage) -> None:
                    seen.append(error.position or 0)
                    on_damage(error)

                batches = _named(walk(segment, _position_of(segment, begin), segment.size, on_damage=damaged), damaged)
                for batch, is_true in in_order(batches, segment.base_offset, following):
                    if not is_true:
                        damaged(misplaced(batch.base_offset, batch.header.last_offset, batch.path, batch.position))
                        continue
                    if batch.base_offset >= end or expected >= end:
                        break
                    position = batch.position or 0
                    if any(place < position for place in damage):
                        yield from _unreadable(partition, expected, batch.base_offset)
                        damage[:] = [place for place in damage if place > position]
                    yield from _readable(partition, batch, max(begin, batch.base_offset), end, on_damage)
                    expected = max(expected, batch.header.next_offset)
                if damage:
                    yield from _unreadable(partition, expected, min(following, end))
                    expected = max(expected, following)
            return
        except OSError as error:  # another process replaced or removed the next segment
            if not retry.again(error, segments, expected):
                return
            begin = expected = max(expected, log.log_start_offset)


def _position_of(segment: Segment, offset: int) -> int:
    try:
        return segment.reading_position(offset)
    except StorageError:
        return 0  # damage before it: the walk steps over that


def _named(batches: Iterable[Batch], on_damage: OnDamage) -> Iterator[Batch]:
    """Yield the batches whose base offset is known: that of a compressed set of v0 or v1 is inside of it."""
    for batch in batches:
        try:
            _ = batch.base_offset
        except UNREADABLE as error:
            on_damage(error)
        else:
            yield batch


def _readable(partition: Partition, batch: Batch, begin: int, end: int, on_damage: OnDamage) -> Iterator[ListedRow]:
    header = batch.header
    if not partition.view.shows(header):
        return
    try:
        scanned = batch.rows()
    except UNREADABLE as error:
        on_damage(error)
        yield from _unreadable(partition, begin, min(header.next_offset, end))
        return
    batch.drop_payload()  # the listing may stay open for long
    for row in range(0, len(scanned), COLUMNS):
        offset = header.base_offset + scanned[row]
        if begin <= offset < end:
            timestamp = batch.timestamp_of(scanned[row + 1])
            mtime_ns = segment_mtime_ns(partition, offset) if timestamp == -1 else milliseconds_ns(timestamp)
            yield ListedRow(offset, max(scanned[row + _VALUE_SIZE], 0), mtime_ns)


def _unreadable(partition: Partition, begin: int, end: int) -> Iterator[ListedRow]:
    """Yield the offsets that damage hides, at most `HIDDEN_ROWS_MAX` for one place: compaction may have left a gap."""
    mtime_ns = segment_mtime_ns(partition, begin)
    return (ListedRow(offset, -1, mtime_ns) for offset in range(begin, min(end, begin + HIDDEN_ROWS_MAX)))
