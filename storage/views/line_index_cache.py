"""Line indexes of a read-only log, in the user cache (`user_cache`).

    <cache>/maps/<hash of the log's path>/<base offset>.values-map, .records-map

The files have the format of those beside a log (docs/internals/format/values-map.md), with three differences. They
include the inode of the log file, so that a replaced file is detected. They may end before the segment does: that of
the active segment, to which a broker appends, is extended. And their entries are loaded into memory, so that removing
the cache does not affect readers.

No call raises: a cache that cannot be read or written costs time. Thread-safe.
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
from offsetfs.storage.views import line_index_file, user_cache
from offsetfs.storage.views.line_index import LineIndex
from offsetfs.storage.views.view_format import ViewFormat

MAPS = "maps"

LOG_BYTES_MIN = 1 << 20
"""A smaller segment can be scanned as fast as its index is read."""

MAP_BYTES_MAX = 64 << 20
"""Limits the memory for a file in the cache. An index of four million entries is not cached."""

GROWTH_BYTES = 16 << 20
"""The growth after which the index of the active segment is stored again: as much as a listing reads on its own."""


class LineIndexCache:
    """The line indexes of one log in a cache."""

    def __init__(self, cache: str, log: Log) -> None:
        self._cache = cache
        self._log = log
        self._name = ""
        self._is_writable = True

    def load(self, segment: Segment, view_format: ViewFormat) -> LineIndex | None:
        """Return the cached index of a segment if it matches this log, else None. It can be extended."""
        if segment.size < LOG_BYTES_MIN:
            return None
        with contextlib.suppress(OSError):
            if user_cache.is_usable(self._cache, MAPS, self._log_name()):
                image = files.read_file(self._path(segment, view_format), MAP_BYTES_MAX)
                return LineIndex.from_image(segment, image, view_format, _identity(segment, view_format))
        return None

    def should_store(self, index: LineIndex, *, is_active: bool) -> bool:
        """Whether an index that begins at its segment's start should be stored, or stored again."""
        if index.is_stored or not self._is_writable:
            return False
        new_bytes = index.log_bytes - index.stored_bytes
        is_due = new_bytes >= GROWTH_BYTES if is_active else new_bytes > 0
        return is_due and index.log_bytes >= LOG_BYTES_MIN and line_index_file.size_of(index.count) <= MAP_BYTES_MAX

    def save(self, segment: Segment, index: LineIndex) -> None:
        """Store an index for later use."""
        try:
            user_cache.prepare(self._cache, MAPS, self._log_name())
            files.put_private(
                self._path(segment, index.view_format), index.image(_identity(segment, index.view_format))
            )
        except OSError:
            # One attempt per mount: a cache on a full or read-only disk would otherwise fail at each segment.
            self._is_writable = False
        else:
            index.stored_bytes = index.log_bytes

    def sweep(self, segments: Segments) -> None:
        """Remove the indexes of this log's removed segments, and those of logs that were not used for long."""
        with contextlib.suppress(OSError):
            if not user_cache.is_usable(self._cache, MAPS):
                return
            if user_cache.is_usable(self._cache, MAPS, self._log_name()):
                self._sweep_own(segments)
            user_cache.sweep(os.path.join(self._cache, MAPS))

    def _sweep_own(self, segments: Segments) -> None:
        folder = os.path.join(self._cache, MAPS, self._log_name())
        # `sweep` removes the caches that were not used for long; the kernel does not update access times reliably
        # (relatime).
        files.set_modified(folder, SYSTEM.now_ms() * 1_000_000)
        for name in files.names(folder):
            if _is_obsolete(name, segments):
                files.remove_file(os.path.join(folder, name))

    def _path(self, segment: Segment, view_format: ViewFormat) -> str:
        return os.path.join(self._cache, MAPS, self._log_name(), segment_name(segment.base_offset, view_format.suffix))

    def _log_name(self) -> str:
        self._name = self._name or user_cache.name_of(self._log)
        return self._name


def _identity(segment: Segment, view_format: ViewFormat) -> bytes:
    """Return what an index depends on besides the bytes of the log."""
    # The inode number detects a segment that a broker replaced under the same name.
    return b"%s\ninode %d\n" % (view_format.identity, segment.open_files().log.stat().st_ino)


def _is_obsolete(name: str, segments: Segments) -> bool:
    """Whether a file of that name is obsolete. Files with other names are not removed."""
    parsed = parse_segment_name(name)
    if parsed is None or parsed[1] not in MAP_SUFFIXES:
        return name.endswith(".tmp")
    segment = segments.floor(parsed[0])
    return segment is None or segment.base_offset != parsed[0]
