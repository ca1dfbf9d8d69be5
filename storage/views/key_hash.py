"""The hash by which the index of keys knows a key: the compiled `_key_hash`, or its plain twin `key_hash_pure`.

Both find the same keys in the same rows; the docstrings are in `key_hash_pure`. Only their hashes differ, so an index
says by `HASH_NAME` whose it has. OFFSETFS_PURE=1 in the environment asks for the twin, as with `codec`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING or os.environ.get("OFFSETFS_PURE") == "1":
    from offsetfs.storage.views.key_hash_pure import HASH_NAME, hash_key, hash_rows
else:
    try:
        from offsetfs.storage.views._key_hash import HASH_NAME, hash_key, hash_rows
    except ModuleNotFoundError:  # a module that is there but does not load is an error to be seen
        from offsetfs.storage.views.key_hash_pure import HASH_NAME, hash_key, hash_rows

__all__ = ["HASH_NAME", "SEED_SIZE", "hash_key", "hash_rows"]

SEED_SIZE = 16
"""Bytes of what an index draws for its hashes, so that nobody can make keys that meet."""
