"""The offset map of a round of compaction and who fills it, in plain Python: part of the twin of `_compaction.pyx`.

The first walk over a log: the keys of the dirty part go into the map, each with the latest offset it has. Follows
Kafka's Cleaner (buildOffsetMapForSegment) and SkimpyOffsetMap.
"""

from __future__ import annotations

import hashlib
import os
from array import array

from offsetfs.storage.compaction.plain_batch_pure import (
    FULL,
    OTHER,
    BatchBounds,
    check_inside,
    check_offset,
    check_rows,
    plain_batch,
    rising_rows,
)
from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.records.batch_header import Buffer
from offsetfs.storage.records.codec_pure import COLUMNS

SLOT_SIZE = 24
"""Bytes of a key in the map: its hash, 16, and its offset, 8."""


class OffsetMap:
    """A bounded map from keys to offsets: 24 bytes a key, of whatever size the keys are.

    A key is known by 128 bits of keyed hash alone. The hash key is drawn anew for each map, so that nobody can make
    keys that meet (docs/internals/decisions/0009-keyed-hash-of-keys-in-compaction.md).
    """

    def __init__(self, bytes_max: int, load_factor: float = 0.9, *, hash_key: bytes | None = None) -> None:
        """Make a map of `bytes_max` bytes that takes keys until `load_factor` of its slots are in use.

        ValueError when that is not even one.
        """
        slots = max(bytes_max, 0) // SLOT_SIZE
        self._hash_key = os.urandom(16) if hash_key is None else hash_key
        if not 0 < load_factor <= 1 or len(self._hash_key) != 16:
            raise ValueError(f"a load factor of {load_factor}, a hash key of {len(self._hash_key)} bytes")
        self.count_max = int(slots * load_factor)
        if self.count_max < 1:
            raise ValueError(f"an offset map of {bytes_max} bytes has no room for a key")
        self.latest_offset = -1
        """Up to here the log has been looked at: the map knows every key in the dirty part up to this offset."""
        self._offsets: dict[bytes, int] = {}

    @property
    def count(self) -> int:
        """Number of keys."""
        return len(self._offsets)

    def put(self, key: Buffer, offset: int) -> bool:
        """Note that `key` was last seen at `offset`, which also is the latest offset now.

        False, and nothing is noted, when the map is full: then it takes no key any more, known or not, as Kafka's.
        """
        if self.count >= self.count_max:
            return False
        self._offsets[self._hash(key)] = offset
        self.latest_offset = offset
        return True

    def get(self, key: Buffer) -> int:
        """Return the offset of `key`; -1 when it is not there."""
        return self._offsets.get(self._hash(key), -1)

    def _hash(self, key: Buffer) -> bytes:
        return hashlib.blake2b(key, digest_size=16, key=self._hash_key).digest()


class Indexer:
    """Puts the keys of the dirty part of a log, from `first_dirty` on, into the map."""

    def __init__(self, offset_map: OffsetMap, first_dirty: int) -> None:
        self._map = offset_map
        self._first_dirty = first_dirty
        self._bounds = BatchBounds()
        self.records_read = 0

    def expect(self, floor: int, limit: int) -> None:
        """Say where batches may lie from now on: none begins below `floor`, none reaches `limit`."""
        self._bounds = BatchBounds(floor, limit)

    @property
    def floor(self) -> int:
        """The offset below which the next batch cannot begin."""
        return self._bounds.floor

    def run(self, block: Buffer, start: int, end: int) -> tuple[int, int]:
        """Walk over the plain batches of `block[start:end]`; return where the next one begins, and the status.

        Of a batch whose records are none, some keys may be in the map when it is left to the caller: who finds it so
        throws the map away.
        """
        if not 0 <= start <= end <= len(block):
            raise ValueError("a walk outside of its block")
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

    def passed(self, last_offset: int) -> None:
        """Take note that everything up to `last_offset` has been seen."""
        if last_offset >= self._first_dirty:
            self._map.latest_offset = last_offset
        self._bounds.floor = last_offset + 1

    def add(self, payload: Buffer, count: int, base_offset: int, last_offset_delta: int) -> bool:
        """Put the keys of an inflated batch and step behind it; False when the map is full.

        `MalformedBatch` for records that are none, or whose offsets do not rise inside the batch.
        """
        for delta, _, position, size, *_ in rising_rows(payload, count, last_offset_delta):
            if size >= 0 and base_offset + delta >= self._first_dirty:
                key = memoryview(payload)[position : position + size]
                if not self._map.put(key, base_offset + delta):
                    return False
            self.records_read += 1
        self.passed(base_offset + last_offset_delta)
        return True

    def add_rows(self, messages: Buffer, rows: array[int], base_offset: int) -> bool:
        """Put the keys of messages of v0 or v1, which `rows` describe; False when the map is full."""
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
