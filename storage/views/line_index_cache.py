"""View maps of a log that may not be written to, kept in the user's cache (`user_cache`).

    <cache>/maps/<hash of the log's path>/<base offset>.values-map, .records-map

A map here is what it is beside a log (docs/internals/format/values-map.md), with three differences. It also names the
inode of the log file, so that one file is not taken for another. It may end before its segment does: that of the active
segment, to which a broker appends, goes on from where it ends. And its entries are held in memory: whatever becomes of
the cache costs no reader anything.

No call raises: a cache that cannot be read or written costs time. Threads: any.
"""

from __future__ import annotations

import contextlib
import os

from offsetfs.storage import files
from offsetfs.storage.clock import SYSTEM
from offsetfs.storage.names import MAP_SUFFIXES, parse_segment_name, segment_name
from offsetfs.storage.partition.log import Log
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_map import Segments
from offsetfs.storage.views import user_cache
from offsetfs.storage.views.line_index import LineIndex
from offsetfs.storage.views.view_format import ViewFormat

MAPS = "maps"

LOG_BYTES_MIN = 1 << 20
"""Below that a segment is measured as soon as its map is read."""

MAP_BYTES_MAX = 64 << 20
"""Bounds what a file in the cache may make us allocate; a map of four million entries is not kept."""

GROWTH_BYTES = 16 << 20
"""After how much more log the map of the active segment is put down again: as much as a listing reads by itself."""


class LineIndexCache:
    """The maps of one log in a cache."""

    def __init__(self, cache: str, log: Log) -> None:
        self._cache = cache
        self._log = log
        self._name = ""
        self._is_writable = True

    def load(self, segment: Segment, form: ViewFormat) -> LineIndex | None:
        """Return what is kept of a segment, as far as it describes this log; it may grow on. Else None."""
        if segment.size < LOG_BYTES_MIN:
            return None
        with contextlib.suppress(OSError):
            if user_cache.is_usable(self._cache, MAPS, self._log_name()):
                image = files.read_file(self._path(segment, form), MAP_BYTES_MAX)
                return LineIndex.from_image(segment, image, form, _identity(segment, form))
        return None

    def wants(self, map_: LineIndex, *, is_active: bool) -> bool:
        """Whether a map from its segment's beginning is worth being put down, be it again."""
        if map_.is_kept or not self._is_writable:
            return False
        new_bytes = map_.log_bytes - map_.kept_bytes
        is_due = new_bytes >= GROWTH_BYTES if is_active else new_bytes > 0
        return is_due and map_.log_bytes >= LOG_BYTES_MIN and map_.image_size <= MAP_BYTES_MAX

    def save(self, segment: Segment, map_: LineIndex) -> None:
        """Put a map down, for whoever looks next."""
        try:
            user_cache.prepare(self._cache, MAPS, self._log_name())
            files.put_private(self._path(segment, map_.form), map_.image(_identity(segment, map_.form)))
        except OSError:
            self._is_writable = False
        else:
            map_.kept_bytes = map_.log_bytes

    def sweep(self, segments: Segments) -> None:
        """Remove the maps of this log's segments that are gone, and those of logs that nobody looked at for long."""
        with contextlib.suppress(OSError):
            if not user_cache.is_usable(self._cache, MAPS):
                return
            if user_cache.is_usable(self._cache, MAPS, self._log_name()):
                self._sweep_own(segments)
            user_cache.sweep(os.path.join(self._cache, MAPS))

    def _sweep_own(self, segments: Segments) -> None:
        place = os.path.join(self._cache, MAPS, self._log_name())
        files.set_modified(place, SYSTEM.now_ms() * 1_000_000)
        for name in files.names(place):
            if _is_left(name, segments):
                files.remove_file(os.path.join(place, name))

    def _path(self, segment: Segment, form: ViewFormat) -> str:
        return os.path.join(self._cache, MAPS, self._log_name(), segment_name(segment.base_offset, form.suffix))

    def _log_name(self) -> str:
        self._name = self._name or user_cache.name_of(self._log)
        return self._name


def _identity(segment: Segment, form: ViewFormat) -> bytes:
    """Return what a map depends on beside the bytes of the log."""
    return b"%s\ninode %d\n" % (form.identity, segment.open_files().log.stat().st_ino)


def _is_left(name: str, segments: Segments) -> bool:
    """Whether a file of that name is of nobody any more. One that is not named by us is not ours to remove."""
    parsed = parse_segment_name(name)
    if parsed is None or parsed[1] not in MAP_SUFFIXES:
        return name.endswith(".tmp")
    segment = segments.floor(parsed[0])
    return segment is None or segment.base_offset != parsed[0]
