"""The replay of a coordinator's topic: what its records come to, read once and then as the logs grow.

A coordinator replays its partitions of the topic when it starts: each record in offset order, those of a transaction
when it commits. The same is done here for all partitions of the log directory, because it does not matter which
coordinator a key belongs to. Follows CoordinatorLoaderImpl of Kafka's coordinators.

Each partition has a state of its own, which takes the records and says how much of them it keeps. Damaged batches and
records that do not fit into memory are left out; each kind of them is reported once.

Threads: any; everything happens under one lock, which `nowait` does not wait for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Lock
from typing import Generic, Protocol, TypeVar

from offsetfs.storage.directory.log_directories import AnyLogDirectory
from offsetfs.storage.errors import StorageError, WouldBlock
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.log_reader import RAW, LogReader
from offsetfs.storage.partition.producers import ABORT, COMMIT, end_marker
from offsetfs.storage.records.batch import Batch
from offsetfs.storage.records.record import Record
from offsetfs.storage.views.view_blocks import UNREADABLE

STEP_BYTES = 32 << 20
"""How much of the logs one step takes in: a second or two of work at most."""

_NOTES_MAX = 100


class Notes:
    """Reports each kind of record that is left out of the state of a topic, once."""

    def __init__(self, topic: str, say: Callable[[str], None]) -> None:
        self._topic = topic
        self._say = say
        self._said: set[str] = set()

    def once(self, text: str) -> None:
        if text not in self._said and len(self._said) < _NOTES_MAX:
            self._said.add(text)
            self._say(f"{self._topic}: {text}; it is passed over")


@dataclass(frozen=True, slots=True)
class Limits:
    """How much all states of a topic keep in memory: `items` of the given name, and bytes of `content`."""

    items: str
    items_max: int
    content: str = ""
    bytes_max: int = 0


class Room:
    """What the state of one partition keeps, and may keep beside those of the other partitions."""

    def __init__(self, notes: Notes) -> None:
        self.items = 0
        self.bytes = 0
        self._notes = notes
        self._limits = Limits("", 0)
        self._items_max = 0
        self._bytes_max = 0

    def limit(self, limits: Limits, others: list[Room]) -> None:
        """Set the limits of the next records; `others` are the rooms of the other partitions."""
        self._limits = limits
        self._items_max = limits.items_max - sum(each.items for each in others)
        self._bytes_max = limits.bytes_max - sum(each.bytes for each in others)

    def take(self, items: int, size: int = 0) -> bool:
        """Count what is to be kept; return whether it may be, which is reported if not."""
        limits = self._limits
        if size and self.bytes + size > self._bytes_max:
            self._notes.once(f"there are more than {limits.bytes_max} bytes of {limits.content}")
            return False
        if self.items + items > self._items_max:
            self._notes.once(f"there are more than {limits.items_max} {limits.items}")
            return False
        self.items += items
        self.bytes += size
        return True

    def give(self, items: int, size: int = 0) -> None:
        """Count what is no longer kept."""
        self.items -= items
        self.bytes -= size


class State(Protocol):
    """What the records of one partition come to."""

    def apply(self, record: Record) -> None:
        """Take in the next record."""


S = TypeVar("S", bound=State)


class TopicReplay(Generic[S]):
    """The states of the partitions of `topic`; `begin` returns that of a partition of which nothing is read yet."""

    def __init__(
        self, directory: AnyLogDirectory, topic: str, begin: Callable[[Room, Notes], S], say: Callable[[str], None]
    ) -> None:
        """`say` gets a sentence, once, for each kind of thing that is passed over."""
        self.notes = Notes(topic, say)
        self._directory = directory
        self._topic = topic
        self._begin = begin
        self._replays: dict[TopicPartition, _PartitionReplay[S]] = {}
        self._lock = Lock()

    @property
    def is_there(self) -> bool:
        """Whether the directory has a partition of the topic."""
        return any(partition.topic == self._topic for partition in self._directory.partitions())

    @contextlib.contextmanager
    def states(self, *, nowait: bool) -> Iterator[list[S]]:
        """Yield the states as of the last `refresh`, which nothing changes meanwhile."""
        with self._locked(nowait):
            yield [replay.state for replay in self._replays.values()]

    def refresh(self, limits: Limits, *, nowait: bool = False, bytes_max: int = STEP_BYTES) -> bool:
        """Take in what was appended since, about `bytes_max` of it; return whether that is all.

        With `nowait` `WouldBlock` when there is anything to take in.
        """
        with self._locked(nowait):
            left = bytes_max
            for replay in self._current(nowait):
                if replay.is_complete:
                    continue
                if nowait:
                    raise WouldBlock("records are to be read", path=replay.log.path)
                replay.room.limit(limits, [each.room for each in self._replays.values() if each is not replay])
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

    def _current(self, nowait: bool) -> list[_PartitionReplay[S]]:
        """Return the replays of the partitions as they are now; one that was deleted or made anew begins again."""
        partitions = [each for each in self._directory.partitions() if each.topic == self._topic]
        for gone in self._replays.keys() - set(partitions):
            del self._replays[gone]
        for partition in partitions:
            try:
                log = current_log(self._directory, partition, nowait=nowait)
            except WouldBlock:
                raise
            except (StorageError, OSError) as error:
                self.notes.once(f"{partition} does not open: {error}")
                continue
            replay = self._replays.get(partition)
            if replay is None or replay.log is not log:
                room = Room(self.notes)
                self._replays[partition] = _PartitionReplay(log, self._begin(room, self.notes), room, self.notes)
        return list(self._replays.values())


class _PartitionReplay(Generic[S]):
    """The replay of one partition, up to `reached`."""

    def __init__(self, log: Log, state: S, room: Room, notes: Notes) -> None:
        self.log = log
        self.state = state
        self.room = room
        self.reached = log.log_start_offset
        self._notes = notes
        self._pending: dict[int, list[Record]] = {}

    @property
    def is_complete(self) -> bool:
        return self.reached >= self.log.next_offset

    def advance(self, bytes_max: int) -> int:
        """Take in about `bytes_max` bytes of the log; return how many it were."""
        end, taken = self.log.next_offset, 0
        # What retention or compaction has taken counts no longer, as for a coordinator that loads the partition now.
        reader = LogReader(
            self.log,
            start=self.reached,
            stop=end,
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
            if self.room.take(len(records)):
                self._pending.setdefault(header.producer_id, []).extend(records)
            return
        for record in records:
            self.state.apply(record)

    def _damaged(self, error: StorageError) -> None:
        self.log.note_damage(error)
        self._notes.once(str(error))

    def _end_transaction(self, producer_id: int, marker: tuple[int, int] | None) -> None:
        if marker is None or marker[0] not in (ABORT, COMMIT):
            return
        pending = self._pending.pop(producer_id, [])
        self.room.give(len(pending))
        for record in pending if marker[0] == COMMIT else ():
            self.state.apply(record)


def current_log(directory: AnyLogDirectory, partition: TopicPartition, *, nowait: bool) -> Log:
    """Return the log of a partition with what was appended by now; with `nowait` `WouldBlock` when it is not open."""
    opened = directory.opened(partition)
    if nowait and (opened is None or opened.is_gone):
        raise WouldBlock("the partition is not open", path=directory.path)
    log = directory.log(partition)
    log.refresh()
    return log


def log_end(directory: AnyLogDirectory, partition: TopicPartition, *, nowait: bool) -> int | None:
    """Return the next offset of a partition; None when the directory does not have it, or it does not open."""
    if not directory.has(partition):
        return None
    try:
        return current_log(directory, partition, nowait=nowait).next_offset
    except WouldBlock:
        raise
    except (StorageError, OSError):
        return None  # a reader of the partition gets the error
