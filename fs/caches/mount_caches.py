"""The caches of one mount. Only the event loop uses them, except the line indexes, which have a lock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from offsetfs.common.lru import Lru
from offsetfs.fs.caches.batch_cache import BatchCache
from offsetfs.fs.caches.open_indexes import OpenIndexes
from offsetfs.fs.nodes import Buffer
from offsetfs.storage import BatchHeader, Record, files
from offsetfs.storage.views import LineIndexPool, RecordChunk

RECORD_BYTES_MAX = 8 << 20
BATCH_BYTES_MAX = 16 << 20
BLOCK_BYTES_MAX = 8 << 20
CHUNK_BYTES_MAX = 8 << 20
LINE_INDEXES_MAX = 64
"""How many line indexes are open at once: each takes a file descriptor."""


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
