"""Uploads of objects whose keys have the SHA-256 of their content: each goes up once.

At most `UPLOADS_AT_ONCE` are in flight, and only they have their bytes in memory.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from offsetfs.archive.manifest import ArchivedObject
from offsetfs.archive.object_store import ObjectInfo, ObjectStore

UPLOADS_AT_ONCE = 4

GRACE_MS = 24 * 3_600_000
"""How old an object without a manifest becomes before it is deleted: longer than a run from upload to manifest."""

_REUSED_MS_MAX = GRACE_MS // 2


class ArchivedObjects:
    """The objects of one archive, for its writer. Thread-safe; one thread at a time for each partition."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self._threads = ThreadPoolExecutor(UPLOADS_AT_ONCE, "upload")
        self._listed: dict[str, dict[str, ObjectInfo]] = {}
        self._named: dict[str, Mapping[str, int]] = {}
        self._lock = threading.Lock()
        self._count = self._bytes = 0

    @property
    def uploaded(self) -> tuple[int, int]:
        """The number of objects that were uploaded, and their bytes."""
        return self._count, self._bytes

    def begin(self, partition: str, named: Mapping[str, int]) -> None:
        """Begin with a partition. `named`: the sizes of the objects that its newest manifest names, by key.

        What is there is listed again when the first object is uploaded: another process may have deleted some.
        """
        with self._lock:
            self._named[partition] = named
            self._listed.pop(partition, None)

    def put(self, partition: str, name: str, read: Callable[[], bytes]) -> Future[ArchivedObject]:
        """Upload what `read` returns, in another thread, below `<partition>/segments/`, unless it is there.

        `name` has the place of the SHA-256 as `{}`. `read` is called when the upload begins.
        """
        return self._threads.submit(self._put, partition, name, read)

    def _put(self, partition: str, name: str, read: Callable[[], bytes]) -> ArchivedObject:
        data = read()
        digest = hashlib.sha256(data).hexdigest()
        found = ArchivedObject(f"{partition}/segments/{name.format(digest[:16])}", len(data), digest)
        if not self._is_there(partition, found):
            self.store.put(found.key, data)
            with self._lock:
                self._count += 1
                self._bytes += found.size
        return found

    def _is_there(self, partition: str, wanted: ArchivedObject) -> bool:
        with self._lock:
            listed = self._listed.get(partition)
        if listed is None:
            listed = {each.key: each for each in self.store.objects(f"{partition}/segments")}
            with self._lock:
                listed = self._listed.setdefault(partition, listed)
        found = listed.get(wanted.key)
        if found is None or found.size != wanted.size:
            return False
        # An old object that no manifest names may be deleted by `expiry` at this moment. Uploaded again, it is young.
        young_ms = time.time_ns() // 1_000_000 - _REUSED_MS_MAX
        is_young = found.modified_ms is not None and found.modified_ms > young_ms
        return is_young or self._named.get(partition, {}).get(wanted.key) == wanted.size

    def close(self) -> None:
        """Wait for the uploads in flight and end the threads."""
        self._threads.shutdown(cancel_futures=True)
