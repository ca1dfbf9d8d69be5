"""The stored table of a key index: reused if its footer matches it and the log, otherwise created.

    <stem>.sqlite   the table   key_store
    <stem>.seal     the footer, from the close of the table until its next change   key_footer

A stem is a path without suffix: beside the log, or in a directory for many logs. None means no files; then the table
is a temporary file without a name. The same is used if another process has the files open, or they cannot be written.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterator
from typing import NamedTuple

from offsetfs.storage import checkpoint, files
from offsetfs.storage.clock import SYSTEM
from offsetfs.storage.errors import StorageError
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.log_reader import LogView
from offsetfs.storage.records.format.batch import HEADER_SIZE, Batch
from offsetfs.storage.records.format.checksum import crc32c
from offsetfs.storage.views import key_footer, user_cache
from offsetfs.storage.views.key_footer import IndexedRange
from offsetfs.storage.views.key_hash import HASH_NAME, SHORT_KEY_BYTES
from offsetfs.storage.views.key_store import KeyStore
from offsetfs.storage.views.user_cache import name_of

STORE_SUFFIX, FOOTER_SUFFIX = ".sqlite", ".seal"
NAME, COMMITTED_NAME = "by-key", "by-key-committed"


class KeyTable:
    """An open table. After an OSError from `put`, `get` or `forget_below` its files are removed."""

    def __init__(self, log: Log, stem: str | None, store: KeyStore, *, has_footer: bool = False) -> None:
        self.store = store
        self._log = log
        self._stem = stem
        self._has_footer = has_footer

    def get(self, key_hash: int) -> int | None:
        """Return the value of a hash, or None."""
        with self._removed_on_error():
            return self.store.get(key_hash)

    def put(self, values: dict[int, int]) -> None:
        """Set the value of each hash."""
        self.change()
        hashes = sorted(values)  # numbers compare faster than pairs
        with self._removed_on_error():
            self.store.put(zip(hashes, map(values.__getitem__, hashes), strict=True))

    def forget_below(self, offset: int) -> None:
        """Delete the values of offsets below `offset`. Scans the table."""
        self.change()
        with self._removed_on_error():
            self.store.forget_below(offset)

    def change(self) -> None:
        """Remove the footer before the table changes, because it no longer matches."""
        if self._has_footer:
            self._has_footer = False
            assert self._stem is not None
            with contextlib.suppress(FileNotFoundError):
                # Not synced: a power cut may bring the footer back, but then the table's checksum does not match it.
                files.remove_file(self._stem + FOOTER_SUFFIX)

    def close(self, covered: IndexedRange) -> None:
        """Close the table, and write its footer. An error costs only time, at the next use."""
        with contextlib.suppress(OSError):
            self.store.close()
            if self._has_files and not self._has_footer:
                assert self._stem is not None
                key_footer.write(self._stem + FOOTER_SUFFIX, covered, self.store.path)

    def remove(self) -> None:
        """Close the table, and remove its files."""
        with contextlib.suppress(OSError):
            self.store.close()
            if self._has_files:
                assert self._stem is not None
                _remove_files(self._stem)

    @property
    def _has_files(self) -> bool:
        """Whether the table has files: a temporary one has none, and those of a deleted log are gone."""
        return bool(self.store.path) and not self._log.is_gone

    @contextlib.contextmanager
    def _removed_on_error(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            self.remove()
            raise


class ReusedTable(NamedTuple):
    """A stored table, what it covers, and the offset after the last batch that it knows."""

    table: KeyTable
    covered: IndexedRange
    next_offset: int


def take_over(log: Log, stem: str | None, identity: bytes) -> ReusedTable | None:
    """Open the stored table at `stem`; None unless its footer matches it and this log.

    Reads the whole table.
    """
    if stem is None:
        return None
    path, footer_path = stem + STORE_SUFFIX, stem + FOOTER_SUFFIX
    covered = key_footer.read(footer_path, path)
    next_offset = None if covered is None else _described_to(log, covered, identity)
    if covered is None or next_offset is None:
        return None
    try:
        store = KeyStore(path)
    except OSError:
        return None
    # Checked again after the exclusive lock is taken, because another process may have changed the table between the
    # checksum and the lock.
    if key_footer.read(footer_path, path, is_checked=False) != covered:
        store.close()  # another process changed it meanwhile
        return None
    return ReusedTable(KeyTable(log, stem, store, has_footer=True), covered, next_offset)


def _described_to(log: Log, covered: IndexedRange, identity: bytes) -> int | None:
    """Return the end offset of the last batch that a table knows; None if the log does not have that batch."""
    if covered.identity != identity or covered.next_offset > log.next_offset:
        return None
    try:
        # The last indexed batch proves that the index is of this log, and not of one that was created again under the
        # same name.
        batch = log.batch_at(covered.last_offset)
    except StorageError:
        return None
    return batch.header.next_offset if batch is not None and header_checksum(batch) == covered.last_crc else None


def begin(log: Log, stem: str | None) -> KeyTable:
    """Create an empty table at `stem`, replacing existing files. OSError ENOSPC on a full disk."""
    if stem is None:
        return KeyTable(log, None, KeyStore(""))
    path = stem + STORE_SUFFIX
    try:
        if files.exists(path):
            _check_unused(path)
            _remove_files(stem)
        return KeyTable(log, stem, KeyStore(path))
    except OSError as error:
        # On a full disk a temporary table would fail as well; the caller reports ENOSPC.
        if error.errno == errno.ENOSPC:
            raise
        return KeyTable(log, None, KeyStore(""))


def _check_unused(path: str) -> None:
    """Raise EBUSY if another process has the table open. A file that is not a table is ignored."""
    try:
        KeyStore(path).close()
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise


def _remove_files(stem: str) -> None:
    for suffix in (FOOTER_SUFFIX, STORE_SUFFIX):
        with contextlib.suppress(FileNotFoundError):
            files.remove_file(stem + suffix)


def header_checksum(batch: Batch) -> int:
    """Return the CRC-32C of a batch header."""
    return crc32c(batch.data[:HEADER_SIZE])


# --- places and identities -------------------------------------------------------------------------------------------


def stem_beside(view: LogView) -> str:
    """Return the stem beside a log that is writable."""
    return os.path.join(view.log.path, COMMITTED_NAME if view.is_committed_only else NAME)


def stem_in(directory: str, view: LogView) -> str:
    """Return the stem of a log's index in `directory`, which holds those of many logs."""
    return os.path.join(directory, f"{name_of(view.log)}-{COMMITTED_NAME if view.is_committed_only else NAME}")


