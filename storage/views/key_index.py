"""The key index: the offset of the latest record of each key in a partition. Built on first use.

It is a table from key hashes to offsets (`key_table`). A key longer than `SHORT_KEY_BYTES` has a second row, for the
hash of its SHA-256, because a file name holds 255 bytes and may contain the digest instead. The table is stored in
files beside the log, under names that Kafka ignores (docs/internals/format/by-key.md), or in a directory of the caller
if the log directory is read-only.

The index returns the offset of a record, not its content. The caller reads the record, compares its key, and calls
`rebuild` if the key differs. The index is then rebuilt with another seed, so that two keys with one hash do not collide
again. The same happens if table, footer and log do not match. A tombstone is a record like others.

Later changes of the log do not invalidate the index: compaction keeps offsets, and a read detects records that
retention removed. Only truncation assigns offsets again (`Log.truncations`), and restarts the index. Records of
transactions are marked: in a view with open and aborted ones, compaction may remove the latest record of a key, so that
an older one counts again.

Threads: every call takes a lock; the number of bytes that a step may read limits how long it is held.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from offsetfs.storage.errors import UNREADABLE, StorageError, WouldBlock
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.log_reader import RAW, LogReader, LogView
from offsetfs.storage.records.format.batch import Batch
from offsetfs.storage.records.format.legacy import RUNS
from offsetfs.storage.views import key_table
from offsetfs.storage.views.key_footer import IndexedRange
from offsetfs.storage.views.key_hash import (
    SEED_SIZE,
    KeyDigest,
    deltas_of,
    hash_digests,
    hash_key,
    hash_rows,
    seed_of_digests,
)
from offsetfs.storage.views.key_table import KeyTable, header_checksum
from offsetfs.storage.views.view_blocks import OnDamage

KEYS_PENDING_MAX = 250_000
"""The number of keys in memory before they are written to the table: some forty megabytes."""

PRUNED_AT_LEAST = 100_000
"""The number of removed offsets, if larger than that of the remaining ones, at which the table is pruned by a full
scan.
"""

_NOTHING = (-1, 0)


class KeyLocation(NamedTuple):
    """The offset of the latest record of a key.

    `is_transactional`: compaction may have removed it in favor of an older one.
    """

    offset: int
    is_transactional: bool


@dataclass(frozen=True, slots=True)
class _Reached:
    """The position up to which the log was read: `next_offset`, and the last batch as (base offset, header
    checksum).
    """

    next_offset: int
    last: tuple[int, int] = _NOTHING


class KeyIndex:
    """The index of one partition for one isolation level."""

    def __init__(self, view: LogView, stem: str | None, on_damage: OnDamage) -> None:
        """Store the index at `stem` with the two suffixes; None: in no file. The first `refresh` opens it.

        `on_damage` is called with each batch that cannot be read, whose keys are therefore not in the index. One that
        met damage is not stored: the next one reads the damage again and reports it.
        """
        self._log: Log = view.log
        self._view = view
        self._stem = stem
        self._on_damage = on_damage
        self._identity = key_table.identity_of(view, stem)
        self._lock = threading.Lock()
        self._table: KeyTable | None = None
        self._seed = b""
        self._reached = _Reached(0)
        self._pruned_to = 0
        # Only a truncation gives offsets to other records (decision 13); compaction and retention leave the index
        # correct.
        self._truncations = self._log.truncations
        self._has_footer = False
        self._has_damage = False
        self.scanned_bytes = 0
        """The bytes of the log that this process has read for the table."""

    @property
    def is_gone(self) -> bool:
        """Whether the partition was deleted or created again."""
        return self._log.is_gone

    # --- growing ---------------------------------------------------------------------------------------------------

    def refresh(self, *, nowait: bool = False, bytes_max: int | None = None) -> bool:
        """Index appended records; return whether the index was complete at the time of the call.

        Reads about `bytes_max` of the log at most; call again after False. With `nowait`, raises `WouldBlock` unless
        there is nothing to read. Raises OSError: then the table is removed, and rebuilt at the next call.
        """
        with self._held(nowait):
            truncations, end_offset = self._log.truncations, self._view.end_offset(nowait=nowait)
            is_known = self._table is not None and self._truncations == truncations
            if is_known and self._reached.next_offset >= end_offset:
                return True
            if nowait:
                raise WouldBlock("the index of keys is behind", path=self._log.path)
            if self._truncations != truncations:
                self._drop()
                self._truncations = truncations
            is_complete = self._grow(end_offset, bytes_max or sys.maxsize)
            # A truncation during the build may have left entries of records that no longer exist.
            return is_complete and self._truncations == self._log.truncations

    def _grow(self, end_offset: int, bytes_max: int) -> bool:
        table = self._table or self._open()
        self._prune(table)
        begin = max(self._reached.next_offset, self._log.log_start_offset)
        pending: dict[int, int] = {}
        reached, read = self._reached, 0
        for batch in self._reader(begin, end_offset).batches():
            header = batch.header
            if self._view.shows(header):
                self._collect(batch, pending)
            reached = _Reached(header.next_offset, (batch.base_offset, header_checksum(batch)))
            read += header.size
            # Many keys at once: sorted hashes are written to neighboring pages of the B-tree, single ones to a random
            # page each.
            if len(pending) >= KEYS_PENDING_MAX or read >= bytes_max:
                self._put(table, pending, reached)
            if read >= bytes_max:
                self.scanned_bytes += read
                return reached.next_offset >= end_offset
        self._put(table, pending, _Reached(max(reached.next_offset, end_offset), reached.last))
        self.scanned_bytes += read
        return True

    def _reader(self, begin: int, end_offset: int) -> LogReader:
        """Return the reader of all batches; keys that retention takes meanwhile are found out by asking for them."""
        return LogReader(
            self._log,
            start=begin,
            stop=end_offset,
            isolation=RAW,
            on_damage=self._damaged,
            on_lost=lambda error: None,
            runs=RUNS,
        )

    def _damaged(self, error: StorageError) -> None:
        self._has_damage = True
        self._on_damage(error)

    def _collect(self, batch: Batch, pending: dict[int, int]) -> None:
        """Collect the offset of each key in the batch; for a repeated key, the later one."""
        header = batch.header
        try:
            rows = batch.rows()
            payload, base_offset = batch.payload(), header.base_offset
            hashes, offsets = hash_rows(payload, rows, base_offset, self._seed, *deltas_of(header))
            digests, offsets_of_digests = hash_digests(payload, rows, base_offset, self._seed)
        except UNREADABLE as error:
            self._damaged(batch.placed(error))
            return
        hashes += digests
        offsets += offsets_of_digests
        if header.is_transactional and not self._view.is_committed_only:
            # The negated offset is the flag: SQLite stores signed integers, and a second column would need more space.
            pending.update((key, ~offset) for key, offset in zip(hashes, offsets, strict=True))
        else:
            pending.update(zip(hashes, offsets, strict=True))

    def _put(self, table: KeyTable, pending: dict[int, int], reached: _Reached) -> None:
        """Write the collected keys to the table, which then covers the log up to `reached`."""
        if pending:
            with self._dropped_on_error():
                table.put(pending)
            pending.clear()
        # The footer names the last batch, so it is wrong as soon as another batch is the last, even one without keys.
        if reached.last != self._reached.last:
            table.change()
        self._reached = reached

    def _prune(self, table: KeyTable) -> None:
        """Prune keys that retention removed, if they outnumber the remaining ones."""
        start, gone = self._log.log_start_offset, self._log.log_start_offset - self._pruned_to
        # A pass over the whole table costs a read of the file; so at least half of the rows must be obsolete.
        if gone >= PRUNED_AT_LEAST and gone >= self._log.next_offset - start:
            with self._dropped_on_error():
                table.forget_below(start)
            self._pruned_to = start

    # --- asking ----------------------------------------------------------------------------------------------------

    def find(self, key: bytes | KeyDigest) -> KeyLocation | None:
        """Return the location of the latest record of `key` at the last `refresh`, or None.

        A digest finds only keys longer than `SHORT_KEY_BYTES`. `WouldBlock` if the index was closed or dropped since.
        """
        with self._held(nowait=False):
            table = self._table
            if table is None:
                raise WouldBlock("the index of keys is closed", path=self._log.path)
            with self._dropped_on_error():
                # A file name has 255 bytes at most, so long keys are named by their SHA-256 (`by-key/%sha256-…`).
                if isinstance(key, KeyDigest):
                    value = table.get(hash_key(key.sha256, seed_of_digests(self._seed)))
                else:
                    value = table.get(hash_key(key, self._seed))
        if value is None:
            return None
        # Retention only removes from the front, so the log start shows whether the record still exists.
        location = KeyLocation(value, False) if value >= 0 else KeyLocation(~value, True)
        return location if location.offset >= self._log.log_start_offset else None

    def rebuild(self) -> None:
        """Rebuild the index from the log at the next `refresh`, because an answer was wrong."""
        with self._held(nowait=False):
            self._drop()

    # --- opening and closing ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """Write the footer for the next use. Without a stem, or after damage, no files are stored."""
        with self._held(nowait=False):
            table, self._table = self._table, None
            if table is None:
                return
            # A stored index would hide the damage from the next mount: it would not read the damaged batch again.
            if self._has_damage:
                table.remove()
            else:
                reached = self._reached
                table.close(
                    IndexedRange(self._identity, self._seed, self._pruned_to, reached.next_offset, *reached.last)
                )

    def _open(self) -> KeyTable:
        """Reuse the stored table if its footer matches it and this log; else start with an empty one."""
        self._has_damage, self.scanned_bytes = False, 0
        taken = key_table.take_over(self._log, self._stem, self._identity)
        if taken is None:
            # A new seed at each rebuild, so that two keys whose hashes collided do not collide again.
            self._seed, self._pruned_to, self._reached = os.urandom(SEED_SIZE), self._log.log_start_offset, _Reached(0)
            self._table = key_table.begin(self._log, self._stem)
        else:
            self._seed, self._pruned_to = taken.covered.seed, taken.covered.pruned_to
            self._reached = _Reached(taken.next_offset, (taken.covered.last_offset, taken.covered.last_crc))
            self._table = taken.table
        return self._table

    def _drop(self) -> None:
        """Close the table and remove its files."""
        table, self._table = self._table, None
        if table is not None:
            table.remove()

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
            self._table = None  # it has removed its files
            raise
