"""A bounded pool of open files, so that ten thousand segments do not cost ten thousand descriptors.

What falls out of the pool is only let go, never closed under a reader: an entry closes itself when the last one who
holds it drops it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Pool(Generic[T]):
    """At most `count_max` opened things, the least recently used let go first. Safe to use from any thread."""

    def __init__(self, count_max: int) -> None:
        self.count_max = count_max
        self._entries: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = threading.RLock()  # what an entry that is let go drops in turn may be in this very pool

    def peek(self, key: Hashable) -> T | None:
        """Return what is open under `key`, or None; never opens, never waits for the disk."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
            return entry

    def get(self, key: Hashable, opener: Callable[[], T]) -> T:
        """Return what is open under `key`, opening it when needed. Two threads may open; one result is kept."""
        entry = self.peek(key)
        if entry is not None:
            return entry
        opened = opener()
        with self._lock:
            entry = self._entries.setdefault(key, opened)
            while len(self._entries) > self.count_max:
                self._entries.popitem(last=False)
            return entry

    def drop(self, key: Hashable) -> None:
        with self._lock:
            self._entries.pop(key, None)

    def clear(self) -> None:
        """Let everything go; what is in use closes with its last user."""
        with self._lock:
            self._entries.clear()
