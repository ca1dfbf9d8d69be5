"""A cache that evicts the least recently used values. Not thread-safe: the callers of a cache share a thread or lock.

`OrderedDict` moves and evicts in C; cachetools made the read of a record 12 % slower.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

V = TypeVar("V")


class Lru(Generic[V]):
    """Values by key, at most `size_max` in total: bytes, or entries if each has the size 1.

    A value above `size_max` is not cached, unless the cache `keeps_newest`. `hits` and `misses` count the calls of
    `get`, for `.offsetfs/metrics`.
    """

    __slots__ = ("_entries", "_keeps_newest", "hits", "misses", "size", "size_max")

    def __init__(self, size_max: int, *, keeps_newest: bool = False) -> None:
        self.size_max = size_max
        self.size = 0
        self.hits = 0
        self.misses = 0
        self._keeps_newest = keeps_newest
        self._entries: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._entries

    def get(self, key: Hashable) -> V | None:
        """Return the value of `key` and make it the most recently used one. None if it is not cached."""
        entry = self._entries.get(key)
        if entry is None:
            self.misses += 1
            return None
        self.hits += 1
        self._entries.move_to_end(key)
        return entry[0]

    def values(self) -> Iterator[V]:
        """Yield the values; this does not count as a use."""
        return (value for value, _ in self._entries.values())

    def put(self, key: Hashable, value: V, size: int = 1) -> None:
        """Add or replace a value of that size, for example in bytes; evict the least recently used values."""
        self.drop(key)
        if size > self.size_max and not self._keeps_newest:
            return
        self._entries[key] = (value, size)
        self.size += size
        while self.size > self.size_max and len(self._entries) > self._keeps_newest:
            _, (_, freed) = self._entries.popitem(last=False)
            self.size -= freed

    def drop(self, key: Hashable) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.size -= entry[1]

    def clear(self) -> None:
        self._entries.clear()
        self.size = 0
