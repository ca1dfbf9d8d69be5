"""The segments of a view in order: finds the segment of a byte, and reads its output.

A view is a growing one (`partition_view`) or a range (`range_view`). Both add parts in order, read through this module,
and store line indexes that other views can use.

Threads: one adds, any number read.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from typing import NamedTuple

from offsetfs.storage.errors import WouldBlock
from offsetfs.storage.partition.log_reader import LogView
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.time_search import VisibilityFilter
from offsetfs.storage.views.line_index import LineIndex, LineIndexPool
from offsetfs.storage.views.line_index_cache import LineIndexCache
from offsetfs.storage.views.view_blocks import ViewBlock, join_block
from offsetfs.storage.views.view_format import ViewFormat

NOWAIT_BYTES_MAX = 1 << 20
"""The log bytes that may be read on the event loop: a fraction of a millisecond."""


class ViewPart(NamedTuple):
    """One segment of the view. `start`: the byte at which its output begins; negative if its head is cut off."""

    segment: Segment
    line_index: LineIndex
    start: int


class LocatedBlock(NamedTuple):
    """The location of a byte: the block's output is `[start, end)` of the view."""

    segment: Segment
    block: ViewBlock
    start: int
    end: int


class SkippedBatch(NamedTuple):
    """Byte `byte` of the view, before which the batch at `position` of the log file `path` was left out."""

    byte: int
    path: str
    position: int


class ViewParts:
    """A view as its parts, which are only added at the end. A subclass adds them."""

    def __init__(self, view_format: ViewFormat, shows: VisibilityFilter) -> None:
        self.view_format = view_format
        self._shows = shows
        self._parts: list[ViewPart] = []
        self._starts: list[int] = []
        self._numbers: dict[int, int] = {}  # by the base offset of the segment
        self.is_refuted = False  # a line index does not match its segment, so the starts of the parts are wrong

    @property
    def last(self) -> ViewPart | None:
        return self._parts[-1] if self._parts else None

    @property
    def parts_size(self) -> int:
        """The output size of all parts in bytes."""
        last = self.last
        return 0 if last is None else last.start + last.line_index.size

    @property
    def scanned_bytes(self) -> int:
        """The log bytes that the line indexes cover."""
        return sum(part.line_index.log_bytes - part.line_index.begin for part in self._parts)

    def _add_part(self, segment: Segment, index: LineIndex) -> ViewPart:
        """Add a segment at the end."""
        part = ViewPart(segment, index, self.parts_size)
        self._numbers[segment.base_offset] = len(self._parts)
        self._starts.append(part.start)
        self._parts.append(part)
        return part

    def _cut_head(self, skipped: int) -> None:
        """Start the view `skipped` bytes inside the output of the first and only part."""
        assert len(self._parts) == 1
        # A negative start, so that the line index of the whole segment can be used unchanged.
        self._parts[0] = self._parts[0]._replace(start=-skipped)
        self._starts[0] = -skipped

    def find(self, segment: Segment) -> ViewPart | None:
        """Return the part of this very segment object."""
        index = self._numbers.get(segment.base_offset)
        part = None if index is None else self._parts[index]
        return part if part is not None and part.segment is segment else None

    # --- reading ---------------------------------------------------------------------------------------------------

    def locate(self, byte: int, output_max: int = 0, *, nowait: bool = False) -> LocatedBlock | None:
        """Return the location of byte `byte`, with up to `output_max` following bytes; None at the end.

        With `nowait`, `WouldBlock` if the segment must be measured again because its stored index was damaged. OSError
        ESTALE if the index does not match the segment: then the view is refuted.
        """
        if byte >= self.parts_size:
            return None
        part = self._parts[bisect_right(self._starts, byte) - 1]
        try:
            block = part.line_index.block(byte - part.start, output_max, nowait=nowait)
        finally:
            self.is_refuted |= part.line_index.is_refuted
        return LocatedBlock(part.segment, block, part.start + block.output, part.start + block.output_end)

    def next_damage(self, byte: int, end: int) -> SkippedBatch | None:
        """Return the first byte in `[byte, end]` before which a batch was left out because it cannot be read.

        Batches directly before the start of a view that begins inside a segment do not count, because they may be
        deleted.
        """
        index = max(bisect_right(self._starts, byte) - 1, 0)
        while index and self._starts[index] == byte:  # damage at the end of the previous part lies at the same byte
            index -= 1
        for part in self._parts[index:]:
            if part.start > end:
                return None
            is_cut = part.start < 0 and byte == 0
            damage = part.line_index.next_damage(byte - part.start + is_cut)
            if damage is not None:
                output, position = damage
                damaged = SkippedBatch(part.start + output, part.segment.log_path, position)
                return damaged if damaged.byte <= end else None
        return None

    def read(self, located: LocatedBlock, *, nowait: bool = False) -> bytes | bytearray:
        """Return the whole output of a located block; the caller must not change it.

        ESTALE if the segment's files are gone; the error of a batch that was damaged since; with `nowait`,
        `WouldBlock`.
        """
        segment, block = located.segment, located.block
        # A long block would hold the event loop even if the page cache has all of it.
        if nowait and (self.view_format.is_slow or block.position_end - block.position > 2 * NOWAIT_BYTES_MAX):
            raise WouldBlock("a long block", path=segment.log_path, position=block.position)
        return join_block(segment, block, view_format=self.view_format, shows=self._shows, nowait=nowait)

    def hold(self, located: LocatedBlock) -> object:
        """Return an object that keeps the segment of a located block readable while it is referenced."""
        index = bisect_right(self._starts, located.start) - 1
        part = self._parts[max(index, 0)]
        try:
            # Open descriptors keep the files readable after `file.delete.delay.ms`, so that a reader in the middle of a
            # removed segment can finish.
            return part.segment.open_files(nowait=True), part.line_index.stored() if part.line_index.is_stored else None
        except (WouldBlock, OSError):  # OSError if the stored index is gone: it is rebuilt when needed
            return None


