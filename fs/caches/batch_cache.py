"""A cache of recently read batches, found by any offset in them. For the event loop only."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Hashable

from offsetfs.storage import Batch

Source = Hashable
"""The source of a batch: a partition, until one of its segments is replaced."""


class BatchCache:
    """An LRU cache of at most `bytes_max` bytes of batches, inflated records included."""

    __slots__ = ("_bases", "_batches", "hits", "misses", "size", "size_max")

    def __init__(self, bytes_max: int) -> None:
        self.size_max = bytes_max
        self.size = 0
        self.hits = 0
        self.misses = 0
        self._batches: OrderedDict[tuple[Source, int], tuple[Batch, int]] = OrderedDict()
        self._bases: dict[Source, list[int]] = {}  # base offsets of the cached batches, sorted

    def find(self, source: Source, offset: int) -> Batch | None:
        """Return the cached batch of `source` that contains `offset`, None if there is none."""
        batch = self._find(source, offset)
        if batch is None:
            self.misses += 1
        else:
            self.hits += 1
        return batch

    def _find(self, source: Source, offset: int) -> Batch | None:
        bases = self._bases.get(source)
        if not bases:
            return None
        index = bisect_right(bases, offset) - 1
        if index < 0:
            return None
        key = (source, bases[index])
        batch = self._batches[key][0]
        if batch.header.last_offset < offset:
            return None
        self._batches.move_to_end(key)
        return batch

    def keep(self, source: Source, batch: Batch) -> None:
        """Add a batch. Its size is that of buffer and inflated records. A batch above `bytes_max` is not cached."""
        key, size = (source, batch.base_offset), _memory(batch)
        if key in self._batches or size > self.size_max:
            return
        self._batches[key] = (batch, size)
        insort(self._bases.setdefault(source, []), key[1])
        self.size += size
        while self.size > self.size_max:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        (source, base_offset), (_, size) = self._batches.popitem(last=False)
        self.size -= size
        bases = self._bases[source]
        del bases[bisect_right(bases, base_offset) - 1]
        if not bases:
            del self._bases[source]


def _memory(batch: Batch) -> int:
    owner = batch.data.obj  # the buffer may be longer than the batch, because look-ups read ahead
    buffered = len(owner) if isinstance(owner, bytes | bytearray) else len(batch.data)
    return buffered + (len(batch.payload()) if batch.header.codec else 0)
