"""Replays a coordinator's topic: computes its state from its records, once and then as the logs grow.

A coordinator replays its partitions of the topic when it starts: each record in offset order, those of a transaction
when it commits. This module does the same for all partitions of the log directory, because it does not matter which
coordinator a key belongs to. Follows CoordinatorLoaderImpl of Kafka's coordinators.

Each partition has a state, which processes the records and reserves memory from its budget. Damaged batches and records
beyond the memory limit are left out; each kind of omission is reported once.

Thread-safe. One lock protects everything; with `nowait`, a busy lock is `WouldBlock`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Lock
from typing import Generic, Protocol, TypeVar

from offsetfs.storage.coordinators.staged_records import StagedRecords
from offsetfs.storage.directory.log_directories import AnyLogDirectory
from offsetfs.storage.errors import UNREADABLE, StorageError, WouldBlock
from offsetfs.storage.names import OFFSETS_TOPIC, TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.log_reader import RAW, LogReader, OnError
from offsetfs.storage.partition.producers import ABORT, COMMIT, end_marker
from offsetfs.storage.records.format.batch import Batch
from offsetfs.storage.records.format.record import Record

STEP_BYTES = 32 << 20
"""Limits the bytes of the logs that one step reads: a second or two of work at most."""

_OMISSIONS_MAX = 100


class OmissionReport:
    """Reports each kind of record that is left out, once."""

    def __init__(self, topic: str, on_omission: Callable[[str], None]) -> None:
        self._topic = topic
        self._on_omission = on_omission
        self._reported: set[str] = set()

    def report_once(self, text: str) -> None:
        # Bounded, because a text may contain a number that a damaged record contains.
        if text not in self._reported and len(self._reported) < _OMISSIONS_MAX:
            self._reported.add(text)
            self._on_omission(f"{self._topic}: {text}; it is passed over")


@dataclass(frozen=True, slots=True)
class Limits:
    """The memory limit of all states of a topic: `items` of the given name, and bytes of `content`."""

    items: str
    items_max: int
    content: str = ""
    bytes_max: int = 0


class StateBudget:
    """The memory that the state of one partition uses, and may use beside the other partitions."""

    def __init__(self, omissions: OmissionReport) -> None:
        self.items = 0
        self.bytes = 0
        self._omissions = omissions
        self._limits = Limits("", 0)
        self._items_max = 0
        self._bytes_max = 0

    def limit(self, limits: Limits, others: list[StateBudget]) -> None:
        """Set the limits for the next records; `others` are the budgets of the other partitions."""
        self._limits = limits
        self._items_max = limits.items_max - sum(budget.items for budget in others)
        self._bytes_max = limits.bytes_max - sum(budget.bytes for budget in others)

    def reserve(self, items: int, size: int = 0) -> bool:
        """Reserve memory; return whether there was enough. If not, that is reported."""
        limits = self._limits
        if size and self.bytes + size > self._bytes_max:
            self._omissions.report_once(f"there are more than {limits.bytes_max} bytes of {limits.content}")
            return False
        if self.items + items > self._items_max:
            self._omissions.report_once(f"there are more than {limits.items_max} {limits.items}")
            return False
        self.items += items
        self.bytes += size
        return True

    def release(self, items: int, size: int = 0) -> None:
        """Release reserved memory."""
        self.items -= items
        self.bytes -= size


class State(Protocol):
    """The state that the records of one partition result in."""

    def apply(self, record: Record) -> None:
        """Process the next record."""


S = TypeVar("S", bound=State)


class TopicReplay(Generic[S]):
    """The states of the partitions of `topic`; `begin` creates the state of a partition."""

    def __init__(
        self,
        directory: AnyLogDirectory,
        topic: str,
        begin: Callable[[StateBudget, OmissionReport], S],
        on_omission: Callable[[str], None],
    ) -> None:
        """`on_omission` is called with a sentence, once for each kind of record that is left out."""
        self.omissions = OmissionReport(topic, on_omission)
        self._directory = directory
        self._topic = topic
        self._begin = begin
        self._replays: dict[TopicPartition, PartitionReplay[S]] = {}
        self._lock = Lock()

    @contextlib.contextmanager
    def states(self, *, nowait: bool) -> Iterator[list[S]]:
        """Yield the states as of the last `refresh`; they do not change during the block."""
        with self._locked(nowait):
            yield [replay.state for replay in self._replays.values()]

    @contextlib.contextmanager
    def staged(self, *, nowait: bool) -> Iterator[list[StagedRecords]]:
        """Yield the records of open transactions as of the last `refresh`; they do not change during the block."""
        with self._locked(nowait):
            yield [replay.staged for replay in self._replays.values()]

    def refresh(self, limits: Limits, *, nowait: bool = False, bytes_max: int = STEP_BYTES) -> bool:
        """Process records that were appended since, about `bytes_max` of them; return whether all are processed.

        With `nowait`, `WouldBlock` if there are any.
        """
        with self._locked(nowait):
            left = bytes_max
            for replay in self._current(nowait):
                if replay.is_complete:
                    continue
                if nowait:
                    raise WouldBlock("records are to be read", path=replay.log.path)
                # Only one partition is read at a time, so the shares of the others are fixed meanwhile.
                replay.budget.limit(
                    limits, [sibling.budget for sibling in self._replays.values() if sibling is not replay]
                )
                left -= replay.advance(left)
                if left <= 0:
                    return False
            return True

    @contextlib.contextmanager
    def _locked(self, nowait: bool) -> Iterator[None]:
        if not self._lock.acquire(blocking=not nowait):
            raise WouldBlock("records are being read", path=self._directory.path)
        try:
            yield
        finally:
            self._lock.release()

    def _current(self, nowait: bool) -> list[PartitionReplay[S]]:
        """Return the replays of the current partitions; a partition that was deleted or created again starts again."""
        partitions = self._directory.partitions_of(self._topic)
        for gone in self._replays.keys() - set(partitions):
            del self._replays[gone]
        for partition in partitions:
            try:
                log = current_log(self._directory, partition, nowait=nowait)
            except WouldBlock:
                raise
            except (StorageError, OSError) as error:
                self.omissions.report_once(f"{partition} does not open: {error}")
                continue
            replay = self._replays.get(partition)
            # Another log object: the partition was deleted and created again, or reopened, so its records are read from
            # the start.
            if replay is None or replay.log is not log:
                budget = StateBudget(self.omissions)
                self._replays[partition] = PartitionReplay(
                    log, self._begin(budget, self.omissions), budget, self._damaged
                )
        return list(self._replays.values())

    def _damaged(self, error: StorageError) -> None:
        self.omissions.report_once(str(error))


class PartitionReplay(Generic[S]):
    """The replay of one partition, up to `reached`."""

    def __init__(self, log: Log, state: S, budget: StateBudget, on_damage: OnError) -> None:
        """`on_damage` is called with the error of each batch that is left out; it may raise an error instead."""
        self.log = log
        self.state = state
        self.budget = budget
        self.reached = log.log_start_offset
        self.staged = StagedRecords(has_commits=log.partition.topic == OFFSETS_TOPIC)
        """The records of open transactions, which do not count yet."""
        self._on_damage = on_damage

    @property
    def is_complete(self) -> bool:
        return self.reached >= self.log.next_offset

    def advance(self, bytes_max: int) -> int:
        """Process about `bytes_max` bytes of the log; return the number of bytes."""
        end, taken = self.log.next_offset, 0
        # What retention or compaction has taken counts no longer, as for a coordinator that loads the partition now.
        reader = LogReader(
            self.log,
            start=self.reached,
            stop=end,
            # Raw, because the order of markers and data decides: commits of a transaction count from its marker on, as
            # in CoordinatorLoaderImpl.
            isolation=RAW,
            on_damage=self._damaged,
            on_lost=lambda error: None,
        )
        for batch in reader.batches():
            self._take(batch)
            self.reached = max(self.reached, batch.header.next_offset)
            taken += batch.header.size
            if taken >= bytes_max:
                return taken
        self.reached = max(self.reached, end)
        return taken

    def _take(self, batch: Batch) -> None:
        header = batch.header
        try:
            if header.is_control:
                self._end_transaction(header.producer_id, end_marker(batch))
                return
            records = [record for record in batch.records() if record.offset >= self.log.log_start_offset]
        except UNREADABLE as error:
            self._damaged(error)
            return
        if header.is_transactional:
            self._stage(header.producer_id, records)
            return
        for record in records:
            self.apply(record)

    def apply(self, record: Record) -> None:
        """Process a record that counts at once. The tombstone of a commit counts for open transactions, too."""
        if record.value is None:
            self.discard_staged(record.key)
        self.state.apply(record)

    def discard_staged(self, key: bytes | None) -> None:
        """Remove the commits of open transactions that a tombstone with this key takes away."""
        self.budget.release(self.staged.discard(key))

    def _stage(self, producer_id: int, records: list[Record]) -> None:
        # Records of open transactions are held, so they count against the same limit: a transaction that never ends
        # must not fill the memory.
        if not self.budget.reserve(len(records)):
            return
        for record in records:
            if self.staged.is_removal(record):
                self.budget.release(1)
                self.apply(record)
            elif not self.staged.add(producer_id, record):
                self.budget.release(1)

    def _damaged(self, error: StorageError) -> None:
        self.log.note_damage(error)
        self._on_damage(error)

    def _end_transaction(self, producer_id: int, marker: tuple[int, int] | None) -> None:
        # An emptied control batch of a compacted topic ends nothing any more: its transaction has no records left.
        if marker is None or marker[0] not in (ABORT, COMMIT):
            return
        staged = self.staged.end(producer_id)
        self.budget.release(len(staged))
        for record in staged if marker[0] == COMMIT else ():
            self.state.apply(record)


def current_log(directory: AnyLogDirectory, partition: TopicPartition, *, nowait: bool) -> Log:
    """Return the log of a partition after a check for growth; with `nowait`, `WouldBlock` if it is not open."""
    opened = directory.opened(partition)
    if nowait and (opened is None or opened.is_gone):
        raise WouldBlock("the partition is not open", path=directory.path)
    log = directory.log(partition)
    log.refresh()
    return log


def log_end(directory: AnyLogDirectory, partition: TopicPartition, *, nowait: bool) -> int | None:
    """Return the next offset of a partition; None if the directory does not have it, or it cannot be opened."""
    if not directory.has(partition):
        return None
    try:
        return current_log(directory, partition, nowait=nowait).next_offset
    except WouldBlock:
        raise
    except (StorageError, OSError):
        return None  # a reader of the partition gets the error
