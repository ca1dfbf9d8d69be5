"""A bounded pool of open files, so that ten thousand segments do not need ten thousand descriptors.

An entry that is evicted is not closed under a reader: it closes when its last user drops it. A pool with `finds_held`
still finds an evicted entry while it is in use, because its file may no longer have a name to open it by.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class FilePool(Generic[T]):
    """At most `count_max` open entries; the least recently used one is evicted first. Thread-safe."""

    def __init__(self, count_max: int, *, finds_held: bool = False) -> None:
        """`finds_held` needs entries that support weak references."""
        self.count_max = count_max
        self._finds_held = finds_held
        self._entries: OrderedDict[Hashable, T] = OrderedDict()
        # A segment that was unlinked while a reader has it open can be opened by no name; only the reader's object
        # leads to it.
        self._held: weakref.WeakValueDictionary[Hashable, T] = weakref.WeakValueDictionary()
        self._lock = threading.RLock()  # reentrant: dropping an evicted entry may call this pool again

    def peek(self, key: Hashable) -> T | None:
        """Return the entry of `key`, or None; never opens a file, never waits for the disk."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
                return entry
            return self._held.get(key)

    def get(self, key: Hashable, opener: Callable[[], T]) -> T:
        """Return the entry of `key`, opening it if needed. Two threads may open it at once; one result is kept."""
        entry = self.peek(key)
        if entry is not None:
            return entry
        opened = opener()
        with self._lock:
            # Opened outside of the lock, because an open may wait for the disk; the first result wins.
            entry = self._entries.setdefault(key, opened)
            if self._finds_held:
                self._held[key] = entry
            while len(self._entries) > self.count_max:
                self._entries.popitem(last=False)
            return entry

    def drop(self, key: Hashable) -> None:
        """Drop the entry, so that the next `get` opens it again."""
        with self._lock:
            self._held.pop(key, None)
            self._entries.pop(key, None)

    def evict(self, key: Hashable) -> None:
        """Evict the entry; it stays open while in use, and can still be found then."""
        with self._lock:
            self._entries.pop(key, None)

    def evict_all(self) -> bool:
        """Evict all entries, as `evict`; return whether there were any."""
        with self._lock:
            had_entries = bool(self._entries)
            self._entries.clear()
        return had_entries

    def clear(self) -> None:
        """Drop all entries; those in use close with their last user."""
        with self._lock:
            self._held.clear()
            self._entries.clear()
