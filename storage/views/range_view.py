"""A range of a log, `[start, end)` by offset, as a file of fixed size: `range/A..B` and `last/N`.

The cost is proportional to the range. For a segment that lies completely inside, a stored line index is used if there
is one. Otherwise the batches of the range are measured, starting at the offset index. Visibility, format, damage and
removed segments are handled as in `partition_view`: once their files are gone, segments that were not open raise
ESTALE.

Threads: a lock serializes `refresh`; other methods need none.
"""

from __future__ import annotations

import itertools
import sys
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator

from offsetfs.storage.errors import UNREADABLE, StorageError, WouldBlock
from offsetfs.storage.partition.log_reader import LogView
from offsetfs.storage.records.format.batch import Batch
from offsetfs.storage.records.format.record_row import COLUMNS, OFFSET_DELTA, TIMESTAMP_DELTA
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.views.line_index import LineIndex, LineIndexPool
from offsetfs.storage.views.line_index_cache import LineIndexCache
from offsetfs.storage.views.merged_lines import TimedLines
from offsetfs.storage.views.view_blocks import OnDamage, walk
from offsetfs.storage.views.view_format import ViewFormat
from offsetfs.storage.views.view_parts import LineIndexStore, LocatedBlock, ViewPart, ViewParts

KnownIndex = Callable[[Segment], LineIndex | None]
"""Returns the line index that a growing view of the same format has for a segment, for reading only."""

_DIRECT_BYTES_MAX = 1 << 20
"""The log bytes that are measured before a stored line index is searched for, because both cost the same."""


