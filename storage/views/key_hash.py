"""The hash of a key in the key index: selects the compiled `_key_hash` or the Python reference `key_hash_pure`.

Both find the same keys in the same rows; the docstrings are in `key_hash_pure`. Their hashes differ, so an index stores
the `HASH_NAME`. OFFSETFS_PURE=1 selects the Python reference.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from offsetfs.storage.records.batch_header import MAGIC, BatchHeader
from offsetfs.storage.units import I64_MAX
from offsetfs.storage.views.key_hash_pure import SHORT_KEY_BYTES, KeyDigest, seed_of_digests

if TYPE_CHECKING or os.environ.get("OFFSETFS_PURE") == "1":
    from offsetfs.storage.views.key_hash_pure import HASH_NAME, hash_digests, hash_key, hash_rows
else:
    try:
        from offsetfs.storage.views._key_hash import HASH_NAME, hash_digests, hash_key, hash_rows
    except ModuleNotFoundError:  # a module that exists but fails to load is an error that must be visible
        from offsetfs.storage.views.key_hash_pure import HASH_NAME, hash_digests, hash_key, hash_rows

_ANY_DELTA = (-I64_MAX - 1, I64_MAX)
"""For v0 and v1 messages, whose offset deltas count from the last offset of their set."""


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
