"""Numbers for what is reached by name only and has no number of its own: `range/A..B`, `follow@A`, `by-key/<key>`.

A number is given when a name is looked up, and kept until the kernel has forgotten it as often as it was told: what
was looked up once and never again takes no memory. A number is never given again, so an inode never means another
thing.
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
    thing: K
    lookups: int


class LookupNumbers(Generic[K]):
    """The things of one kind that the kernel knows, by number. On the event loop alone."""

    def __init__(self) -> None:
        self._known: dict[int, _Known[K]] = {}
        self._numbers: dict[K, int] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._known)

    def look_up(self, thing: K) -> int:
        """Return the number of `thing`, and count that the kernel is told of it. Only for replies to LOOKUP."""
        number = self._numbers.get(thing)
        if number is None:
            self._last = number = self._last + 1
            self._numbers[thing] = number
            self._known[number] = _Known(thing, 0)
        self._known[number].lookups += 1
        return number

    def at(self, number: int) -> K:
        """Return what has this number; ESTALE for one that was never given, or is forgotten."""
        known = self._known.get(number)
        if known is None:
            raise FUSEError(errno.ESTALE)
        return known.thing

    def forget(self, number: int, lookups: int) -> None:
        """The kernel forgets so many of the look-ups that it was told of."""
        known = self._known.get(number)
        if known is None:
            return
        known.lookups -= lookups
        if known.lookups <= 0:
            del self._known[number], self._numbers[known.thing]