class RangeView(ViewParts):
    """The records from `start` up to, not including, `end`. The size is known once `refresh` has returned True."""

    def __init__(
        self,
        view: LogView,
        start: int,
        end: int,
        pool: LineIndexPool,
        on_damage: OnDamage,
        *,
        view_format: ViewFormat,
        known: KnownIndex,
        cache: LineIndexCache | None = None,
    ) -> None:
        super().__init__(view_format, view.shows)
        snapshot = view.log.snapshot()
        reaching = itertools.takewhile(lambda segment: segment.base_offset < end, snapshot.from_floor(start))
        self._segments = list(reaching) if start < end else []
        self._active = snapshot.active
        self._view = view
        self._start = start
        self._end = end
        self._stored_indexes = LineIndexStore(view, pool, view_format, cache)
        self._on_damage = on_damage
        self._known = known
        self._part_end = 0  # the byte of its segment at which the last part ends
        self._left = 0  # log bytes that this refresh may still read
        self._lock = threading.Lock()
        self._is_complete = False
        self.size = 0
        """The size of the view in bytes, once it is complete."""

    @property
    def total_bytes(self) -> int:
        """The size of the segments that hold the range."""
        return sum(segment.size for segment in self._segments)

    # --- measuring -------------------------------------------------------------------------------------------------

    def refresh(self, *, nowait: bool = False, bytes_max: int | None = None) -> bool:
        """Continue measuring; return whether the view is complete.

        Reads at most about `bytes_max`; call again after False. With `nowait`, `WouldBlock` unless it is complete.
        """
        if self._is_complete:
            return True
        if nowait:
            raise WouldBlock("a range is measured in a thread", path=self._view.log.path)
        with self._lock:
            self._left = bytes_max or sys.maxsize
            self._is_complete = self._is_complete or self._grow()
            return self._is_complete

    def _grow(self) -> bool:
        last = self.last
        if last is not None and not self._extend(last):
            return False
        for segment in self._segments[len(self._parts) :]:
            if not self._extend(self._add(segment)):
                return False
        last = self.last
        if last is not None:
            self.size = last.start + last.line_index.output_before(last.segment, self._end)
        return True

    def _add(self, segment: Segment) -> ViewPart:
        """Add a segment, with its line index, or an empty one for the range."""
        begin = self._begin_in(segment)
        self._part_end = end = self._end_in(segment)
        index = self._index_for(segment, begin, end)
        if index is None:
            index = LineIndex(segment.base_offset, self._view.shows, view_format=self.view_format, begin=begin)
        part = self._add_part(segment, index)
        self._left -= _DIRECT_BYTES_MAX // 16  # the possible cost of the search
        return part

    def _begin_in(self, segment: Segment) -> int:
        """Return the byte of the batch that holds the first record of the range; 0 if damage hides it."""
        if self._start <= segment.base_offset:
            return 0
        try:
            return segment.reading_position(self._start)
        except StorageError:
            return 0

    def _end_in(self, segment: Segment) -> int:
        """Return the byte after the batch that holds the last record of the range; the end if damage hides it."""
        if segment is not self._segments[-1]:
            return segment.size
        try:
            batch_position = segment.position_of(self._end)
            for _, header in segment.headers(batch_position, over_damage=True) if batch_position < segment.size else ():
                # The first offset of a compressed v0 or v1 set is known only after decompression.
                is_behind = header.base_offset >= self._end and not header.is_wrapper
                return batch_position if is_behind else min(batch_position + header.size, segment.size)
        except StorageError:
            pass
        return segment.size

    def _index_for(self, segment: Segment, begin: int, end: int) -> LineIndex | None:
        """Return a line index of the whole segment that is in memory, or worth loading."""
        known = self._known(segment)
        if known is not None and known.is_refuted:
            return None
        if known is not None and known.log_bytes >= end:
            return known
        # Loading a stored index reads and checks all of it, which costs as much as measuring a megabyte of log.
        if end - begin <= _DIRECT_BYTES_MAX:
            return None
        stored = self._stored_indexes.load(segment, is_active=segment is self._active)
        return stored if stored is not None and stored.log_bytes >= end else None

    def _extend(self, part: ViewPart) -> bool:
        """Extend a part to its end; return whether that was reached."""
        index, begun = part.line_index, part.line_index.log_bytes
        if begun < self._part_end:
            if self._left <= 0:
                return False
            index.extend(part.segment, self._part_end, on_damage=self._on_damage, bytes_max=self._left)
            self._left -= index.log_bytes - begun
            if index.log_bytes < self._part_end:
                return False
        if len(self._parts) == 1 and part.start == 0:
            self._cut_head(index.output_before(part.segment, self._start))
        is_whole = part.segment is not self._active and index.log_bytes == part.segment.size
        if is_whole and self._stored_indexes.should_store(part.segment, index, is_active=False):
            self._stored_indexes.save(part.segment, index)
        return True

    # --- reading ---------------------------------------------------------------------------------------------------

    def timed_lines(self, offset: int) -> Iterator[TimedLines]:
        """Yield the lines of the records from `offset` on, one batch at a time, with offsets and timestamps.

        Waits for the disk. Damage is left out, as when the view was measured.
        """
        begin = max(offset, self._start)
        for number, segment in enumerate(self._segments):
            if number + 1 < len(self._segments) and self._segments[number + 1].base_offset <= begin:
                continue
            try:
                position = segment.reading_position(begin)
            except StorageError:
                position = 0  # damage before it: the walk steps over that
            for batch in walk(segment, position, segment.size, on_damage=self._on_damage):
                try:
                    if batch.base_offset >= self._end:
                        return
                    lines = self._lines_of(batch, begin) if self._view.shows(batch.header) else None
                except UNREADABLE as error:
                    self._on_damage(error)
                else:
                    if lines is not None:
                        yield lines

    def _lines_of(self, batch: Batch, begin: int) -> TimedLines | None:
        """Return the lines of a batch that belong to the range, from offset `begin` on; None if there are none."""
        rows, base, data = batch.rows(), batch.header.base_offset, self.view_format.joined(batch)
        offsets = [base + delta for delta in rows[OFFSET_DELTA::COLUMNS]]
        timestamps = [batch.timestamp_of(delta) for delta in rows[TIMESTAMP_DELTA::COLUMNS]]
        ends = self.view_format.line_ends(rows, data)
        first, end = bisect_left(offsets, begin), bisect_left(offsets, self._end)
        if first == end:
            return None
        skipped = ends[first - 1] if first else 0
        return TimedLines(
            offsets[first:end],
            timestamps[first:end],
            [end_position - skipped for end_position in ends[first:end]],
            memoryview(data)[skipped : ends[end - 1]],
        )

    def locate(self, byte: int, output_max: int = 0, *, nowait: bool = False) -> LocatedBlock | None:
        """Return the log position of byte `byte`; see `ViewParts.locate`.

        The block may be longer than the view.
        """
        located = super().locate(byte, output_max, nowait=nowait) if byte < self.size else None
        return None if located is None else located._replace(end=min(located.end, self.size))
