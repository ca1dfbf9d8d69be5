"""Numbers that are assigned at first access and never reused: groups, topics and partitions in inode numbers."""

from __future__ import annotations

import errno
from collections.abc import Hashable
from typing import Generic, TypeVar

from pyfuse3 import FUSEError

K = TypeVar("K", bound=Hashable)


class PermanentNumbers(Generic[K]):
    """Items by number, from 0 on. None is forgotten: their count is bounded by the content of the log directory."""

    def __init__(self) -> None:
        self._seen: list[K] = []
        self._numbers: dict[K, int] = {}

    def of(self, item: K) -> int:
        """Return the number of `item`; assign one at the first call."""
        number = self._numbers.setdefault(item, len(self._seen))
        if number == len(self._seen):
            self._seen.append(item)
        return number

    def at(self, number: int) -> K:
        """Return the item with this number. ESTALE for a number that was never assigned."""
        if number >= len(self._seen):
            raise FUSEError(errno.ESTALE)
        return self._seen[number]
