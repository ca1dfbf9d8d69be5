"""A stretch of a log, `[start, end)` by offset, as a file of fixed size: `range/A..B` and `last/N`.

What it costs is in proportion to what is asked for: of a segment that lies wholly inside, the map is taken where there
is one; else the batches of the stretch are measured, found by the offset index. Which records are shown, and how, is as
in the growing views (`partition_view`), and so is what becomes of damage, and of segments that are removed: once their
files are gone, what was not open is ESTALE.

Threads: `refresh` is serialised by a lock, all else needs none.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable

from offsetfs.storage.errors import StorageError, WouldBlock
from offsetfs.storage.partition.isolation import LogView
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.views.line_index import LineIndex, Maps
from offsetfs.storage.views.line_index_cache import LineIndexCache
from offsetfs.storage.views.view_blocks import OnDamage
from offsetfs.storage.views.view_format import ViewFormat
from offsetfs.storage.views.view_parts import LineIndexStore, LocatedBlock, SkippedBatch, ViewPart, ViewParts

Known = Callable[[Segment], LineIndex | None]
"""Returns what a growing view of the same form knows of a segment by now, for reading only."""

_DIRECT_BYTES_MAX = 1 << 20
"""Up to how much log is measured before a map on disk is looked for, which costs as much."""


class RangeView:
    """The records from `start` to below `end`, both within the log. The size is known once `refresh` returned True."""

    def __init__(
        self,
        view: LogView,
        start: int,
        end: int,
        maps: Maps,
        on_damage: OnDamage,
        *,
        form: ViewFormat,
        known: Known,
        cache: LineIndexCache | None = None,
    ) -> None:
        snapshot = view.log.snapshot()
        reaching = itertools.takewhile(lambda segment: segment.base_offset < end, snapshot.from_floor(start))
        self._segments = list(reaching) if start < end else []
        self._active = snapshot.active
        self._view = view
        self._start = start
        self._end = end
        self._keeping = LineIndexStore(view, maps, form, cache)
        self._on_damage = on_damage
        self._form = form
        self._known = known
        self._parts = ViewParts(form, view.shows)
        self._part_end = 0  # the byte of its segment at which the last part is to end
        self._left = 0  # bytes of log that this refresh may still read
        self._lock = threading.Lock()
        self._is_complete = False
        self.size = 0
        """Bytes of the view, once it is complete."""

    @property
    def scanned_bytes(self) -> int:
        """How much of the log the maps stand for by now."""
        return self._parts.scanned_bytes

    @property
    def total_bytes(self) -> int:
        """How large the segments are that hold the stretch."""
        return sum(segment.size for segment in self._segments)

    # --- measuring -------------------------------------------------------------------------------------------------

    def refresh(self, *, nowait: bool = False, bytes_max: int | None = None) -> bool:
        """Go on measuring; return whether the view is complete, as it stays.

        Reads at most about `bytes_max`, and is to be called again after False. With `nowait` `WouldBlock` unless it is.
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
        last = self._parts.last
        if last is not None and not self._extend(last):
            return False
        for segment in self._segments[len(self._parts) :]:
            if not self._extend(self._add(segment)):
                return False
        last = self._parts.last
        if last is not None:
            self.size = last.start + last.map.output_before(last.segment, self._end)
        return True

    def _add(self, segment: Segment) -> ViewPart:
        """Add a segment, with the map it has, or one of the stretch that is to be measured."""
        begin = self._begin_in(segment)
        self._part_end = end = self._end_in(segment)
        map_ = self._map_of(segment, begin, end)
        if map_ is None:
            map_ = LineIndex(segment.base_offset, self._view.shows, form=self._form, begin=begin)
        part = self._parts.add(segment, map_)
        self._left -= _DIRECT_BYTES_MAX // 16  # what looking for it may have cost
        return part

    def _begin_in(self, segment: Segment) -> int:
        """Return the byte of the batch that holds the first record of the stretch; 0 where damage hides it."""
        if self._start <= segment.base_offset:
            return 0
        try:
            return segment.reading_position(self._start)
        except StorageError:
            return 0

    def _end_in(self, segment: Segment) -> int:
        """Return the byte behind the batch that holds the last record of the stretch; the end where damage hides it."""
        if segment is not self._segments[-1]:
            return segment.size
        try:
            place = segment.position_of(self._end)
            for _, header in segment.headers(place, over_damage=True) if place < segment.size else ():
                # A compressed set of v0 or v1 knows only inside where it begins.
                is_behind = header.base_offset >= self._end and not header.is_wrapper
                return place if is_behind else min(place + header.size, segment.size)
        except StorageError:
            pass
        return segment.size

    def _map_of(self, segment: Segment, begin: int, end: int) -> LineIndex | None:
        """Return a map of the whole segment that is known, or kept beside it and worth its while."""
        known = self._known(segment)
        if known is not None and known.is_refuted:
            return None
        if known is not None and known.log_bytes >= end:
            return known
        if end - begin <= _DIRECT_BYTES_MAX:
            return None
        kept = self._keeping.load(segment, is_active=segment is self._active)
        return kept if kept is not None and kept.log_bytes >= end else None

    def _extend(self, part: ViewPart) -> bool:
        """Bring a part up to its end; return whether it got there."""
        map_, begun = part.map, part.map.log_bytes
        if begun < self._part_end:
            if self._left <= 0:
                return False
            map_.extend(part.segment, self._part_end, on_damage=self._on_damage, bytes_max=self._left)
            self._left -= map_.log_bytes - begun
            if map_.log_bytes < self._part_end:
                return False
        if len(self._parts) == 1 and part.start == 0:
            self._parts.cut_head(map_.output_before(part.segment, self._start))
        is_whole = part.segment is not self._active and map_.log_bytes == part.segment.size
        if is_whole and self._keeping.wants(part.segment, map_, is_active=False):
            self._keeping.save(part.segment, map_)
        return True

    # --- reading ---------------------------------------------------------------------------------------------------

    def locate(self, byte: int, output_max: int = 0, *, nowait: bool = False) -> LocatedBlock | None:
        """Return where byte `byte` comes from; see `ViewParts.locate`.

        The block may be longer than the view.
        """
        located = self._parts.locate(byte, output_max, nowait=nowait) if byte < self.size else None
        return None if located is None else located._replace(end=min(located.end, self.size))

    def next_damage(self, byte: int, end: int) -> SkippedBatch | None:
        """Return the first byte in `[byte, end]` before which a batch was left out; see `ViewParts.next_damage`."""
        return self._parts.next_damage(byte, end)

    def read(self, located: LocatedBlock, *, nowait: bool = False) -> bytes | bytearray:
        """Return the whole output of a located block; see `ViewParts.read`."""
        return self._parts.read(located, nowait=nowait)

    def hold(self, located: LocatedBlock) -> object:
        """Return what keeps a located block readable; see `ViewParts.hold`."""
        return self._parts.hold(located)
