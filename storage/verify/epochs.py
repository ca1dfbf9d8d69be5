"""Verifies `leader-epoch-checkpoint` against the epochs of the batches (Kafka's LeaderEpochFileCache).

The checksum of a batch does not cover its epoch, so only this comparison detects a changed one.
"""

from __future__ import annotations

import os
from bisect import bisect_right

from offsetfs.storage import checkpoint
from offsetfs.storage.errors import InvalidCheckpoint
from offsetfs.storage.records.columns.row_walk import Rows
from offsetfs.storage.records.format import chain
from offsetfs.storage.records.format.batch import BatchHeader
from offsetfs.storage.verify.finding import FindingReporter, Report


class EpochsCheck:
    """The epochs of one partition. Reports a finding for each batch epoch that the file contradicts."""

    def __init__(self, directory: str, log_start_offset: int, report: Report) -> None:
        path = os.path.join(directory, checkpoint.LEADER_EPOCHS)
        self._reporter = FindingReporter(report, path)
        self._log_start_offset = log_start_offset
        self._latest = -1
        self._said: set[tuple[int, int]] = set()
        try:
            self._entries = checkpoint.read_epochs(path)
        except InvalidCheckpoint as error:
            self._entries = []
            self._reporter.damage("checkpoint", f"{error.reason}: epochs will be taken from the batches")
        self._starts = [start for _, start in self._entries]

    def passes(self, rows: Rows) -> bool:
        """Record consecutive batches of one epoch.

        Returns False, and records nothing, if a batch may have a finding.
        """
        epoch, first, last = rows.numbers[chain.LEADER_EPOCH], rows.base_offset, rows.column(chain.BASE_OFFSET)[-1]
        if epoch < 0:
            return True
        if epoch < self._latest:
            return False
        if self._entries and last >= self._log_start_offset:
            index = bisect_right(self._starts, first) - 1
            if index != bisect_right(self._starts, last) - 1 or self._contradicts(index, epoch):
                return False
        self._latest = epoch
        return True

    def batch(self, header: BatchHeader, log: FindingReporter, position: int | None) -> None:
        """Record the next batch of the log."""
        epoch, offset = header.leader_epoch, header.base_offset
        if epoch < 0:
            return
        # One finding for each pair of epochs: a wrong epoch concerns every batch after it.
        if epoch < self._latest and (epoch, self._latest) not in self._said:
            self._said.add((epoch, self._latest))
            meaning = f"leader epoch {epoch} follows {self._latest}"
            log.damage("leader-epoch", meaning, position=position, offset=offset)
            return
        self._latest = epoch
        if self._entries and offset >= self._log_start_offset:
            self._compare(epoch, offset, log, position)

    def _compare(self, epoch: int, offset: int, log: FindingReporter, position: int | None) -> None:
        index = bisect_right(self._starts, offset) - 1
        noted, start = self._entries[max(index, 0)]
        if self._contradicts(index, epoch) and (epoch, noted) not in self._said:
            self._said.add((epoch, noted))
            known = f"says {noted}" if index >= 0 else f"begins with {noted} at offset {start}"
            meaning = f"the batch has leader epoch {epoch}, {checkpoint.LEADER_EPOCHS} {known}"
            log.damage("leader-epoch", meaning, position=position, offset=offset)

    def _contradicts(self, index: int, epoch: int) -> bool:
        """Return whether entry number `index` of the file contradicts `epoch`; -1 means the range before the first
        entry.

        The file may begin in the middle of a log: a broker empties it while the topic's message format is older than
        v2, and continues with its current epoch when the format is v2 again. Batches before that have that epoch or an
        earlier one.
        """
        return epoch > self._entries[0][0] if index < 0 else epoch != self._entries[index][0]

    def finish(self, next_offset: int, *, is_clean: bool) -> None:
        """Report the epochs that begin after the end of the log."""
        for epoch, start in self._entries:
            if start > next_offset:
                say = self._reporter.damage if is_clean else self._reporter.notice
                say("leader-epoch", f"epoch {epoch} begins beyond the end of the log, {next_offset}", offset=start)
