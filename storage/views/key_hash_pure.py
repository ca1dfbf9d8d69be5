"""Hashing the keys of a batch in plain Python: the specification that `_key_hash.pyx` is held equal to by tests.

A hash is 64 bits, signed as SQLite keeps them, under a seed of 16 bytes. Here it is BLAKE2b, in the compiled twin
SipHash-2-4: what is promised of both is that nobody who does not know the seed can make two keys meet.
"""

from __future__ import annotations

import hashlib
from array import array
from typing import NamedTuple

from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.records.batch_header import Buffer
from offsetfs.storage.records.codec import COLUMNS
from offsetfs.storage.units import I64_MAX

HASH_NAME = "blake2b"

SHORT_KEY_BYTES = 80
"""Keys longer than this are also found by their SHA-256. Shorter ones fit into a file name, percent-encoded and with
`.json` after it: at most 3 bytes for each byte of the key."""


class KeyDigest(NamedTuple):
    """The SHA-256 of a key that is longer than `SHORT_KEY_BYTES`, in place of the key."""

    sha256: bytes

    def is_of(self, key: bytes) -> bool:
        """Return whether this is the digest of `key`."""
        return hashlib.sha256(key).digest() == self.sha256


def seed_of_digests(seed: bytes) -> bytes:
    """Return the seed for the hashes of digests, so that a key that equals a digest has another hash."""
    return bytes(byte ^ 0xFF for byte in seed)


def hash_key(key: Buffer, seed: bytes) -> int:
    """Return the hash of one key."""
    if len(seed) != 16:
        raise ValueError(f"a seed of {len(seed)} bytes")
    return int.from_bytes(hashlib.blake2b(key, digest_size=8, key=seed).digest(), "big", signed=True)


def hash_rows(
    payload: Buffer, rows: array[int], base_offset: int, seed: bytes, delta_min: int, delta_max: int
) -> tuple[array[int], array[int]]:
    """Return the hashes of the keys in the rows of a batch (`Batch.rows`) and the offsets of their records, in order.

    Records without a key are left out. `MalformedBatch` where the offset delta of a keyed record is not in
    `[delta_min, delta_max]`, or its offset is none that a log can hold. ValueError where the rows are of another
    payload.
    """
    if rows.typecode != "q" or len(rows) % COLUMNS:
        raise ValueError("no rows")
    hashes, offsets = array("q"), array("q")
    view = memoryview(payload)
    for row in range(0, len(rows), COLUMNS):
        delta, position, size = rows[row], rows[row + 2], rows[row + 3]
        if size < 0:
            continue
        if position < 0 or size > len(view) - position:
            raise ValueError("a key outside of its batch")
        if not delta_min <= delta <= delta_max or not 0 <= base_offset + delta <= I64_MAX:
            raise MalformedBatch("a record whose offset lies outside of its batch")
        hashes.append(hash_key(view[position : position + size], seed))
        offsets.append(base_offset + delta)
    return hashes, offsets


def hash_digests(payload: Buffer, rows: array[int], base_offset: int, seed: bytes) -> tuple[array[int], array[int]]:
    """Return the hashes of the SHA-256 of the keys longer than `SHORT_KEY_BYTES` and the offsets of their records.

    In order, under `seed_of_digests(seed)`. The rows are those that `hash_rows` accepted. ValueError where they are of
    another payload.
    """
    if rows.typecode != "q" or len(rows) % COLUMNS:
        raise ValueError("no rows")
    hashes, offsets = array("q"), array("q")
    view = memoryview(payload)
    digest_seed = seed_of_digests(seed)
    for row in range(0, len(rows), COLUMNS):
        delta, position, size = rows[row], rows[row + 2], rows[row + 3]
        if size <= SHORT_KEY_BYTES:
            continue
        if position < 0 or size > len(view) - position:
            raise ValueError("a key outside of its batch")
        hashes.append(hash_key(hashlib.sha256(view[position : position + size]).digest(), digest_seed))
        offsets.append(base_offset + delta)
    return hashes, offsets
