"""A whole partition as one growing file over all segments, and the log position of each byte.

`view_format` defines the output of a record: `values` and `records.ndjson` are such views.

A view begins at the log start at the time of its creation, and its existing bytes never change: it grows, and byte
positions stay the same when retention and compaction remove segments. Removed segments stay readable while their files
exist or are open; afterwards reads raise ESTALE. Growing raises ESTALE if a segment was removed that the view had not
reached, so it never skips records. A later opening gets a `successor`, which begins at the new log start and reuses the
line indexes of the remaining segments.

All batches except control batches are shown, also those of open and aborted transactions. With `is_committed_only` only
committed batches below the last stable offset are shown. Line indexes of such a view are never stored or loaded,
because those beside the log describe all of it.

Threads: a lock serializes `refresh`; `locate` and `read` need none.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Iterator

from offsetfs.storage import files
from offsetfs.storage.errors import WouldBlock
from offsetfs.storage.names import parse_segment_name
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.log_reader import LogView
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_map import Segments
from offsetfs.storage.views.line_index import LineIndex, LineIndexPool
from offsetfs.storage.views.line_index_cache import LOG_BYTES_MIN, LineIndexCache
from offsetfs.storage.views.view_blocks import OnDamage
from offsetfs.storage.views.view_format import VALUES, ViewFormat
from offsetfs.storage.views.view_parts import (
    NOWAIT_BYTES_MAX,
    LineIndexStore,
    ViewPart,
    ViewParts,
)

_LOAD_COST_BYTES = 64 << 10  # what opening a stored index counts against `bytes_max`


class PartitionView(ViewParts):
    """The view of one log from `start_offset` on. It is empty before the first `refresh` that returns True."""

    def __init__(
        self,
        log: Log,
        pool: LineIndexPool,
        on_damage: OnDamage,
        *,
        view_format: ViewFormat = VALUES,
        is_committed_only: bool = False,
        cache: LineIndexCache | None = None,
    ) -> None:
        """`cache`: where the line indexes of a read-only log are stored."""
        # Fixed for the life of the view: a reader has byte positions, so the beginning must not move under it (decision
        # 19).
        self.start_offset = log.log_start_offset
        self._log = log
        self._view = LogView(log, is_committed_only=is_committed_only)
        super().__init__(view_format, self._view.shows)
        self._stored_indexes = LineIndexStore(self._view, pool, view_format, cache)
        self._on_damage = on_damage
        self._inherited: dict[int, ViewPart] = {}
        self._refreshed: tuple[Segments | None, int] = (None, -1)
        self._containing: Segments | None = None  # the last snapshot that contained all parts
        self._snapshot: Segments | None = None  # that of the last refresh, complete or not
        self._lock = threading.Lock()
        self._left = 0  # log bytes that this refresh may still read
        self._whole_segments_only = False
        self._start_is_known = False
        self._swept = False

    def successor(self) -> PartitionView:
        """Return a view from the current log start, with the line indexes that still match."""
        view = PartitionView(
            self._log,
            self._stored_indexes.pool,
            self._on_damage,
            view_format=self.view_format,
            is_committed_only=self._view.is_committed_only,
            cache=self._stored_indexes.cache,
        )
        view._inherited = {part.segment.base_offset: self._inheritable(part) for part in list(self._parts)}
        return view

    def _inheritable(self, part: ViewPart) -> ViewPart:
        if not part.line_index.is_refuted:
            return part
        return part._replace(line_index=LineIndex(part.segment.base_offset, view_format=self.view_format))

    @property
    def size(self) -> int:
        """The size of the view in bytes, as of the last `refresh`."""
        return self.parts_size

    @property
    def lacks_own_appends_only(self) -> bool:
        """Whether line indexes cover everything except records that this process has appended to the active segment."""
        last = self.last
        return last is not None and last.segment is self._log.snapshot().active and last.segment.is_active

    def known_index(self, segment: Segment) -> LineIndex | None:
        """Return the line index of a segment of this view as far as it goes, for reading only."""
        part = self.find(segment)
        return None if part is None else part.line_index

    @property
    def is_current(self) -> bool:
        """Whether the log start and segments are still those of this view, and no line index was wrong."""
        snapshot = self._log.snapshot()
        if self.is_refuted or self._log.log_start_offset != self.start_offset:
            return False
        if snapshot is not self._containing:
            if not all(_contains(snapshot, part.segment) for part in list(self._parts)):
                return False
            self._containing = snapshot
        return True

    # --- growing ---------------------------------------------------------------------------------------------------

    def refresh(self, *, nowait: bool = False, bytes_max: int | None = None, whole_segments_only: bool = False) -> bool:
        """Include appended records; return whether the view was complete at the time of the call.

        Costs nothing without appends. Reads at most about `bytes_max` of segments without an index; call again after
        False. With `whole_segments_only`, a segment that needs more is not started. With `nowait`, `WouldBlock` if more
        than 1 MiB must be read, or anything that is not cached.
        """
        end_offset, snapshot = self._view.end_offset(nowait=nowait), self._log.snapshot()
        # Called for each read and getattr, so without growth it takes no lock.
        if self._refreshed[0] is snapshot and self._refreshed[1] == end_offset:
            return True
        if not self._lock.acquire(blocking=not nowait):
            raise WouldBlock("line indexes are being built", path=self._log.path)
        try:
            self._left = NOWAIT_BYTES_MAX if nowait else bytes_max or sys.maxsize
            self._whole_segments_only = whole_segments_only
            if not self._grow(snapshot, end_offset, nowait):
                return False
            self._refreshed = (snapshot, end_offset)
            return True
        finally:
            self._lock.release()

    def _grow(self, snapshot: Segments, end_offset: int, nowait: bool) -> bool:
        self._sweep(snapshot, nowait)
        last = self.last
        if last is not None and not self._extend(last, snapshot, end_offset, nowait):
            return False
        following, self._snapshot = self._following(snapshot, nowait), snapshot
        return all(
            self._extend(self._add(segment, snapshot, nowait), snapshot, end_offset, nowait)
            for segment in following
            if segment.base_offset <= end_offset
        )

    def _following(self, snapshot: Segments, nowait: bool) -> Iterator[Segment]:
        """Return the segments after the last part. ESTALE if the next one was removed or replaced meanwhile."""
        if self.last is None:
            return snapshot.from_floor(self.start_offset)
        last = self.last.segment
        if _contains(snapshot, last):
            return _after(snapshot, last)
        following = next(_after(self._snapshot, last), None) if self._snapshot is not None else None
        if following is None:  # the last part was the active segment: the next begins where it ended
            if nowait:
                raise WouldBlock("the end of a removed segment must be found", path=last.log_path)
            base_offset = max((header.next_offset for _, header in last.headers()), default=last.base_offset)
            following = snapshot.floor(base_offset)
            is_there = following is not None and following.base_offset == base_offset
        else:
            is_there = _contains(snapshot, following)
        if following is None or not is_there:
            # An error instead of a jump: `tail -f` would otherwise skip records without a sign.
            raise OSError(errno.ESTALE, "the next segment was removed; open the file again", last.log_path)
        return snapshot.from_floor(following.base_offset)

    def _add(self, segment: Segment, snapshot: Segments, nowait: bool) -> ViewPart:
        """Add a segment at the end, with its stored line index or an empty one."""
        return self._add_part(segment, self._index_for(segment, snapshot, nowait))

    def _index_for(self, segment: Segment, snapshot: Segments, nowait: bool) -> LineIndex:
        inherited = self._inherited.pop(segment.base_offset, None)
        if inherited is not None and inherited.segment is segment:
            return inherited.line_index
        is_active = segment is snapshot.active
        may_be_stored = (
            segment.size > 0 if not is_active else self._stored_indexes.cache and segment.size >= LOG_BYTES_MIN
        )
        if not may_be_stored or self._view.is_committed_only or not self.view_format.suffix:
            return LineIndex(segment.base_offset, self._view.shows, view_format=self.view_format)
        if nowait:
            raise WouldBlock("the line index may be on disk", path=segment.log_path)
        self._left -= _LOAD_COST_BYTES
        stored = self._stored_indexes.load(segment, is_active=is_active)
        return stored or LineIndex(segment.base_offset, view_format=self.view_format)

    def _extend(self, part: ViewPart, snapshot: Segments, end_offset: int, nowait: bool) -> bool:
        """Extend a part to the end of its segment, or of the view; return whether that was reached."""
        segment, index = part.segment, part.line_index
        end, begun = self._end_of(segment, snapshot, end_offset, nowait), part.line_index.log_bytes
        # `whole_segments_only` is for listings: one that only wants to know whether `values` has a known size read a
        # damaged gigabyte to its end.
        if begun < end:
            if nowait and self.view_format.is_slow:
                raise WouldBlock("lines are made in a thread", path=segment.log_path)
            if self._left <= 0 or (self._whole_segments_only and end - begun > self._left):
                return False
            if nowait and end - begun > self._left:
                raise WouldBlock("a long range has no line index", path=segment.log_path)
            index.extend(segment, end, on_damage=self._on_damage, nowait=nowait, bytes_max=self._left)
            self._left -= index.log_bytes - begun
            if index.log_bytes < end:
                return False
        self._skip_below_start(part, nowait)
        self._store(part, nowait, is_active=segment is snapshot.active)
        return True

    def _end_of(self, segment: Segment, snapshot: Segments, end_offset: int, nowait: bool) -> int:
        """Return the byte at which the view ends in a segment: its size, unless the view ends inside it."""
        if self._view.is_committed_only and snapshot.floor(end_offset) is segment:
            return segment.position_of(end_offset, nowait=nowait)
        return segment.size

    def _skip_below_start(self, part: ViewPart, nowait: bool) -> None:
        """Start the view inside the first segment if the log start lies in it."""
        if self._start_is_known:
            return
        if part.segment.base_offset < self.start_offset:
            if nowait:
                raise WouldBlock("the log start lies inside a segment", path=part.segment.log_path)
            # The log start may lie inside a batch that cannot be read; `output_before` then counts nothing for it, and
            # the rest of the view stays readable.
            self._cut_head(part.line_index.output_before(part.segment, self.start_offset))
        self._start_is_known = True

    def _store(self, part: ViewPart, nowait: bool, *, is_active: bool) -> None:
        """Store a line index, if the log directory or the cache is writable."""
        if not self._stored_indexes.should_store(part.segment, part.line_index, is_active=is_active):
            return
        if nowait:
            raise WouldBlock("a line index must be written", path=part.segment.log_path)
        self._stored_indexes.save(part.segment, part.line_index)

    def _sweep(self, snapshot: Segments, nowait: bool) -> None:
        """Remove line indexes of removed segments, once per view."""
        if self._swept or (self._log.read_only and self._stored_indexes.cache is None):
            return
        if nowait:
            raise WouldBlock("obsolete line indexes must be removed", path=self._log.path)
        if self._stored_indexes.cache is not None:
            self._stored_indexes.cache.sweep(snapshot)
            self._swept = True
            return
        for name in files.names(self._log.path):
            parsed = parse_segment_name(name)
            if parsed is not None and parsed[1] == self.view_format.suffix:
                segment = snapshot.floor(parsed[0])
                if segment is None or segment.base_offset != parsed[0]:
                    files.remove_file(os.path.join(self._log.path, name))
        self._swept = True


def _after(snapshot: Segments, segment: Segment) -> Iterator[Segment]:
    """Yield the segments after `segment`, which the snapshot contains."""
    segments = snapshot.from_floor(segment.base_offset)
    next(segments)
    return segments


def _contains(snapshot: Segments, segment: Segment) -> bool:
    return snapshot.floor(segment.base_offset) is segment
