"""Numbers for things that are seen, given once and for all: what an inode says of a group, a topic, a partition."""

from __future__ import annotations

import errno
from collections.abc import Hashable
from typing import Generic, TypeVar

from pyfuse3 import FUSEError

K = TypeVar("K", bound=Hashable)


class PermanentNumbers(Generic[K]):
    """Things by their numbers, from 0 on. They are as many as the log directory has; none is ever forgotten."""

    def __init__(self) -> None:
        self._seen: list[K] = []
        self._places: dict[K, int] = {}

    def of(self, thing: K) -> int:
        place = self._places.setdefault(thing, len(self._seen))
        if place == len(self._seen):
            self._seen.append(thing)
        return place

    def at(self, place: int) -> K:
        """Return what has this number; ESTALE for one that was never given."""
        if place >= len(self._seen):
            raise FUSEError(errno.ESTALE)
        return self._seen[place]
