"""Uploads of objects whose keys have the SHA-256 of their content: each goes up once.

At most `UPLOADS_AT_ONCE` are in flight, so that memory is bounded by that number of parts.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from offsetfs.archive.manifest import ArchivedObject
from offsetfs.archive.object_store import ObjectStore

UPLOADS_AT_ONCE = 4

GRACE_MS = 24 * 3_600_000
"""How old an object without a manifest becomes before it is deleted: longer than a run from upload to manifest."""

_REUSED_MS_MAX = GRACE_MS // 2


class ArchivedObjects:
    """The objects of one archive, for its writer. Thread-safe."""

    def __init__(self, store: ObjectStore, on_upload: Callable[[int], None]) -> None:
        self._store = store
        self._on_upload = on_upload
        self._threads = ThreadPoolExecutor(UPLOADS_AT_ONCE, "upload")
        self._slots = threading.BoundedSemaphore(UPLOADS_AT_ONCE + 1)
        self._present: dict[str, dict[str, int]] = {}  # sizes by key, by partition
        self._lock = threading.Lock()
        self._count = self._bytes = 0

    @property
    def uploaded(self) -> tuple[int, int]:
        """The number of objects that were uploaded, and their bytes."""
        return self._count, self._bytes

    def forget(self) -> None:
        """Forget what is there: another process may have deleted it since it was listed."""
        with self._lock:
            self._present.clear()

    def read(self, key: str) -> bytes:
        """Return the bytes of an object; errors as of the store."""
        return self._store.read(key)

    def put(self, prefix: str, name: str, read: Callable[[], bytes]) -> Future[ArchivedObject]:
        """Upload what `read` returns in another thread, below `<prefix>/segments/`, unless it is there.

        `name` has the place of the SHA-256 as `{}`. Waits while as many uploads are in flight as there may be.
        """
        self._slots.acquire()
        try:
            future = self._threads.submit(self._put, prefix, name, read)
        except BaseException:
            self._slots.release()
            raise
        future.add_done_callback(lambda _: self._slots.release())
        return future

    def _put(self, prefix: str, name: str, read: Callable[[], bytes]) -> ArchivedObject:
        data = read()
        digest = hashlib.sha256(data).hexdigest()
        found = ArchivedObject(f"{prefix}/segments/{name.format(digest[:16])}", len(data), digest)
        if self._those_of(prefix).get(found.key) != found.size:
            self._store.put(found.key, data)
            with self._lock:
                self._count += 1
                self._bytes += found.size
                self._present.setdefault(prefix, {})[found.key] = found.size
            self._on_upload(found.size)
        return found

    def _those_of(self, prefix: str) -> dict[str, int]:
        """Return the objects of a partition and their sizes, listed when the first is uploaded."""
        with self._lock:
            found = self._present.get(prefix)
        if found is None:
            # An older object may be deleted by `expiry` at this moment, unless a manifest names it: uploaded again, it
            # is young.
            oldest = time.time_ns() // 1_000_000 - _REUSED_MS_MAX
            listed = {
                each.key: each.size
                for each in self._store.objects(f"{prefix}/segments")
                if each.modified_ms is not None and each.modified_ms > oldest
            }
            with self._lock:
                found = self._present.setdefault(prefix, listed)
        return found

    def close(self) -> None:
        """Wait for the uploads in flight and end the threads."""
        self._threads.shutdown(cancel_futures=True)
