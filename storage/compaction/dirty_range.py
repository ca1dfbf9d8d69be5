"""The dirty range of a log, which compaction should process, and its urgency.

    0            first dirty                first uncleanable      end
    |  clean     |  dirty: cleanable        |  not yet             |

The clean part was compacted before: it has no two records of a key. A round scans the dirty part and rewrites both. It
ends before the active segment, before the first open transaction, and before records younger than
`min.compaction.lag.ms`, always at the start of a segment. Follows Kafka's LogCleanerManager (cleanableOffsets,
grabFilthiestCompactedLog) and LogToClean.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from offsetfs.storage.partition.log import Log
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_map import Segments

_Name = TypeVar("_Name")


@dataclass(frozen=True, slots=True)
class DirtyRange:
    """The input of a round. `[first_dirty, first_uncleanable)` is dirty; a segment begins at `first_uncleanable`."""

    first_dirty: int
    first_uncleanable: int
    clean_bytes: int
    cleanable_bytes: int
    ratio_min: float
    is_overdue: bool
    """Whether a record has waited longer than `max.compaction.lag.ms`."""

    @property
    def ratio(self) -> float:
        """The dirty part of the bytes that a round would rewrite: 0 to 1."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def fields(self) -> dict[str, object]:
        """Return what `info` and `status` show, under the names of Kafka's LogToClean; the ratio is 0 to 1."""
        return {
            "first_dirty_offset": self.first_dirty,
            "first_uncleanable_offset": self.first_uncleanable,
            "dirty_ratio": round(self.ratio, 3),
        }

    @property
    def is_due(self) -> bool:
        """Whether a round is worthwhile or required."""
        return self.cleanable_bytes > 0 and (self.is_overdue or self.ratio > self.ratio_min)


def find_dirty_range(log: Log, cleaner_offset: int | None, now_ms: int) -> DirtyRange:
    """Return the dirty range of `log`, whose checkpoint is `cleaner_offset` (None: no entry).

    Costs an index look-up; with a lag configured, also a read of the first batch of each dirty segment.
    """
    segments = log.snapshot()
    first_dirty = log.log_start_offset if cleaner_offset is None else cleaner_offset
    if not log.log_start_offset <= first_dirty <= log.next_offset:
        first_dirty = log.log_start_offset  # the checkpoint is wrong, and the round corrects it
    bound = max(first_dirty, _first_uncleanable(log, segments, first_dirty, now_ms))
    first_uncleanable = next((s.base_offset for s in _sealed_from(segments, bound)), segments.active.base_offset)
    begin = min(first_dirty, first_uncleanable)
    return DirtyRange(
        first_dirty=first_dirty,
        first_uncleanable=first_uncleanable,
        clean_bytes=sum(segment.size for segment in segments if segment.base_offset < first_dirty),
        cleanable_bytes=sum(s.size for s in segments.from_floor(begin) if s.base_offset < first_uncleanable),
        ratio_min=log.config.min_cleanable_dirty_ratio,
        is_overdue=_is_overdue(log, segments, first_dirty, now_ms),
    )


def most_dirty(candidates: Iterable[tuple[_Name, DirtyRange]]) -> _Name | None:
    """Return the name of the candidate with the highest ratio among those that are due, or None."""
    due = [(name, dirty) for name, dirty in candidates if dirty.is_due]
    return max(due, key=lambda pair: pair[1].ratio)[0] if due else None


def _first_uncleanable(log: Log, segments: Segments, first_dirty: int, now_ms: int) -> int:
    bound = min(log.last_stable_offset(), segments.active.base_offset)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        young = (s.base_offset for s in _sealed_from(segments, first_dirty) if _latest_ms(s) > now_ms - lag_ms)
        bound = min(bound, next(young, bound))
    return bound


def _is_overdue(log: Log, segments: Segments, first_dirty: int, now_ms: int) -> bool:
    latest = now_ms - log.config.max_compaction_lag_ms
    if latest <= 0:
        return False
    return any(0 < _first_ms(segment) < latest for segment in _sealed_from(segments, first_dirty))


def _sealed_from(segments: Segments, offset: int) -> list[Segment]:
    """Return the sealed segments from the one of `offset` on."""
    active = segments.active
    return [segment for segment in segments.from_floor(offset) if segment is not active]


def _latest_ms(segment: Segment) -> int:
    """Return the largest timestamp in a segment, or the file's modification time if no record has one."""
    timestamp = segment.max_timestamp()[0]
    return timestamp if timestamp >= 0 else segment.modified_ns // 1_000_000


def _first_ms(segment: Segment) -> int:
    return next((header.max_timestamp for _, header in segment.headers()), -1)
