"""Verifies the sequences of idempotent and transactional producers, and the snapshots of their state.

The sequences of a producer have no gaps or repeats, and its epoch never falls (KIP-98). After missing offsets
(compaction, damage, deleted records) a gap proves nothing. A snapshot named N must agree with a replay of the batches
below N, as far back as the log goes. Producers that are no longer in the log, or that a broker has expired after a day,
are not findings. Follows Kafka's ProducerStateManager.

A coordinator starts every transactional batch in its topic with sequence 0: Kafka's ProducerAppendInfo checks only the
sequences of clients (`AppendOrigin.CLIENT`). So in internal topics only the epochs are checked.
"""

from __future__ import annotations

import os
from collections import deque

from offsetfs.storage import files
from offsetfs.storage.errors import InvalidSnapshot, MalformedBatch
from offsetfs.storage.files import File
from offsetfs.storage.names import segment_name
from offsetfs.storage.partition.producer_loading import replay
from offsetfs.storage.partition.producers import NONE, SEQUENCE_MAX, ProducerEntry, ProducerState
from offsetfs.storage.records.columns.row_walk import Rows
from offsetfs.storage.records.format import chain
from offsetfs.storage.records.format.batch import Batch, BatchHeader
from offsetfs.storage.verify.batches import marker
from offsetfs.storage.verify.finding import FindingReporter, Report

_FORGOTTEN_AFTER_MS = 86_400_000
"""Kafka's default of `producer.id.expiration.ms`, measured by record timestamps.

After that, any sequence is accepted.
"""


