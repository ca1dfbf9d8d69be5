"""Hashes the keys of a batch, in Python: the reference that tests compare `native/key_hash.pyx` with.

A hash is 64 bits, signed as in SQLite, with a seed of 16 bytes. It is BLAKE2b here and SipHash-2-4 in the compiled
form. In both, an attacker who does not know the seed cannot construct two keys with the same hash.
"""

from __future__ import annotations

import hashlib
from array import array
from typing import NamedTuple

from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.records.format.batch_header import Buffer
from offsetfs.storage.records.format.record_row import COLUMNS, KEY_POSITION, KEY_SIZE, OFFSET_DELTA
from offsetfs.storage.units import I64_MAX

HASH_NAME = "blake2b"

SHORT_KEY_BYTES = 80
"""Longer keys are also indexed by their SHA-256. Shorter keys fit into a file name of 255 bytes, percent-encoded (up to
3 bytes for each byte) and followed by `.json`.
"""


class KeyDigest(NamedTuple):
    """The SHA-256 of a key longer than `SHORT_KEY_BYTES`, used instead of the key."""

    sha256: bytes

    def is_of(self, key: bytes) -> bool:
        """Return whether this is the digest of `key`."""
        return hashlib.sha256(key).digest() == self.sha256


def seed_of_digests(seed: bytes) -> bytes:
    """Return the seed for hashes of digests, so that a key that equals a digest has another hash."""
    return bytes(byte ^ 0xFF for byte in seed)


def hash_key(key: Buffer, seed: bytes) -> int:
    """Return the hash of one key."""
    if len(seed) != 16:
        raise ValueError(f"a seed of {len(seed)} bytes")
    # A keyed hash, because a client that chooses its keys could otherwise make two keys collide, and one of them would
    # be found under the other until the index is rebuilt.
    return int.from_bytes(hashlib.blake2b(key, digest_size=8, key=seed).digest(), "big", signed=True)


def hash_rows(
    payload: Buffer, rows: array[int], base_offset: int, seed: bytes, delta_min: int, delta_max: int
) -> tuple[array[int], array[int]]:
    """Return the hashes of the keys in the rows of a batch (`Batch.rows`), and the offsets of their records, in order.

    Records without a key are skipped. `MalformedBatch` if the offset delta of a keyed record is not in `[delta_min,
    delta_max]`, or its offset is impossible. ValueError if the rows are of another payload.
    """
    if rows.typecode != "q" or len(rows) % COLUMNS:
        raise ValueError("no rows")
    hashes, offsets = array("q"), array("q")
    view = memoryview(payload)
    for row in range(0, len(rows), COLUMNS):
        delta, position, size = rows[row + OFFSET_DELTA], rows[row + KEY_POSITION], rows[row + KEY_SIZE]
        if size < 0:
            continue
        if position < 0 or size > len(view) - position:
            raise ValueError("a key outside of its batch")
        # The checksum of a v2 batch covers the deltas but not whether they fit: one keyed record outside of its batch
        # made every look-up in `by-key` fail.
        if not delta_min <= delta <= delta_max or not 0 <= base_offset + delta <= I64_MAX:
            raise MalformedBatch("a record whose offset lies outside of its batch")
        hashes.append(hash_key(view[position : position + size], seed))
        offsets.append(base_offset + delta)
    return hashes, offsets


def hash_digests(payload: Buffer, rows: array[int], base_offset: int, seed: bytes) -> tuple[array[int], array[int]]:
    """Return the hashes of the SHA-256 of keys longer than `SHORT_KEY_BYTES`, and the offsets of their records, in
    order.

    The hashes use `seed_of_digests(seed)`. The rows are those that `hash_rows` accepted. ValueError if they are of
    another payload.
    """
    if rows.typecode != "q" or len(rows) % COLUMNS:
        raise ValueError("no rows")
    hashes, offsets = array("q"), array("q")
    view = memoryview(payload)
    digest_seed = seed_of_digests(seed)
    for row in range(0, len(rows), COLUMNS):
        delta, position, size = rows[row + OFFSET_DELTA], rows[row + KEY_POSITION], rows[row + KEY_SIZE]
        if size <= SHORT_KEY_BYTES:
            continue
        if position < 0 or size > len(view) - position:
            raise ValueError("a key outside of its batch")
        hashes.append(hash_key(hashlib.sha256(view[position : position + size]).digest(), digest_seed))
        offsets.append(base_offset + delta)
    return hashes, offsets
