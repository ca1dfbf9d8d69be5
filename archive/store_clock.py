"""The time of a store, which gives its objects their times of modification: a small object is written and looked at.

What is deleted depends on how old objects are. The clock of this machine may be wrong, or that of another archiver.
"""

from __future__ import annotations

import time

from offsetfs.archive.numbered_documents import encoded
from offsetfs.archive.object_store import ObjectStore

NAME = "offsetfs-clock.json"


def now_ms(store: ObjectStore) -> int:
    """Return the time of the store, in ms since 1970; that of this machine if the store does not say. Two requests.

    Most stores tell whole seconds. OSError as of the store.
    """
    store.put(NAME, encoded({"kind": "clock"}))
    found = store.modified_ms(NAME)
    return time.time_ns() // 1_000_000 if found is None else found