def stem_in_cache(cache: str, view: LogView) -> str:
    """Return the stem of a log's index in the user cache, whose directory is created if it is missing.

    Removes indexes that were not used for a month, and marks this one as used. OSError if the cache cannot be written.
    """
    directory = user_cache.prepare(cache, "by-key")
    user_cache.sweep(directory)
    stem = stem_in(directory, view)
    for suffix in (STORE_SUFFIX, FOOTER_SUFFIX):
        with contextlib.suppress(FileNotFoundError):
            files.set_modified(stem + suffix, SYSTEM.now_ms() * 1_000_000)
    return stem


DIGEST_ROWS = f"sha256 above {SHORT_KEY_BYTES}"
"""Part of the identity of an index: which keys have a second row for their digest."""


def identity_of(view: LogView, stem: str | None) -> bytes:
    """Return a value that differs between logs, recreated logs, views and hash functions."""
    log = view.log
    with contextlib.suppress(StorageError, OSError):
        topic_id = checkpoint.read_topic_id(os.path.join(log.path, checkpoint.PARTITION_METADATA))
        parts = [HASH_NAME, DIGEST_ROWS, log.partition, view.is_committed_only, topic_id]
        if stem is not None and os.path.dirname(stem) != log.path:
            # In a cache for many logs the stem does not identify the log: a directory may have been replaced.
            parts.append(files.status(log.path).st_ino)
        return hashlib.blake2b(repr([str(part) for part in parts]).encode(), digest_size=32).digest()
    return os.urandom(key_footer.IDENTITY_SIZE)  # a value that no other log has
