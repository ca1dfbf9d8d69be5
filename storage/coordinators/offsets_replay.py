"""The replay of one partition of `__consumer_offsets` for a group coordinator.

A coordinator must not answer from a part of the records: a consumer without its commit begins elsewhere. So damage is
an error here, while `ConsumerGroups` reports it and goes on. Records of unknown types and versions are left out with a
reason in the log, as Kafka's coordinator does.

One thread at a time.
"""

from __future__ import annotations

import logging
import sys

from offsetfs.storage.coordinators.group_records import Change, CommitChange, change_of
from offsetfs.storage.coordinators.topic_replay import Limits, OmissionReport, PartitionReplay, StateBudget
from offsetfs.storage.errors import StorageError
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.format.record import Record

_log = logging.getLogger(__name__)

_NO_LIMITS = Limits("records", sys.maxsize, "records", sys.maxsize)


class OffsetsReplay:
    """What the records of one partition change, in order, as far as `reached`."""

    def __init__(self, log: Log) -> None:
        self._changes = _Changes(OmissionReport(str(log.partition), _log.warning))
        budget = StateBudget(self._changes.omissions)
        budget.limit(_NO_LIMITS, [])
        self._replay = PartitionReplay(log, self._changes, budget, _raise)

    @property
    def log(self) -> Log:
        return self._replay.log

    @property
    def reached(self) -> int:
        """The offset behind the last record that was processed."""
        return self._replay.reached

    @property
    def is_complete(self) -> bool:
        return self._replay.is_complete

    def advance(self, bytes_max: int) -> list[Change]:
        """Process about `bytes_max` bytes of the log; return the changes. Raises what a damaged batch raises."""
        self._replay.advance(bytes_max)
        return self._changes.take()

    def skip_own(self, first: int, end: int) -> bool:
        """Process own records without reading them; False if others are before them."""
        if self._replay.reached != first:
            return False
        self._replay.reached = end
        return True

    def pending_commits(self) -> set[tuple[str, TopicPartition]]:
        """Return groups and partitions that open transactions commit offsets for."""
        found = set()
        for record in self._replay.pending():
            try:
                change = change_of(record)
            except ValueError:
                continue
            if isinstance(change, CommitChange):
                found.add((change.group, change.partition))
        return found


class _Changes:
    """Collects the changes of records."""

    def __init__(self, omissions: OmissionReport) -> None:
        self.omissions = omissions
        self._collected: list[Change] = []

    def apply(self, record: Record) -> None:
        try:
            self._collected.append(change_of(record))
        except ValueError as reason:
            self.omissions.report_once(str(reason))

    def take(self) -> list[Change]:
        taken, self._collected = self._collected, []
        return taken


def _raise(error: StorageError) -> None:
    raise error
