"""A bounded pool of open files, so that ten thousand segments do not cost ten thousand descriptors.

What falls out of the pool is only let go, never closed under a reader: an entry closes itself when the last one who
holds it drops it. A pool that `finds_held` gives it out as long as somebody holds it: it may have no name any more by
which it could be opened again.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class FilePool(Generic[T]):
    """At most `count_max` opened things, the least recently used let go first. Safe to use from any thread."""

    def __init__(self, count_max: int, *, finds_held: bool = False) -> None:
        """`finds_held` needs entries that take weak references."""
        self.count_max = count_max
        self._finds_held = finds_held
        self._entries: OrderedDict[Hashable, T] = OrderedDict()
        self._held: weakref.WeakValueDictionary[Hashable, T] = weakref.WeakValueDictionary()
        self._lock = threading.RLock()  # what an entry that is let go drops in turn may be in this very pool

    def peek(self, key: Hashable) -> T | None:
        """Return what is open under `key`, or None; never opens, never waits for the disk."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
                return entry
            return self._held.get(key)

    def get(self, key: Hashable, opener: Callable[[], T]) -> T:
        """Return what is open under `key`, opening it when needed. Two threads may open; one result is kept."""
        entry = self.peek(key)
        if entry is not None:
            return entry
        opened = opener()
        with self._lock:
            entry = self._entries.setdefault(key, opened)
            if self._finds_held:
                self._held[key] = entry
            while len(self._entries) > self.count_max:
                self._entries.popitem(last=False)
            return entry

    def drop(self, key: Hashable) -> None:
        """Have it opened anew when it is asked for again."""
        with self._lock:
            self._held.pop(key, None)
            self._entries.pop(key, None)

    def let_go(self, key: Hashable) -> None:
        """Hold it no longer; it stays open for those who do, and is found by them."""
        with self._lock:
            self._entries.pop(key, None)

    def let_all_go(self) -> bool:
        """Hold nothing any longer, as `let_go`; return whether there was anything."""
        with self._lock:
            had_entries = bool(self._entries)
            self._entries.clear()
        return had_entries

    def clear(self) -> None:
        """Let everything go; what is in use closes with its last user."""
        with self._lock:
            self._held.clear()
            self._entries.clear()
