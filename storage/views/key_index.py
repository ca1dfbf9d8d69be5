"""Where the latest record of each key lies: an index over a whole partition, made when it is first asked for.

    by-key.sqlite    hash of a key → offset of the latest record that has it   key_store
    by-key.seal      what that table was made from, when it was closed         key_seal

Both lie beside the log, under names that Kafka ignores (docs/format/by-key.md); where nothing may be written they lie
in a directory of the caller's, or nowhere: without a path, or while another process has the files, the table is a
nameless one that goes with the index.

It answers which record to look at, never what it says: who asks reads the record and compares its key, and calls
`distrust` when that is another one. Then, and wherever table, seal and log do not fit, it is made anew under another
seed, so two keys of one hash do not stay together. A tombstone is a record like others here.

What becomes of a log later costs the index nothing: offsets stay when segments are compacted, and what retention takes
is found out by reading it. Only a truncation gives offsets out again (`Log.truncations`): after one the index begins
anew. Records of transactions are marked: in a view that shows open and aborted ones compaction may take the latest of a
key, and an older one counts again.

Threads: every call takes a lock; the bytes a step may read bound how long it is held.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from crc32c import crc32c

from offsetfs.storage import checkpoint, files
from offsetfs.storage.errors import StorageError, WouldBlock
from offsetfs.storage.partition.isolation import LogView
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.batch import HEADER_SIZE, Batch
from offsetfs.storage.segments.segment_map import Segments
from offsetfs.storage.views import key_seal
from offsetfs.storage.views.key_hash import HASH_NAME, SEED_SIZE, hash_key, hash_rows
from offsetfs.storage.views.key_seal import Covered
from offsetfs.storage.views.key_store import KeyStore
from offsetfs.storage.views.view_blocks import UNREADABLE, OnDamage, walk

STORE_SUFFIX, SEAL_SUFFIX = ".sqlite", ".seal"
NAME, COMMITTED_NAME = "by-key", "by-key-committed"

KEYS_PENDING_MAX = 250_000
"""Keys in memory before they are put into the table: some forty megabytes."""

PRUNED_AT_LEAST = 100_000
"""How many offsets retention takes, and more than it leaves, before the table is rid of them: it is walked through."""

_NOTHING = (-1, 0)


class Found(NamedTuple):
    """Where the latest record of a key lies. `is_transactional`: compaction may have taken it for an older one."""

    offset: int
    is_transactional: bool


@dataclass(frozen=True, slots=True)
class _Reached:
    """How far the log was read: up to `next_offset`; the last batch, as (base offset, checksum of its header)."""

    next_offset: int
    last: tuple[int, int] = _NOTHING


class KeyIndex:
    """The index of one partition as one isolation level sees it."""

    def __init__(self, view: LogView, place: str | None, on_damage: OnDamage) -> None:
        """Keep the index at `place` with the two suffixes; None: nowhere. Nothing is done before the first `refresh`.

        `on_damage` is called with each batch that cannot be read, whose keys are therefore not in the index. One that
        met damage is not kept: the next one meets it again and tells of it.
        """
        self._log: Log = view.log
        self._view = view
        self._place = place
        self._on_damage = on_damage
        self._identity = identity_of(view, place)
        self._lock = threading.Lock()
        self._store: KeyStore | None = None
        self._seed = b""
        self._reached = _Reached(0)
        self._pruned_to = 0
        self._truncations = self._log.truncations
        self._is_sealed = False
        self._has_damage = False
        self.scanned_bytes = 0
        """How much of the log was read for what the table holds, in this process."""

    @property
    def is_gone(self) -> bool:
        """Whether the partition was deleted, or made anew."""
        return self._log.is_gone

    # --- growing ---------------------------------------------------------------------------------------------------

    def refresh(self, *, nowait: bool = False, bytes_max: int | None = None) -> bool:
        """Take in what was appended; return whether the index is complete as of the call.

        Reads about `bytes_max` of the log at most, and is to be called again after False. With `nowait` `WouldBlock`
        unless there is nothing to take in. Raises OSError: the table is gone then, and made anew at the next call.
        """
        with self._held(nowait):
            truncations, end_offset = self._log.truncations, self._view.end_offset(nowait=nowait)
            is_known = self._store is not None and self._truncations == truncations
            if is_known and self._reached.next_offset >= end_offset:
                return True
            if nowait:
                raise WouldBlock("the index of keys is behind", path=self._log.path)
            if self._truncations != truncations:
                self._drop()
                self._truncations = truncations
            segments = self._log.snapshot()
            try:
                is_complete = self._grow(segments, end_offset, bytes_max or sys.maxsize)
            except OSError as error:
                if error.errno != errno.ESTALE or segments is self._log.snapshot():
                    raise
                return False  # a segment was removed while it was read
            return is_complete and self._truncations == self._log.truncations

    def _grow(self, segments: Segments, end_offset: int, bytes_max: int) -> bool:
        store = self._store or self._open()
        self._prune(store)
        begin = max(self._reached.next_offset, self._log.log_start_offset)
        pending: dict[int, int] = {}
        reached, read = self._reached, 0
        for batch in self._batches(segments, begin, end_offset):
            header = batch.header
            if self._view.shows(header):
                self._collect(batch, pending)
            reached = _Reached(header.next_offset, (batch.base_offset, _header_checksum(batch)))
            read += header.size
            if len(pending) >= KEYS_PENDING_MAX or read >= bytes_max:
                self._put(store, pending, reached)
            if read >= bytes_max:
                self.scanned_bytes += read
                return reached.next_offset >= end_offset
        self._put(store, pending, _Reached(max(reached.next_offset, end_offset), reached.last))
        self.scanned_bytes += read
        return True

    def _batches(self, segments: Segments, begin: int, end_offset: int) -> Iterator[Batch]:
        """Yield the batches that hold offsets in `[begin, end_offset)`; those that cannot be read are stepped over."""
        for segment in segments.from_floor(begin):
            if segment.base_offset >= end_offset:
                return
            position = segment.position_of(begin) if segment.base_offset < begin else 0
            for batch in walk(segment, position, segment.size, on_damage=self._damaged):
                try:
                    base_offset = batch.base_offset
                except UNREADABLE as error:
                    self._damaged(error)
                    continue
                if base_offset >= end_offset:
                    return
                if batch.header.next_offset > begin:
                    yield batch

    def _damaged(self, error: StorageError) -> None:
        self._has_damage = True
        self._on_damage(error)

    def _collect(self, batch: Batch, pending: dict[int, int]) -> None:
        """Note the offset of each key in the batch; of one that comes twice the later."""
        try:
            rows = batch.rows()
        except UNREADABLE as error:
            self._damaged(error)
            return
        hashes, offsets = hash_rows(batch.payload(), rows, batch.header.base_offset, self._seed)
        if batch.header.is_transactional and not self._view.is_committed_only:
            pending.update((key, ~offset) for key, offset in zip(hashes, offsets, strict=True))
        else:
            pending.update(zip(hashes, offsets, strict=True))

    def _put(self, store: KeyStore, pending: dict[int, int], reached: _Reached) -> None:
        """Put what was collected into the table, which then reaches that far."""
        if pending:
            self._unseal()
            with self._dropped_on_error():
                hashes = sorted(pending)  # numbers compare faster than pairs
                store.put(zip(hashes, map(pending.__getitem__, hashes), strict=True))
            pending.clear()
        if reached.last != self._reached.last:
            self._unseal()
        self._reached = reached

    def _prune(self, store: KeyStore) -> None:
        """Rid the table of the keys that retention took, when those are more than what it left."""
        start, gone = self._log.log_start_offset, self._log.log_start_offset - self._pruned_to
        if gone >= PRUNED_AT_LEAST and gone >= self._log.next_offset - start:
            self._unseal()
            with self._dropped_on_error():
                store.forget_below(start)
            self._pruned_to = start

    # --- asking ----------------------------------------------------------------------------------------------------

    def find(self, key: bytes) -> Found | None:
        """Return where the latest record of `key` lay at the last `refresh`; None when none has it, or it is gone.

        `WouldBlock` when the index was closed or dropped since.
        """
        with self._held(nowait=False):
            store = self._store
            if store is None:
                raise WouldBlock("the index of keys is closed", path=self._log.path)
            with self._dropped_on_error():
                value = store.get(hash_key(key, self._seed))
        if value is None:
            return None
        found = Found(value, False) if value >= 0 else Found(~value, True)
        return found if found.offset >= self._log.log_start_offset else None

    def distrust(self) -> None:
        """Make the index anew, from the log alone, with the next `refresh`: what it said was not so."""
        with self._held(nowait=False):
            self._drop()

    # --- files -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Seal what is there, for the next one; without a place, or after damage, nothing stays."""
        with self._held(nowait=False):
            store, self._store = self._store, None
            if store is None:
                return
            with contextlib.suppress(OSError):
                store.close()
                if self._has_damage:
                    self._remove(store)
                elif store.path and not self._is_sealed and not self._log.is_gone:
                    key_seal.write(self._path(SEAL_SUFFIX), self._covered(), store.path)

    def _open(self) -> KeyStore:
        """Take over what is at the place when it is sealed and describes this log; else begin with nothing."""
        self._has_damage, self.scanned_bytes = False, 0
        store = self._kept() or self._begun()
        self._store = store
        return store

    def _kept(self) -> KeyStore | None:
        if self._place is None:
            return None
        path = self._path(STORE_SUFFIX)
        covered = key_seal.read(self._path(SEAL_SUFFIX), path)
        next_offset = None if covered is None else self._described_to(covered)
        if covered is None or next_offset is None:
            return None
        try:
            store = KeyStore(path)
        except OSError:
            return None
        if key_seal.read(self._path(SEAL_SUFFIX), path, is_checked=False) != covered:
            store.close()  # another process had it meanwhile
            return None
        self._seed, self._pruned_to, self._is_sealed = covered.seed, covered.pruned_to, True
        self._reached = _Reached(next_offset, (covered.last_offset, covered.last_crc))
        return store

    def _described_to(self, covered: Covered) -> int | None:
        """Return where the last batch ends that the table knows; None when the log does not have that very batch."""
        if covered.identity != self._identity or covered.next_offset > self._log.next_offset:
            return None
        try:
            batch = self._log.batch_at(covered.last_offset)
        except StorageError:
            return None
        if batch is None or _header_checksum(batch) != covered.last_crc:
            return None
        return batch.header.next_offset

    def _begun(self) -> KeyStore:
        self._seed, self._reached = os.urandom(SEED_SIZE), _Reached(0)
        self._pruned_to, self._is_sealed = self._log.log_start_offset, False
        if self._place is None:
            return KeyStore("")
        path = self._path(STORE_SUFFIX)
        try:
            if files.exists(path):
                _check_unused(path)
                self._remove_files(path)
            return KeyStore(path)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise
            return KeyStore("")  # somebody else has it, or it cannot be written: a nameless one answers as well

    def _covered(self) -> Covered:
        reached = self._reached
        return Covered(self._identity, self._seed, self._pruned_to, reached.next_offset, *reached.last)

    def _unseal(self) -> None:
        """Before the table changes: what it was sealed with is no longer so."""
        if self._is_sealed:
            self._is_sealed = False
            with contextlib.suppress(FileNotFoundError):
                files.remove_file(self._path(SEAL_SUFFIX))

    def _drop(self) -> None:
        """Let the table go, with its files."""
        store, self._store = self._store, None
        if store is not None:
            with contextlib.suppress(OSError):
                store.close()
                self._remove(store)

    def _remove(self, store: KeyStore) -> None:
        """Remove the files, if they are there: a nameless table has none, and a deleted log took them along."""
        if store.path and not self._log.is_gone:
            self._remove_files(store.path)

    def _remove_files(self, path: str) -> None:
        for each in (self._path(SEAL_SUFFIX), path):
            with contextlib.suppress(FileNotFoundError):
                files.remove_file(each)

    def _path(self, suffix: str) -> str:
        assert self._place is not None
        return self._place + suffix

    @contextlib.contextmanager
    def _held(self, nowait: bool) -> Iterator[None]:
        if not self._lock.acquire(blocking=not nowait):
            raise WouldBlock("the index of keys is being made", path=self._log.path)
        try:
            yield
        finally:
            self._lock.release()

    @contextlib.contextmanager
    def _dropped_on_error(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            self._drop()
            raise


def place_beside(view: LogView) -> str:
    """Return where the index of a log lies that may be written to."""
    return os.path.join(view.log.path, COMMITTED_NAME if view.is_committed_only else NAME)


def place_in(directory: str, view: LogView) -> str:
    """Return where in `directory`, which holds those of any number of logs, the index of a log lies."""
    path = files.real_path(view.log.path)
    digest = hashlib.blake2b(path.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
    return os.path.join(directory, f"{digest}-{COMMITTED_NAME if view.is_committed_only else NAME}")


def identity_of(view: LogView, place: str | None) -> bytes:
    """Return what tells an index from those of other logs, of logs made anew, of other views and other hashes."""
    log = view.log
    with contextlib.suppress(StorageError, OSError):
        topic_id = checkpoint.read_topic_id(os.path.join(log.path, checkpoint.PARTITION_METADATA))
        parts = [HASH_NAME, log.partition, view.is_committed_only, topic_id]
        if place is not None and os.path.dirname(place) != log.path:
            parts.append(files.status(log.path).st_ino)
        return hashlib.blake2b(repr([str(part) for part in parts]).encode(), digest_size=32).digest()
    return os.urandom(key_seal.IDENTITY_SIZE)  # that of no other


def _check_unused(path: str) -> None:
    """Raise EBUSY where another process has the table open; what is no table is nobody's."""
    try:
        KeyStore(path).close()
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise


def _header_checksum(batch: Batch) -> int:
    return int(crc32c(batch.data[:HEADER_SIZE]))
