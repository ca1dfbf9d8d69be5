"""The offset map of compaction and the scan that fills it, in Python: part of the reference of `native/compaction.pyx`.

The first scan of a log stores each key of the dirty part with its latest offset in the map. Follows Kafka's Cleaner
(buildOffsetMapForSegment) and SkimpyOffsetMap.
"""

from __future__ import annotations

import hashlib
import os
from array import array

from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.records.format.batch_header import Buffer
from offsetfs.storage.records.format.record_row import COLUMNS
from offsetfs.storage.reference.plain_batch import (
    FULL,
    OTHER,
    BatchBounds,
    check_inside,
    check_offset,
    check_rows,
    plain_batch,
    rising_rows,
)

SLOT_SIZE = 24
"""The bytes of a key in the map: 16 for its hash, 8 for its offset."""


class OffsetMap:
    """A bounded map from keys to offsets: 24 bytes per key, whatever the size of the keys.

    A key is represented by 128 bits of keyed hash. The hash key is random for each map, so that an attacker cannot
    construct collisions, which would remove records of other keys, as is possible with Kafka's MD5.
    """

    def __init__(self, bytes_max: int, load_factor: float = 0.9, *, hash_key: bytes | None = None) -> None:
        """Create a map of `bytes_max` bytes that accepts keys until `load_factor` of its slots are used.

        ValueError if that is less than one key.
        """
        slots = max(bytes_max, 0) // SLOT_SIZE
        self._hash_key = os.urandom(16) if hash_key is None else hash_key
        if not 0 < load_factor <= 1 or len(self._hash_key) != 16:
            raise ValueError(f"a load factor of {load_factor}, a hash key of {len(self._hash_key)} bytes")
        self.count_max = int(slots * load_factor)
        if self.count_max < 1:
            raise ValueError(f"an offset map of {bytes_max} bytes has no space for a key")
        self.latest_offset = -1
        """The map knows every key in the dirty part up to this offset."""
        self._offsets: dict[bytes, int] = {}

    @property
    def count(self) -> int:
        """The number of keys."""
        return len(self._offsets)

    def put(self, key: Buffer, offset: int) -> bool:
        """Store `offset` for `key`, and as the latest offset.

        Returns False, and stores nothing, if the map is full. As in Kafka, a full map accepts no key, not even a known
        one.
        """
        if self.count >= self.count_max:
            return False
        self._offsets[self._hash(key)] = offset
        self.latest_offset = offset
        return True

    def get(self, key: Buffer) -> int:
        """Return the offset of `key`, or -1."""
        return self._offsets.get(self._hash(key), -1)

    def _hash(self, key: Buffer) -> bytes:
        return hashlib.blake2b(key, digest_size=16, key=self._hash_key).digest()


class Indexer:
    """Stores the keys of the dirty part of a log, from `first_dirty` on, in the map."""

    def __init__(self, offset_map: OffsetMap, first_dirty: int) -> None:
        self._map = offset_map
        self._first_dirty = first_dirty
        self._bounds = BatchBounds()
        self.records_read = 0

    def set_bounds(self, floor: int, limit: int) -> None:
        """Set the bounds of the following batches: none begins below `floor`, none reaches `limit`."""
        self._bounds = BatchBounds(floor, limit)

    @property
    def floor(self) -> int:
        """The lowest offset at which the next batch can begin."""
        return self._bounds.floor

    def run(self, block: Buffer, start: int, end: int) -> tuple[int, int]:
        """Scan the plain batches in `block[start:end]`; return the position of the next batch, and the status.

        If a batch with malformed records is left to the caller, some of its keys may be in the map. The caller then
        discards the map.
        """
        if not 0 <= start <= end <= len(block):
            raise ValueError("positions outside of the block")
        view = memoryview(block)[:end]
        while True:
            batch, status = plain_batch(view, start, self._bounds)
            if batch is None:
                return start, status
            header = batch.header
            try:
                if not self.add(batch.payload(), header.count, header.base_offset, header.last_offset_delta):
                    return start, FULL
            except MalformedBatch:
                return start, OTHER
            start += header.size

    def advance_to(self, last_offset: int) -> None:
        """Record that all offsets up to `last_offset` have been processed."""
        if last_offset >= self._first_dirty:
            self._map.latest_offset = last_offset
        self._bounds.floor = last_offset + 1

    def add(self, payload: Buffer, count: int, base_offset: int, last_offset_delta: int) -> bool:
        """Store the keys of a decompressed batch, and advance; return False if the map is full.

        `MalformedBatch` for malformed records, or offsets that do not rise inside the batch.
        """
        is_full = False  # malformed records take precedence over a full map
        for delta, _, position, size, *_ in rising_rows(payload, count, last_offset_delta):
            if not is_full and size >= 0 and base_offset + delta >= self._first_dirty:
                key = memoryview(payload)[position : position + size]
                is_full = not self._map.put(key, base_offset + delta)
            self.records_read += not is_full
        if not is_full:
            self.advance_to(base_offset + last_offset_delta)
        return not is_full

    def add_rows(self, messages: Buffer, rows: array[int], base_offset: int) -> bool:
        """Store the keys of v0 or v1 messages, which `rows` describe; return False if the map is full."""
        check_rows(rows)
        for at in range(0, len(rows), COLUMNS):
            delta, _, position, size = rows[at : at + 4]
            check_inside(messages, position, size)
            check_offset(base_offset + delta)
            is_wanted = size >= 0 and base_offset + delta >= self._first_dirty
            key = memoryview(messages)[position : position + max(size, 0)]
            if is_wanted and not self._map.put(key, base_offset + delta):
                return False
            self.records_read += 1
        return True
