"""Removes rows whose records the log no longer has: retention, deleted records, compaction.

Rows below the log start go at once. For the rest, the offsets of a range of the log are counted and compared with the
rows of the range; only where the numbers differ, the offsets are compared one by one. A log is compared again only when
its sealed segments have changed, because an append removes nothing.

Only compaction removes offsets from the middle of a log. Where it cannot have done so, they were lost with a segment or
a part of one, and their rows stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from offsetfs.storage import RAW, Log, LogReader, LogView, TopicPartition
from offsetfs.storage.records import COLUMNS, OFFSET_DELTA
from offsetfs.tables.databases.layout import SyncRefused
from offsetfs.tables.databases.messages_table import MessagesTable

Isolation = Literal["read_committed", "read_uncommitted", "raw"]
RANGE_RECORDS = 50_000
"""About how many records are compared at a time."""


class RowDeletions:
    """The compared ranges of one partition."""

    __slots__ = ("_compared", "_log_start")

    def __init__(self) -> None:
        self._log_start = -1
        self._compared: tuple[tuple[int, int], ...] | None = None

    def apply(
        self, table: MessagesTable, partition: TopicPartition, view: LogView, stop: int, *, may_lack_offsets: bool
    ) -> int:
        """Delete rows of the offsets below `stop` that are no records of the view any more; return how many.

        `may_lack_offsets`: see `LogDirectory`. Without it, offsets that are missing behind the log start raise
        SyncRefused, and no row of their range is deleted. TableError, and as `LogReader`.
        """
        log, deleted = view.log, 0
        start = log.log_start_offset
        if start != self._log_start:
            deleted += table.delete_below(partition, min(start, stop))
            self._log_start = start
        segments = tuple((segment.base_offset, segment.size) for segment in list(log.snapshot())[:-1])
        if segments == self._compared:
            return deleted

        def check(gone: Sequence[int]) -> None:
            if not may_lack_offsets:
                _check_loss(log, gone)

        for first, last, offsets in _ranges(log, view.isolation, start, stop):
            if table.count(partition, first, last) != len(offsets):
                deleted += table.delete_all_but(partition, first, last, offsets, check)
        self._compared = segments
        return deleted


def _check_loss(log: Log, gone: Sequence[int]) -> None:
    """Raise SyncRefused for an offset of these that is neither in the log nor below its start.

    Others are those of control batches and of transactions that the view does not show.
    """
    if not gone:
        return
    first = max(gone[0], log.log_start_offset)
    present = {offset for _, _, offsets in _ranges(log, RAW, first, gone[-1] + 1) for offset in offsets}
    log.refresh()  # retention may have removed segments meanwhile
    lost = [offset for offset in gone if offset >= log.log_start_offset and offset not in present]
    if lost:
        raise SyncRefused(
            f"the log lacks offsets from {lost[0]} to {lost[-1]}, and it was never compacted: they were lost, and "
            "their rows stay; offsetfs verify names the place"
        )


def _ranges(log: Log, isolation: Isolation, start: int, stop: int) -> Iterator[tuple[int, int, set[int]]]:
    """Yield ranges of offsets without a gap between them, and the offsets of each that are records."""
    present: set[int] = set()
    for batch, first, end in LogReader(log, start=start, stop=stop, isolation=isolation).slices():
        base = batch.base_offset
        deltas = (
            [record.offset - base for record in batch.records()]
            if batch.header.is_old
            else batch.rows()[OFFSET_DELTA::COLUMNS]
        )
        present.update(base + delta for delta in deltas if first <= base + delta < end)
        if len(present) >= RANGE_RECORDS:
            reached = min(batch.header.next_offset, stop)
            yield start, reached, present
            start, present = reached, set()
    if start < stop:
        yield start, stop, present
