"""The segment map of a log: base offset → segment, as an immutable, sorted snapshot.

Readers take a snapshot and keep it as long as they need. A writer that rolls or removes segments publishes a new one.
(Kafka's LogSegments uses a concurrent skip list.) A segment lives as long as it is referenced.

Two lists and `bisect`, not a SortedDict. The floor of an offset among 1,000 segments takes 0.2 µs, in a SortedDict 0.6
µs by position and 0.7 µs by `irange`; each read of a record asks for it. A SortedDict that a writer changes in place
cannot be read without a lock: the first reader builds its table of positions. A copy for each change is safe only if
the writer builds that table before it publishes the copy.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from offsetfs.storage.segments.segment import Segment


class Segments:
    """An immutable map of segments, sorted by base offset."""

    __slots__ = ("_bases", "_latest", "_learning", "_segments")

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        by_base = {segment.base_offset: segment for segment in segments}
        self._bases = sorted(by_base)
        self._segments = [by_base[base] for base in self._bases]
        self._latest: list[int] = []  # cache: the largest timestamp up to each of the first segments
        self._learning = threading.Lock()

    def __len__(self) -> int:
        return len(self._bases)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def floor(self, offset: int) -> Segment | None:
        """Return the segment with the greatest base offset ≤ `offset`."""
        index = bisect_right(self._bases, offset) - 1
        return self._segments[index] if index >= 0 else None

    def from_floor(self, offset: int) -> Iterator[Segment]:
        """Yield the segment that may hold `offset` and all later ones; all segments if `offset` lies below the
        first.
        """
        for index in range(max(bisect_right(self._bases, offset) - 1, 0), len(self._segments)):
            yield self._segments[index]

    def next_base_offset(self, segment: Segment) -> int | None:
        """Return the base offset of the segment after `segment`; None after the last."""
        index = bisect_right(self._bases, segment.base_offset)
        return self._bases[index] if index < len(self._bases) else None

    def from_timestamp(self, timestamp: int, *, nowait: bool = False) -> Iterator[Segment]:
        """Yield the segments from the first that has a record of `timestamp` or later.

        Largest timestamps of sealed segments are cached, so that a binary search finds the first of a thousand
        segments.
        """
        for index in range(bisect_left(self._latest, timestamp), len(self._segments)):
            segment = self._segments[index]
            if segment.has_timestamp(timestamp, nowait=nowait):
                yield segment
            elif segment is not self.active:
                self._cache_latest(index, segment.max_timestamp()[0])

    def _cache_latest(self, index: int, latest: int) -> None:
        with self._learning:
            if index == len(self._latest):
                self._latest.append(max(latest, self._latest[-1] if index else latest))

    @property
    def first(self) -> Segment:
        return self._segments[0]

    @property
    def active(self) -> Segment:
        """The segment with the highest base offset, the only one that grows."""
        return self._segments[-1]

    def plus(self, segment: Segment) -> Segments:
        """Return a map with `segment` added, or replacing one with the same base offset."""
        return Segments([*(s for s in self if s.base_offset != segment.base_offset), segment])

    def without(self, segments: Iterable[Segment]) -> Segments:
        """Return a map without `segments`."""
        gone = {segment.base_offset for segment in segments}
        return Segments(s for s in self if s.base_offset not in gone)