class ProducersCheck:
    """Replays the producers of one partition batch by batch, and compares the snapshots on the way."""

    def __init__(
        self, directory: str, snapshots: list[int], first_offset: int, report: Report, *, by_coordinator: bool = False
    ) -> None:
        """`snapshots`: the offsets in their names. `first_offset`: where the log begins.

        `by_coordinator`: a coordinator writes this partition, not clients.
        """
        self._by_coordinator = by_coordinator
        self._directory = directory
        self._snapshots = deque(sorted(snapshots))
        self._report = report
        self._state = ProducerState()
        self._expired = set[int]()  # producers whose last batch is an end marker that follows more than a day later
        self._last_missing_offset = first_offset - 1  # the last missing offset; batches before it are unknown

    def check_rows(self, rows: Rows, file: File, log: FindingReporter) -> None:
        """Check consecutive data batches, after those before them; `file` is the log file."""
        self.reach(rows.base_offset)
        if self._expired:
            self._expired.difference_update(rows.column(chain.PRODUCER_ID))
        if self._continues(rows):
            replay(self._state, rows, file)
            return
        for number in range(len(rows)):
            self.batch(rows.whole_batch(number, log.path), log)

    def _continues(self, rows: Rows) -> bool:
        """Whether no snapshot lies among the batches, and every sequence follows the previous one."""
        if self._snapshots and self._snapshots[0] <= rows.column(chain.BASE_OFFSET)[-1]:
            return False
        producers, following = rows.column(chain.PRODUCER_ID), dict[int, tuple[int, int]]()
        if max(producers) < 0:
            return True
        sequences = (
            rows.column(column) for column in (chain.PRODUCER_EPOCH, chain.BASE_SEQUENCE, chain.LAST_OFFSET_DELTA)
        )
        for producer, epoch, first, delta in zip(producers, *sequences, strict=True):
            if producer < 0:
                continue
            if (following.get(producer) or self._next_sequence(producer) or (epoch, first)) != (epoch, first):
                return False
            following[producer] = epoch, (first + delta + 1) & SEQUENCE_MAX
        return True

    def _next_sequence(self, producer: int) -> tuple[int, int] | None:
        """Return the expected epoch and sequence; (epoch, -1) if only a replay can tell; None for a new producer."""
        entry = self._state.entries.get(producer)
        if entry is None:
            return None
        following = NONE if entry.last_sequence == NONE else (entry.last_sequence + 1) & SEQUENCE_MAX
        return entry.producer_epoch, following

    def batch(self, batch: Batch, log: FindingReporter) -> None:
        """Check the next batch of the log."""
        header = batch.header
        self.reach(header.base_offset)
        if header.producer_id < 0:
            return
        entry = self._state.entries.get(header.producer_id)
        if entry is not None:
            self._check_sequence(entry, header, log, batch.position)
        if header.is_control and entry is not None and _is_idle(entry, header):
            self._expired.add(header.producer_id)
        elif not header.is_control:
            self._expired.discard(header.producer_id)
        try:
            self._state.replay(header, marker(batch) if header.is_control else None)
        except MalformedBatch:
            self.record_missing(header.last_offset)  # the batch itself has a finding

    def record_missing(self, offset: int) -> None:
        """Record that `offset`, and everything before it since the last batch, is not in the log."""
        self._last_missing_offset = max(self._last_missing_offset, offset)

    def _check_sequence(
        self, entry: ProducerEntry, header: BatchHeader, log: FindingReporter, position: int | None
    ) -> None:
        meaning = ""
        if header.producer_epoch < entry.producer_epoch:
            meaning = f"epoch {header.producer_epoch} follows {entry.producer_epoch}"
        # A coordinator starts each transactional batch with sequence 0: `verify` reported every second commit as
        # damage.
        elif not (header.is_control or self._by_coordinator) and self._is_known(entry, header):
            meaning = _sequence_fault(entry, header)
        if meaning:
            meaning = f"producer {header.producer_id}: {meaning}"
            log.damage("producer-sequence", meaning, position=position, offset=header.base_offset)

    def _is_known(self, entry: ProducerEntry, header: BatchHeader) -> bool:
        """Return whether `entry` has the producer's previous batch, and the broker had not expired it."""
        # A producer that was idle for a day may begin again at any sequence (`producer.id.expiration.ms`).
        return self._last_missing_offset <= entry.last_offset and not _is_idle(entry, header)

    # --- snapshots ---------------------------------------------------------------------------------------------------

    def reach(self, offset: int) -> None:
        """Compare the snapshots up to `offset`, which the replay has reached."""
        while self._snapshots and self._snapshots[0] <= offset:
            self._compare(self._snapshots.popleft())

    def finish(self, next_offset: int, *, is_clean: bool) -> None:
        """Compare the remaining snapshots; one beyond the end covers records that are missing."""
        self.reach(next_offset)
        for offset in self._snapshots:
            reporter = FindingReporter(self._report, self._path(offset))
            say = reporter.damage if is_clean else reporter.notice
            say("snapshot-beyond-end", f"producers before offset {offset}, but the log ends at {next_offset}")

    def _path(self, offset: int) -> str:
        return os.path.join(self._directory, segment_name(offset, ".snapshot"))

    def _compare(self, offset: int) -> None:
        path = self._path(offset)
        reporter = FindingReporter(self._report, path)
        try:
            stored = ProducerState.load(files.read_file(path), path)
        except FileNotFoundError:
            return
        except InvalidSnapshot as error:
            reporter.damage("snapshot", f"{error.reason}: an older one will be used, and more of the log replayed")
            return
        for producer_id, entry in sorted(stored.entries.items()):
            meaning = self._difference(producer_id, entry, offset)
            if meaning:
                reporter.damage("snapshot", f"producer {producer_id}: {meaning}", offset=offset)

    def _difference(self, producer_id: int, stored: ProducerEntry, offset: int) -> str:
        if stored.last_offset >= offset:
            return f"offset {stored.last_offset} is not below the snapshot's"
        replayed = self._state.entries.get(producer_id)
        is_known = self._last_missing_offset < 0
        if replayed is None:
            return "no batch of it is in the log" if is_known or stored.last_offset > self._last_missing_offset else ""
        if stored.last_offset != replayed.last_offset:
            if stored.last_offset == NONE and producer_id in self._expired:  # known by the marker alone
                return ""
            if self._last_missing_offset > replayed.last_offset:  # its last batch may be among the missing ones
                return ""
            return f"last offset {stored.last_offset}, in the log {replayed.last_offset}"
        names = ["producer_epoch", "last_sequence", "offset_delta"]
        if is_known:
            names += ["timestamp", "coordinator_epoch", "current_txn_first_offset"]
        pairs = [(name, getattr(stored, name), getattr(replayed, name)) for name in names]
        return "; ".join(
            f"{name} {stored}, in the log {expected}" for name, stored, expected in pairs if stored != expected
        )


def _is_idle(entry: ProducerEntry, header: BatchHeader) -> bool:
    """Return whether a broker had expired a producer before this batch of it."""
    return header.max_timestamp - entry.timestamp >= _FORGOTTEN_AFTER_MS


def _sequence_fault(entry: ProducerEntry, header: BatchHeader) -> str:
    """Return the fault of a data batch's first sequence, or "".

    Old clients restart at 0 when the broker has expired them, so 0 is wrong only if it is a repeat.
    """
    first, last = header.base_sequence, (header.base_sequence + header.last_offset_delta) & SEQUENCE_MAX
    if header.producer_epoch > entry.producer_epoch or entry.last_sequence == NONE:
        is_same = header.producer_epoch == entry.producer_epoch
        return "" if first == 0 or is_same else f"a new epoch begins with sequence {first}"
    expected = (entry.last_sequence + 1) & SEQUENCE_MAX
    if first == expected or (first == 0 and last != entry.last_sequence):
        return ""
    if (first - expected) & SEQUENCE_MAX < SEQUENCE_MAX // 2:
        return f"sequence {first} follows {entry.last_sequence}: batches are missing between them"
    return f"sequences {first} to {last} again, after {entry.last_sequence}"
