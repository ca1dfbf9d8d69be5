"""The hash of a key in the key index, compiled or in Python.

Both find the same keys in the same rows; `offsetfs.storage.reference.key_hash` has the docstrings. Their hashes differ,
so an index stores the `HASH_NAME`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.native import select
from offsetfs.storage.records.format.batch_header import MAGIC, BatchHeader
from offsetfs.storage.reference.key_hash import SHORT_KEY_BYTES, KeyDigest, seed_of_digests
from offsetfs.storage.units import I64_MAX

if TYPE_CHECKING:
    from offsetfs.storage.reference import key_hash as _key_hash
else:
    _key_hash = select("key_hash")

HASH_NAME = _key_hash.HASH_NAME
hash_digests = _key_hash.hash_digests
hash_key = _key_hash.hash_key
hash_rows = _key_hash.hash_rows

_ANY_DELTA = (-I64_MAX - 1, I64_MAX)
"""The bounds for v0 and v1 messages, whose offset deltas count from the last offset of their set."""


def deltas_of(header: BatchHeader) -> tuple[int, int]:
    """Return the smallest and the largest offset delta that a record of the batch may have."""
    return (0, header.last_offset_delta) if header.magic >= MAGIC else _ANY_DELTA


__all__ = [
    "HASH_NAME",
    "SEED_SIZE",
    "SHORT_KEY_BYTES",
    "KeyDigest",
    "deltas_of",
    "hash_digests",
    "hash_key",
    "hash_rows",
    "seed_of_digests",
]

SEED_SIZE = 16
"""The size of the random seed of an index, which prevents constructed collisions."""
