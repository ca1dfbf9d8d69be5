"""The caches of a mount, each bounded in bytes or files.

Only the event loop uses them, except the line indexes, which have a lock.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from offsetfs.common.lru import Lru
from offsetfs.fs.nodes import Buffer
from offsetfs.storage import Batch, BatchHeader, Record, files
from offsetfs.storage.views import LineIndexPool, RecordChunk

if TYPE_CHECKING:
    from offsetfs.storage.views import KeyIndex

RECORD_BYTES_MAX = 8 << 20
BATCH_BYTES_MAX = 16 << 20
BLOCK_BYTES_MAX = 8 << 20
CHUNK_BYTES_MAX = 8 << 20
LINE_INDEXES_MAX = 64
"""The number of line indexes that are open at once: each takes a file descriptor."""
KEY_INDEXES_MAX = 16

Source = Hashable
"""The source of a batch: a partition, until one of its segments is replaced."""


class OpenIndexes:
    """The most recently used key indexes. Others are closed, and opened again at their next use.

    For the event loop only.
    """

    def __init__(self) -> None:
        self._used: OrderedDict[KeyIndex, None] = OrderedDict()

    def use(self, index: KeyIndex) -> list[KeyIndex]:
        """Record the use of an index; return those to close: of deleted partitions, and the least recently used one."""
        closing = self.take_gone()
        self._used[index] = None
        self._used.move_to_end(index)
        if len(self._used) > KEY_INDEXES_MAX:
            closing.append(self._used.popitem(last=False)[0])
        return closing

    def take_gone(self) -> list[KeyIndex]:
        """Return the indexes of deleted partitions, to be closed: an open file keeps its disk space."""
        gone = [index for index in self._used if index.is_gone]
        for index in gone:
            del self._used[index]
        return gone


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
        """Return the cached batch of `source` that contains `offset`; None if no cached batch does."""
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


class RecordContent(NamedTuple):
    """The content of a record's file, with the record and its batch header."""

    value: bytes
    mtime_ns: int
    record: Record
    header: BatchHeader
    base_offset: int


@dataclass(frozen=True, slots=True)
class MountCaches:
    """The caches of one mount, each bounded in bytes or in open files."""

    records: Lru[RecordContent] = field(default_factory=lambda: Lru(RECORD_BYTES_MAX))
    """Values of records, by inode and `Partition.source`."""

    batches: BatchCache = field(default_factory=lambda: BatchCache(BATCH_BYTES_MAX))

    blocks: Lru[Buffer] = field(default_factory=lambda: Lru(BLOCK_BYTES_MAX))
    """Joined lines of `values`, `records.ndjson` and ranges, by inode and bytes."""

    chunks: Lru[RecordChunk] = field(default_factory=lambda: Lru(CHUNK_BYTES_MAX))
    """Joined records of follow files, which readers at the same position share."""

    line_indexes: LineIndexPool = field(default_factory=lambda: LineIndexPool(LINE_INDEXES_MAX, finds_held=True))

    key_indexes: OpenIndexes = field(default_factory=OpenIndexes)


def mount_caches() -> MountCaches:
    """Return empty caches. If the process runs out of file descriptors, the engine closes the line indexes."""
    caches = MountCaches()
    files.reclaim_with(caches.line_indexes.evict_all)
    return caches
