"""Uploads of objects whose keys have the SHA-256 of their content: each goes up once.

At most `UPLOADS_AT_ONCE` are in flight, and only they have their bytes in memory.

An expiry deletes old objects that no manifest names, by their keys, and may do so at any moment. So such an object is
not taken over, and its key is not written again: the content goes up under another key, with eight random digits.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from offsetfs.archive.manifest import ArchivedObject
from offsetfs.archive.numbered_documents import encoded, running_s
from offsetfs.archive.object_store import ObjectInfo, ObjectStore

UPLOADS_AT_ONCE = 4

GRACE_MS = 24 * 3_600_000
"""The age at which an object without a manifest is deleted: longer than a run from upload to manifest."""

_REUSED_MS_MAX = GRACE_MS // 2
"""The largest age, by the clock of the store, at which an object without a manifest is taken over."""

UNPUBLISHED_S_MAX = (GRACE_MS - _REUSED_MS_MAX) / 1000 - 3600.0
"""The time after `begin` in which a manifest may be published; the hour is for the requests that follow."""

_CLOCK_S = 3600.0
_CLOCK_NAME = "offsetfs-clock.json"
_NAME = re.compile(r"(?P<content>.*-[0-9a-f]{16})(?:-[0-9a-f]{8})?(?P<kind>\.part|\.side)")


class ArchivedObjects:
    """The objects of one archive, for its writer. Thread-safe; one thread at a time for each partition."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self._threads = ThreadPoolExecutor(UPLOADS_AT_ONCE, "upload")
        self._listed: dict[str, dict[str, list[ObjectInfo]]] = {}
        self._named: dict[str, dict[str, tuple[str, int]]] = {}
        self._lock = threading.Lock()
        self._count = self._bytes = 0
        self._clock: tuple[float, int] | None = None  # when the store was asked for its time, and its answer

    @property
    def uploaded(self) -> tuple[int, int]:
        """The number of objects that were uploaded, and their bytes."""
        return self._count, self._bytes

    def begin(self, partition: str, named: Mapping[str, int]) -> None:
        """Begin with a partition. `named`: the sizes of the objects that its newest manifest names, by key.

        What is there is listed again when the first object is uploaded: another process may have deleted some.
        """
        by_content = {_content(key): (key, size) for key, size in named.items()}
        with self._lock:
            self._named[partition] = by_content
            self._listed.pop(partition, None)

    def put(self, partition: str, name: str, read: Callable[[], bytes]) -> Future[ArchivedObject]:
        """Upload what `read` returns, in another thread, below `<partition>/segments/`, unless it is there.

        `name` has the place of the SHA-256 as `{}`. `read` is called when the upload begins.
        """
        return self._threads.submit(self._put, partition, name, read)

    def _put(self, partition: str, name: str, read: Callable[[], bytes]) -> ArchivedObject:
        data = read()
        digest = hashlib.sha256(data).hexdigest()
        key, is_there = self._place(partition, f"{partition}/segments/{name.format(digest[:16])}", len(data))
        if not is_there:
            self.store.put(key, data)
            with self._lock:
                self._count += 1
                self._bytes += len(data)
        return ArchivedObject(key, len(data), digest)

    def _place(self, partition: str, key: str, size: int) -> tuple[str, bool]:
        """Return the key for a content, and whether it is there. `key`: its key if nothing else has it."""
        listed = {stored.key: stored for stored in self._listed_like(partition, key)}
        with self._lock:
            own = self._named.get(partition, {}).get(_content(key))
        if own is not None and own[1] == size:
            stored = listed.get(own[0])
            return own[0], stored is not None and stored.size == size  # if it was lost, all states have it again
        young = [stored for stored in listed.values() if stored.size == size and self._is_young(stored)]
        if young:
            return young[0].key, True
        if key not in listed:
            return key, False
        root, _, kind = key.rpartition(".")
        return f"{root}-{os.urandom(4).hex()}.{kind}", False

    def _listed_like(self, partition: str, key: str) -> list[ObjectInfo]:
        with self._lock:
            listed = self._listed.get(partition)
        if listed is None:
            listed = {}
            for stored in self.store.objects(f"{partition}/segments"):
                listed.setdefault(_content(stored.key), []).append(stored)
            with self._lock:
                listed = self._listed.setdefault(partition, listed)
        return listed.get(_content(key), [])

    def _is_young(self, stored: ObjectInfo) -> bool:
        return stored.modified_ms is not None and stored.modified_ms > self._now_ms() - _REUSED_MS_MAX

    def _now_ms(self) -> int:
        with self._lock:
            known, now_s = self._clock, running_s()
        if known is None or now_s > known[0] + _CLOCK_S:
            known = now_s, store_time_ms(self.store)
            with self._lock:
                self._clock = known
        return known[1] + int((now_s - known[0]) * 1000)

    def close(self) -> None:
        """Wait for the uploads in flight and end the threads."""
        self._threads.shutdown(cancel_futures=True)


def _content(key: str) -> str:
    """Return the part that the keys of one content have in common."""
    match = _NAME.fullmatch(key)
    return key if match is None else match["content"] + match["kind"]


def store_time_ms(store: ObjectStore) -> int:
    """Return the time of a store, in ms since 1970; that of this machine if the store does not say. Two requests.

    A small object is written, and its time of modification read; most stores have whole seconds. The age of objects
    decides what is deleted, and the clock of this machine, or of another archiver, may be wrong. OSError as of the
    store.
    """
    store.put(_CLOCK_NAME, encoded({"kind": "clock"}))
    modified_ms = store.modified_ms(_CLOCK_NAME)
    return time.time_ns() // 1_000_000 if modified_ms is None else modified_ms