class LineIndexStore:
    """Stores and loads the line indexes of one view: beside the log, or in a cache if the log is read-only, or not at
    all.
    """

    def __init__(
        self, view: LogView, pool: LineIndexPool, view_format: ViewFormat, cache: LineIndexCache | None
    ) -> None:
        self.pool = pool
        self.cache = cache if view.log.read_only else None
        self._view = view
        self._view_format = view_format

    def load(self, segment: Segment, *, is_active: bool) -> LineIndex | None:
        """Return the stored line index of a segment, None if none matches.

        One from the cache may end before the segment does. An active segment has none beside it.
        """
        if self._view.is_committed_only or not self._view_format.suffix:
            return None
        beside = None if is_active else LineIndex.load(segment, self.pool, self._view_format)
        return self.cache.load(segment, self._view_format) if beside is None and self.cache is not None else beside

    def should_store(self, segment: Segment, index: LineIndex, *, is_active: bool) -> bool:
        """Whether a line index should be stored and is not.

        An index that met damage is not stored, so that each mount reports the damage again. Neither is one of committed
        records or of a range, because stored indexes describe whole segments.
        """
        if index.begin or index.has_damage or self._view.is_committed_only or not self._view_format.suffix:
            return False
        if self._view.log.read_only:
            return self.cache is not None and self.cache.should_store(index, is_active=is_active)
        return not is_active and index.log_bytes == segment.size and not index.is_stored

    def save(self, segment: Segment, index: LineIndex) -> None:
        """Store a line index. On a full disk only the index is lost, not the view."""
        if self.cache is not None:
            self.cache.save(segment, index)
            return
        with segment.names_lock, contextlib.suppress(OSError):
            if not segment.is_removed:
                index.save(segment, self.pool)
