"""The replay of one partition of a coordinator's topic for the coordinator itself.

A coordinator must not answer from a part of the records: a consumer without its commit begins elsewhere, and a
transaction that is missing is never ended. So damage is an error here, while `ConsumerGroups` reports it and goes on.
So is a record of an unknown version, which a later broker wrote: what it replaced counts no longer. Records of unknown
types are left out with a reason in the log. Follows CoordinatorLoaderImpl and CoordinatorRecordSerde.

One thread at a time.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Generic, TypeVar

from offsetfs.storage.coordinators.staged_records import StagedRecords
from offsetfs.storage.coordinators.topic_replay import Limits, OmissionReport, PartitionReplay, StateBudget
from offsetfs.storage.errors import StorageError
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.format.record import Record

_log = logging.getLogger(__name__)

_NO_LIMITS = Limits("records", sys.maxsize, "records", sys.maxsize)

C = TypeVar("C")


class UnreadableRecord(ValueError):
    """The reason why a record cannot be read, without which the others must not count."""


class ChangesReplay(Generic[C]):
    """The changes of the records of one partition, in order, as far as `reached`."""

    def __init__(self, log: Log, change_of: Callable[[Record], C]) -> None:
        """`change_of` raises ValueError with the reason for a record that is left out, or `UnreadableRecord`."""
        self._changes = _Changes(OmissionReport(str(log.partition), _log.warning), change_of, log.path)
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

    def advance(self, bytes_max: int) -> list[C]:
        """Process about `bytes_max` bytes of the log; return the changes. Raises what a damaged batch raises."""
        self._replay.advance(bytes_max)
        return self._changes.take()

    def skip_own(self, first: int, end: int) -> bool:
        """Process own records without reading them; False if others are before them."""
        if self._replay.reached != first:
            return False
        self._replay.reached = end
        return True

    def discard_staged(self, key: bytes) -> None:
        """Do what `PartitionReplay.discard_staged` does, for an own record, which is not read."""
        self._replay.discard_staged(key)

    @property
    def staged(self) -> StagedRecords:
        """The records of open transactions, which do not count yet."""
        return self._replay.staged


class _Changes(Generic[C]):
    """Collects the changes of records."""

    def __init__(self, omissions: OmissionReport, change_of: Callable[[Record], C], path: str) -> None:
        self._path = path
        self.omissions = omissions
        self._change_of = change_of
        self._collected: list[C] = []

    def apply(self, record: Record) -> None:
        try:
            self._collected.append(self._change_of(record))
        except UnreadableRecord as reason:
            cure = "a later Kafka may have written it: use its broker, or a copy of the directory before that"
            raise StorageError(f"{reason}; {cure}", path=self._path, offset=record.offset) from None
        except ValueError as reason:
            self.omissions.report_once(str(reason))

    def take(self) -> list[C]:
        taken, self._collected = self._collected, []
        return taken


def _raise(error: StorageError) -> None:
    raise error
