"""Batches that were read lately, found by any offset in them. For use on the event loop alone."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import OrderedDict

from offsetfs.storage.batch import Batch


class BatchCache:
    """At most `bytes_max` bytes of batches, inflated records included; what was used longest ago goes first."""

    __slots__ = ("_bases", "_batches", "bytes", "bytes_max")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self._batches: OrderedDict[tuple[int, int], tuple[Batch, int]] = OrderedDict()
        self._bases: dict[int, list[int]] = {}  # base offsets of what is kept, sorted, by partition number

    def find(self, partition: int, offset: int) -> Batch | None:
        """Return the kept batch of the partition whose range holds `offset`."""
        bases = self._bases.get(partition)
        if not bases:
            return None
        place = bisect_right(bases, offset) - 1
        if place < 0:
            return None
        key = (partition, bases[place])
        batch = self._batches[key][0]
        if batch.header.last_offset < offset:
            return None
        self._batches.move_to_end(key)
        return batch

    def keep(self, partition: int, batch: Batch) -> None:
        """Keep a batch. Its buffer counts with its inflated records; one larger than all room is not kept."""
        key, size = (partition, batch.base_offset), _memory(batch)
        if key in self._batches or size > self.bytes_max:
            return
        self._batches[key] = (batch, size)
        insort(self._bases.setdefault(partition, []), key[1])
        self.bytes += size
        while self.bytes > self.bytes_max:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        (partition, base_offset), (_, size) = self._batches.popitem(last=False)
        self.bytes -= size
        bases = self._bases[partition]
        del bases[bisect_right(bases, base_offset) - 1]
        if not bases:
            del self._bases[partition]


def _memory(batch: Batch) -> int:
    owner = batch.data.obj  # a look-up reads ahead: the buffer may be longer than the batch
    buffered = len(owner) if isinstance(owner, bytes | bytearray) else len(batch.data)
    return buffered + (len(batch.payload()) if batch.header.codec else 0)
