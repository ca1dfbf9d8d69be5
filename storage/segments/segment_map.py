"""The segment map of a log: base offset → segment, as an immutable, sorted snapshot.

Readers take the snapshot and keep it as long as they like; a writer that rolls or removes puts a new one in its place
(Kafka's LogSegments uses a concurrent skip list for the same purpose). A segment lives as long as somebody holds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sortedcontainers import SortedDict

from offsetfs.storage.segments.segment import Segment


class Segments:
    """An immutable sorted map of segments by base offset."""

    __slots__ = ("_by_base",)

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self._by_base = SortedDict((segment.base_offset, segment) for segment in segments)

    def __len__(self) -> int:
        return len(self._by_base)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._by_base.values())

    def values(self) -> list[Segment]:
        """Return all segments, oldest first."""
        return list(self._by_base.values())

    def floor(self, offset: int) -> Segment | None:
        """Return the segment with the greatest base offset ≤ `offset`."""
        place = self._by_base.bisect_right(offset) - 1
        return self._by_base.peekitem(place)[1] if place >= 0 else None

    def from_floor(self, offset: int) -> Iterator[Segment]:
        """Yield the segment that may hold `offset` and all later ones; from the first when all lie above."""
        place = max(self._by_base.bisect_right(offset) - 1, 0)
        for base in self._by_base.islice(place):
            yield self._by_base[base]

    def base_behind(self, segment: Segment) -> int | None:
        """Return where the segment behind `segment` begins; None behind the last."""
        place = self._by_base.bisect_right(segment.base_offset)
        return int(self._by_base.peekitem(place)[0]) if place < len(self._by_base) else None

    @property
    def first(self) -> Segment:
        segment: Segment = self._by_base.peekitem(0)[1]
        return segment

    @property
    def active(self) -> Segment:
        """The segment with the highest base offset, the only one that grows."""
        segment: Segment = self._by_base.peekitem(-1)[1]
        return segment

    def plus(self, segment: Segment) -> Segments:
        """Return a map with `segment` added, in the place of one with the same base offset."""
        return Segments([*(s for s in self if s.base_offset != segment.base_offset), segment])

    def without(self, segments: Iterable[Segment]) -> Segments:
        """Return a map that lacks `segments`."""
        gone = {segment.base_offset for segment in segments}
        return Segments(s for s in self if s.base_offset not in gone)
