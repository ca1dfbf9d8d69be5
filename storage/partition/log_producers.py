"""The producers of one log: loaded on first use, updated with each append, saved at each roll.

`producers` has the state, `producer_loading` the loading. Follows Kafka's use of ProducerStateManager in UnifiedLog.
Not thread-safe: the log's lock protects it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from offsetfs.storage import files
from offsetfs.storage.files import File
from offsetfs.storage.names import segment_name
from offsetfs.storage.partition import producer_loading
from offsetfs.storage.partition.log_state import Appended
from offsetfs.storage.partition.producer_checks import ProducerChecks
from offsetfs.storage.partition.producers import ABORT, ProducerState, end_marker
from offsetfs.storage.records.columns.row_walk import Rows
from offsetfs.storage.records.format.batch import parse_header, read_batch
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.records.format.batch_header import CONTROL_FLAG, has_producer

if TYPE_CHECKING:
    from offsetfs.storage.partition.log import Log

Load = Callable[["Log", bool], ProducerState]
"""Loads the producers at the end of a log. The flag: whether the log was truncated since it was opened."""


class LogProducers:
    """The producers at the end of one log. `state` is None until it is loaded."""

    def __init__(self, load: Load) -> None:
        self.state: ProducerState | None = None
        self.aborted_from: int | None = None
        """The first offset of an aborted transaction that is not in a transaction index yet."""
        self._load = load
        self._checks: ProducerChecks | None = None  # made with the first batch that is to be checked

    def know(self, log: Log) -> ProducerState:
        """Return the state. The first call loads it from the newest snapshot and the batches after it."""
        if self.state is None:
            self.state = self._load(log, False)
        return self.state

    def know_anew(self, log: Log) -> None:
        """Load the state of a truncated log again, and save it: without a snapshot the log would seem to have no
        producers.
        """
        self.state = self._load(log, True)
        self.save(log)

    @property
    def can_check(self) -> bool:
        """Whether `repeated` needs not to read the log."""
        return self._checks is not None and self._checks.state is self.state

    def repeated(self, log: Log, sealed: SealedBatch, *, bumps_epochs: bool) -> Appended | None:
        """Return where a batch was appended that repeats one; None if it may be appended. Raises as `checks.check`,
        which has `bumps_epochs`, and for a marker as `checks.check_marker`.

        The first call reads the end of the log.
        """
        if self.state is None or not has_producer(sealed.data):
            return None
        if self._checks is None or self._checks.state is not self.state:
            recent = producer_loading.recent_batches(log.snapshot()) if self.state.entries else ()
            self._checks = ProducerChecks(self.state, recent)
        header = parse_header(sealed.data)
        marker = end_marker(read_batch(sealed.data, check=False)) if header.is_control else None
        if marker is not None:
            self._checks.check_marker(header, marker[1], bumps_epochs=bumps_epochs)
        repeated = self._checks.check(header, bumps_epochs=bumps_epochs)
        return None if repeated is None else Appended(repeated.base_offset, repeated.last_offset, repeated.timestamp)

    def note(self, sealed: SealedBatch) -> None:
        """Take note of a batch of a producer, which was appended."""
        if self.state is not None:
            header = parse_header(sealed.data)
            marker = end_marker(read_batch(sealed.data, check=False)) if header.is_control else None
            if self._checks is not None and self._checks.state is self.state:
                self._checks.taken(header, marker)
            else:
                self.state.replay(header, marker)
            if marker is not None and marker[0] == ABORT and self.aborted_from is None:
                self.aborted_from = header.base_offset

    def note_rows(self, rows: Rows, file: File) -> None:
        """Take note of batches that were appended to `file`, of producers and without one, in their order."""
        if self.state is None:
            return
        self._checks = None  # of single batches; loaded again from the log
        producer_loading.replay(self.state, rows, file)
        for row in rows.flagged(CONTROL_FLAG) if self.aborted_from is None else ():
            batch = rows.whole_batch(row, file.path)
            if batch.header.producer_id >= 0 and (end_marker(batch) or (None,))[0] == ABORT:
                self.aborted_from = batch.header.base_offset
                return

    def save(self, log: Log, *, sync_name: bool = True) -> None:
        """Write `<next offset>.snapshot`, so that a broker need not read the log to load its producers.

        Durable on return; `sync_name` as in `replace_file`.
        """
        if self.state is not None:
            path = os.path.join(log.path, segment_name(log.next_offset, ".snapshot"))
            files.replace_file(path, self.state.dump(), sync_name=sync_name)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Remove idle producers, if the state is loaded; return their number."""
        if self.state is None:
            return 0
        count = self.state.expire(now_ms, expiration_ms)
        if count and self._checks is not None:
            self._checks.forget_expired()
        return count
