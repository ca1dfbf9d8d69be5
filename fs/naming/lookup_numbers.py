"""Inode numbers of files that exist by name only: `range/A..B`, `follow@A`, `by-key/<key>`.

A look-up assigns a number. It is kept until the kernel has sent FORGET for as many look-ups as it got replies, so that
unused names take no memory. Numbers are never reused: an inode number always belongs to the same file.
"""

from __future__ import annotations

import errno
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from pyfuse3 import FUSEError

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class _Known(Generic[K]):
    file: K
    lookups: int


class LookupNumbers(Generic[K]):
    """The files of one kind that the kernel knows, by number. For the event loop only."""

    def __init__(self) -> None:
        self._known: dict[int, _Known[K]] = {}
        self._numbers: dict[K, int] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._known)

    def look_up(self, file: K) -> int:
        """Return the number of `file` and count one look-up. Only for replies to LOOKUP: the kernel counts no other."""
        number = self._numbers.get(file)
        if number is None:
            self._last = number = self._last + 1
            self._numbers[file] = number
            self._known[number] = _Known(file, 0)
        self._known[number].lookups += 1
        return number

    def at(self, number: int) -> K:
        """Return the file with this number. ESTALE for a number that was never assigned, or is forgotten."""
        known = self._known.get(number)
        if known is None:
            raise FUSEError(errno.ESTALE)
        return known.file

    def forget(self, number: int, lookups: int) -> None:
        """Count FORGET for so many look-ups; drop the number after the last one."""
        known = self._known.get(number)
        if known is None:
            return
        known.lookups -= lookups
        if known.lookups <= 0:
            del self._known[number], self._numbers[known.file]
