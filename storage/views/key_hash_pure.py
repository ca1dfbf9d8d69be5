"""Hashing the keys of a batch in plain Python: the specification that `_key_hash.pyx` is held equal to by tests.

A hash is 64 bits, signed as SQLite keeps them, under a seed of 16 bytes. Here it is BLAKE2b, in the compiled twin
SipHash-2-4: what is promised of both is that nobody who does not know the seed can make two keys meet.
"""

from __future__ import annotations

import hashlib
from array import array

from offsetfs.storage.records.batch_header import Buffer
from offsetfs.storage.records.codec import COLUMNS

HASH_NAME = "blake2b"


def hash_key(key: Buffer, seed: bytes) -> int:
    """Return the hash of one key."""
    if len(seed) != 16:
        raise ValueError(f"a seed of {len(seed)} bytes")
    return int.from_bytes(hashlib.blake2b(key, digest_size=8, key=seed).digest(), "big", signed=True)


def hash_rows(payload: Buffer, rows: array[int], base_offset: int, seed: bytes) -> tuple[array[int], array[int]]:
    """Return the hashes of the keys in the rows of a batch (`Batch.rows`) and the offsets of their records, in order.

    Records without a key are left out. ValueError where the rows are of another payload, or of a batch whose offsets
    no log can hold.
    """
    hashes, offsets = array("q"), array("q")
    view = memoryview(payload)
    for row in range(0, len(rows), COLUMNS):
        position, size, offset = rows[row + 2], rows[row + 3], base_offset + rows[row]
        if size < 0:
            continue
        if position < 0 or size > len(view) - position or offset < 0:
            raise ValueError("a key outside of its batch")
        hashes.append(hash_key(view[position : position + size], seed))
        offsets.append(offset)
    return hashes, offsets
