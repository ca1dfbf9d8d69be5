"""The segments of a view one behind the other: which of them a byte comes from, and what it is.

A view is a growing one (`partition_view`) or a range (`range_view`); both put parts in order, read through here, and
keep the maps that others can use.

Threads: one adds, any number read.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from typing import NamedTuple

from offsetfs.storage.errors import WouldBlock
from offsetfs.storage.partition.isolation import LogView
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.time_search import VisibilityFilter
from offsetfs.storage.views.line_index import LineIndex, Maps
from offsetfs.storage.views.line_index_cache import LineIndexCache
from offsetfs.storage.views.view_blocks import ViewBlock, join_block
from offsetfs.storage.views.view_format import ViewFormat

NOWAIT_BYTES_MAX = 1 << 20
"""How much of a log may be read where nothing may wait: a fraction of a millisecond."""


class ViewPart(NamedTuple):
    """One segment of the view. `start`: the byte at which its output begins; negative where its head is cut off."""

    segment: Segment
    map: LineIndex
    start: int


class LocatedBlock(NamedTuple):
    """Where a byte comes from: the block's output is `[start, end)` of the view."""

    segment: Segment
    block: ViewBlock
    start: int
    end: int


class SkippedBatch(NamedTuple):
    """Byte `byte` of the view, before which a batch was left out: the one at `position` of the log file `path`."""

    byte: int
    path: str
    position: int


class ViewParts:
    """The parts of one view, which are only ever added at the end."""

    def __init__(self, form: ViewFormat, shows: VisibilityFilter) -> None:
        self._form = form
        self._shows = shows
        self._parts: list[ViewPart] = []
        self._starts: list[int] = []
        self._places: dict[int, int] = {}  # by the base offset of the segment
        self.is_refuted = False  # a map has another output than its segment, so the parts begin elsewhere

    def __len__(self) -> int:
        return len(self._parts)

    def all(self) -> list[ViewPart]:
        """Return the parts, oldest first."""
        return list(self._parts)

    @property
    def last(self) -> ViewPart | None:
        return self._parts[-1] if self._parts else None

    @property
    def size(self) -> int:
        """Bytes of output of all parts."""
        last = self.last
        return 0 if last is None else last.start + last.map.size

    @property
    def scanned_bytes(self) -> int:
        """How much of the log the maps stand for by now."""
        return sum(part.map.log_bytes - part.map.begin for part in self._parts)

    def add(self, segment: Segment, map_: LineIndex) -> ViewPart:
        """Add a segment at the end."""
        part = ViewPart(segment, map_, self.size)
        self._places[segment.base_offset] = len(self._parts)
        self._starts.append(part.start)
        self._parts.append(part)
        return part

    def cut_head(self, skipped: int) -> None:
        """Begin the view `skipped` bytes inside the output of the first and only part."""
        assert len(self._parts) == 1
        self._parts[0] = self._parts[0]._replace(start=-skipped)
        self._starts[0] = -skipped

    def find(self, segment: Segment) -> ViewPart | None:
        """Return the part of that very segment."""
        place = self._places.get(segment.base_offset)
        part = None if place is None else self._parts[place]
        return part if part is not None and part.segment is segment else None

    # --- reading ---------------------------------------------------------------------------------------------------

    def locate(self, byte: int, output_max: int = 0, *, nowait: bool = False) -> LocatedBlock | None:
        """Return where byte `byte` comes from, and what follows up to `output_max`; None at the end.

        With `nowait` `WouldBlock` where the segment has to be measured anew, because its map on disk was damaged.
        OSError ESTALE where the map turns out to be of another output: then the view is refuted.
        """
        if byte >= self.size:
            return None
        part = self._parts[bisect_right(self._starts, byte) - 1]
        try:
            block = part.map.block(byte - part.start, output_max, nowait=nowait)
        finally:
            self.is_refuted |= part.map.is_refuted
        return LocatedBlock(part.segment, block, part.start + block.output, part.start + block.output_end)

    def next_damage(self, byte: int, end: int) -> SkippedBatch | None:
        """Return the first byte in `[byte, end]` before which a batch was left out because it cannot be read.

        Not what stood directly before the beginning of a view that begins inside of a segment: that may have been
        deleted records.
        """
        place = max(bisect_right(self._starts, byte) - 1, 0)
        while place and self._starts[place] == byte:  # the part before ends there, and may do so with damage
            place -= 1
        for part in self._parts[place:]:
            if part.start > end:
                return None
            is_cut = part.start < 0 and byte == 0
            found = part.map.next_damage(byte - part.start + is_cut)
            if found is not None:
                output, position = found
                damaged = SkippedBatch(part.start + output, part.segment.log_path, position)
                return damaged if damaged.byte <= end else None
        return None

    def read(self, located: LocatedBlock, *, nowait: bool = False) -> bytes | bytearray:
        """Return the whole output of a located block, which nobody changes.

        ESTALE when the segment's files are gone; the error of a batch that was damaged since; with `nowait`
        `WouldBlock`.
        """
        segment, block = located.segment, located.block
        if nowait and block.position_end - block.position > 2 * NOWAIT_BYTES_MAX:
            raise WouldBlock("a long block", path=segment.log_path, position=block.position)
        return join_block(segment, block, form=self._form, shows=self._shows, nowait=nowait)

    def hold(self, located: LocatedBlock) -> object:
        """Return what a reader of a located block keeps, to read its segment to the end whatever becomes of it."""
        place = bisect_right(self._starts, located.start) - 1
        part = self._parts[max(place, 0)]
        try:
            return part.segment.open_files(nowait=True), part.map.kept() if part.map.is_kept else None
        except (WouldBlock, OSError):  # the latter where the map is gone from the disk: it is made anew when needed
            return None


class LineIndexStore:
    """Where the maps of one view are put, and taken from: beside the log, or in a cache where nothing may be written
    there; without a cache nowhere."""

    def __init__(self, view: LogView, maps: Maps, form: ViewFormat, cache: LineIndexCache | None) -> None:
        self.maps = maps
        self.cache = cache if view.log.read_only else None
        self._view = view
        self._form = form

    def load(self, segment: Segment, *, is_active: bool) -> LineIndex | None:
        """Return the map that is kept of a segment, None when there is none that describes it.

        One from the cache may end before the segment does. Nothing lies beside an active segment.
        """
        if self._view.is_committed_only:
            return None
        beside = None if is_active else LineIndex.load(segment, self.maps, self._form)
        return self.cache.load(segment, self._form) if beside is None and self.cache is not None else beside

    def wants(self, segment: Segment, map_: LineIndex, *, is_active: bool) -> bool:
        """Whether a map belongs on disk, and is not there.

        Not a map that met damage: it is made anew for each mount, so that each mount reports the damage. Nor one of
        committed records, or of a stretch: what is kept describes all of a segment.
        """
        if map_.begin or map_.has_damage or self._view.is_committed_only:
            return False
        if self._view.log.read_only:
            return self.cache is not None and self.cache.wants(map_, is_active=is_active)
        return not is_active and map_.log_bytes == segment.size and not map_.is_kept

    def save(self, segment: Segment, map_: LineIndex) -> None:
        """Put a map on disk. A full disk costs a map, not the view."""
        if self.cache is not None:
            self.cache.save(segment, map_)
            return
        with segment.names_lock, contextlib.suppress(OSError):
            if not segment.is_removed:
                map_.save(segment, self.maps)
