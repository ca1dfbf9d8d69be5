"""Segments: log file, indexes, file names, and the map of the segments of a partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.lazy_names import lazy_names

if TYPE_CHECKING:
    from offsetfs.storage.names import parse_segment_name, segment_name
    from offsetfs.storage.segments.log_prefix import LogPrefix, measure_prefix
    from offsetfs.storage.segments.segment import Segment
    from offsetfs.storage.segments.segment_map import Segments

__all__ = [
    "LogPrefix",
    "Segment",
    "Segments",
    "measure_prefix",
    "parse_segment_name",
    "segment_name",
]

__getattr__ = lazy_names(
    __name__,
    {
        "LogPrefix": "segments.log_prefix",
        "Segment": "segments.segment",
        "Segments": "segments.segment_map",
        "measure_prefix": "segments.log_prefix",
        "parse_segment_name": "names",
        "segment_name": "names",
    },
)
