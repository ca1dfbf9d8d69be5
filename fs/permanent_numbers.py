"""Numbers that are assigned at first access and never reused: groups, topics and partitions in inode numbers."""

from __future__ import annotations

import errno
from collections.abc import Hashable
from typing import Generic, TypeVar

from pyfuse3 import FUSEError

K = TypeVar("K", bound=Hashable)


class PermanentNumbers(Generic[K]):
    """Things by number, from 0 on. None is forgotten: their count is bounded by the content of the log directory."""

    def __init__(self) -> None:
        self._seen: list[K] = []
        self._places: dict[K, int] = {}

    def of(self, thing: K) -> int:
        place = self._places.setdefault(thing, len(self._seen))
        if place == len(self._seen):
            self._seen.append(thing)
        return place

    def at(self, place: int) -> K:
        """Return the thing with this number. ESTALE for a number that was never assigned."""
        if place >= len(self._seen):
            raise FUSEError(errno.ESTALE)
        return self._seen[place]
