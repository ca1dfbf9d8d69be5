"""Selects the part of log files between two offsets or times, by index, without reading the rest.

A bound is an offset, or a time: that of the first record, in offset order, that is at or after it (as ListOffsets
returns). The named segments of a directory are treated as one log. Works on a log that is being written to, on foreign
segments, and without indexes, which are then built in temporary files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from offsetfs.storage import files
from offsetfs.storage.dump.log import LOG_SUFFIX, LogOptions
from offsetfs.storage.errors import InvalidName
from offsetfs.storage.names import parse_segment_name
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_files import SegmentFiles
from offsetfs.storage.settings.config import DEFAULTS
from offsetfs.storage.units import I64_MAX, I64_MIN

_OPEN_SEGMENTS_MAX = 8


@dataclass(frozen=True, slots=True)
class RangeBound:
    """An offset, or a time in milliseconds."""

    offset: int | None = None
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class DumpRange:
    """The range from `start` up to, not including, `end`; None means no bound."""

    start: RangeBound | None = None
    end: RangeBound | None = None


def logs_within(paths: Sequence[str], wanted: DumpRange, options: LogOptions) -> Iterator[tuple[str, LogOptions]]:
    """Yield the log files of `paths` that contain part of the range, with the options to dump that part.

    `InvalidName` for a log file that is not named like a segment; errors of reading its batches; OSError.
    """
    directories: dict[str, list[str]] = {}
    for path in paths:
        if path.endswith(LOG_SUFFIX):
            directories.setdefault(os.path.dirname(path), []).append(path)
    for group in directories.values():
        yield from _within_log(sorted(group, key=_base_offset), wanted, options)


def _within_log(paths: list[str], wanted: DumpRange, options: LogOptions) -> Iterator[tuple[str, LogOptions]]:
    pool: FilePool[SegmentFiles] = FilePool(_OPEN_SEGMENTS_MAX)
    segments = [_segment(path, pool) for path in paths]
    start = _offset(wanted.start, segments, I64_MIN)
    end = I64_MAX if wanted.end is None else _offset(wanted.end, segments, I64_MAX)
    for path, segment, following in zip(paths, segments, [*segments[1:], None], strict=True):
        if start >= end or segment.base_offset >= end or (following is not None and following.base_offset <= start):
            continue
        position = segment.position_of(start) if start > segment.base_offset else 0
        yield path, replace(options, position=position, offset_min=start, offset_end=end)


def _segment(path: str, pool: FilePool[SegmentFiles]) -> Segment:
    directory = os.path.dirname(files.real_path(path))
    return Segment(directory, _base_offset(path), DEFAULTS, pool, read_only=True)


def _base_offset(path: str) -> int:
    parsed = parse_segment_name(os.path.basename(path))
    if parsed is None or parsed[1] != LOG_SUFFIX:
        raise InvalidName("not the name of a segment, so there is no index to go by", path=path)
    return parsed[0]


def _offset(bound: RangeBound | None, segments: Iterable[Segment], without: int) -> int:
    """Return the offset of a bound; `without` for None, and the end of the log for a time after it."""
    if bound is None:
        return without
    if bound.timestamp is None:
        return bound.offset or 0
    for segment in segments:
        if segment.max_timestamp()[0] >= bound.timestamp:
            record = segment.find_record(bound.timestamp, 0)
            if record is not None:
                return record.offset
    return I64_MAX
