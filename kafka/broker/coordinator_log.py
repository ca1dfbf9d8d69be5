"""The state of a coordinator on disk: the state of its keys in one of Kafka's internal topics.

What is in memory is what the log has: an append counts when it is in the segment file, and records that others append
(the mount's `groups/`, on a read-only directory a running broker) are read before the next answer. Each partition has
one lock, which keeps the order of its keys; partitions are independent. A partition that cannot be read gives an error
for all of its keys, and is tried again every `RETRY_S`.

Only the event loop uses this module's objects; it waits for the disk in threads.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, NamedTuple, TypeVar

import trio

from offsetfs.common.threads import in_thread
from offsetfs.kafka.broker.log_sync import LogSync
from offsetfs.kafka.broker.slices import Slices
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import BatchBuilder, Log, LogDirectory, TopicPartition
from offsetfs.storage.coordinators import ChangesReplay, partition_of, transactional_batch
from offsetfs.storage.errors import StorageError

_log = logging.getLogger(__name__)

RETRY_S = 10.0
"""The pause before a partition that could not be read is tried again."""

LOAD_WAIT_S = 5.0
"""The time that a request waits for its partition to be loaded; then clients are asked to try again."""

_STEP_BYTES = 1 << 18  # what the event loop applies at once: a few milliseconds
_BATCH_BYTES_MAX = 1 << 18
_RECORD_OVERHEAD = 64
_APPENDS_MAX = 4  # at the same time; reads, which have another limit, never delay a commit

KeyValue = tuple[bytes, bytes | None]
"""Key and value of a record; None deletes the key."""

S = TypeVar("S")
C = TypeVar("C")


class ProducerEpoch(NamedTuple):
    """The producer of a transaction."""

    producer_id: int
    epoch: int


@dataclass(slots=True, eq=False)
class Shard(Generic[S, C]):
    """One partition of the topic, and the states of its keys."""

    partition: TopicPartition
    states: dict[str, S] = field(default_factory=dict)
    lock: trio.Lock = field(default_factory=trio.Lock)
    replay: ChangesReplay[C] | None = None
    is_catching_up: bool = False
    loaded_s: float | None = None
    failure: str = ""
    failed_s: float = 0.0


class CoordinatorLog(ABC, Generic[S, C]):
    """Reads and writes a coordinator's topic of one directory. S: the state of a key; C: a change of it."""

    unreadable = ErrorCode.NOT_COORDINATOR
    """The error for keys of a partition that cannot be read: that of a coordinator of Kafka that could not load it."""

    def __init__(
        self,
        directory: LogDirectory,
        topic: str,
        content: str,
        syncs: LogSync,
        refusal: Callable[[ErrorCode], Exception],
        replay_of: Callable[[Log], ChangesReplay[C]],
    ) -> None:
        """`content`: what the records are, for messages. `refusal` makes the error of a request. `replay_of` begins a
        replay at the start of a partition.
        """
        self._directory = directory
        self._topic = topic
        self._content = content
        self._syncs = syncs
        self._refusal = refusal
        self._replay_of = replay_of
        self._shards: dict[TopicPartition, Shard[S, C]] = {}
        self._creating = trio.Lock()
        self._appends = trio.CapacityLimiter(_APPENDS_MAX)
        self._listing: Sequence[TopicPartition] | None = None
        self._count = 0  # of partitions, if the topic is complete
        self._reported: dict[TopicPartition, str] = {}

    # --- what the records are ----------------------------------------------------------------------------------------

    @abstractmethod
    def _create(self, key: str) -> None:
        """Create the topic, or complete it. Waits for the disk."""

    @abstractmethod
    def _record(self, change: C) -> KeyValue:
        """Return the record of a change."""

    @abstractmethod
    def _apply(self, shard: Shard[S, C], change: C, *, own_offset: int | None) -> None:
        """Change the state of a key; `own_offset`: of the record, if it is our own."""

    @abstractmethod
    def _on_forget(self, shard: Shard[S, C]) -> None:
        """The states of a partition are about to be removed from memory."""

    # --- look-ups ----------------------------------------------------------------------------------------------------

    def find(self, key: str) -> S | None:
        """Return what is known of a key; `current` makes it so."""
        return next((shard.states[key] for shard in self._shards_of(key) if key in shard.states), None)

    def states(self) -> Iterator[tuple[str, S]]:
        """Return all known keys with their states, of the partitions that can be read."""
        return ((key, state) for shard in self._shards.values() for key, state in shard.states.items())

    def _shards_of(self, key: str) -> list[Shard[S, C]]:
        """Return the partition of a key; all of them if the directory does not have the whole topic."""
        home = self.partition_of(key)
        return list(self._shards.values()) if home is None else [self._shards[home]]

    def partition_of(self, key: str) -> TopicPartition | None:
        """Return the partition of a key; None if the directory does not have the whole topic."""
        self._list()
        return TopicPartition(self._topic, partition_of(key, self._count)) if self._count else None

    def _list(self) -> None:
        listing = self._directory.partitions()
        if listing is self._listing:
            return
        self._listing = listing
        there = {partition for partition in listing if partition.topic == self._topic}
        for gone in self._shards.keys() - there:
            del self._shards[gone]
        for partition in sorted(there - self._shards.keys(), key=lambda partition: partition.partition):
            self._shards[partition] = Shard(partition)
        is_whole = {partition.partition for partition in there} == set(range(len(there)))
        self._count = len(there) if is_whole else 0

    # --- reading -----------------------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Read all partitions. Those that cannot be read are named in the log."""
        self._list()
        for shard in list(self._shards.values()):
            async with shard.lock:
                await self._catch_up(shard)

    async def current(self, key: str) -> None:
        """Read what was appended to the key's partition since.

        COORDINATOR_LOAD_IN_PROGRESS while it is being loaded; `unreadable` if it cannot be read.
        """
        shards = self._shards_of(key)
        for shard in shards:
            await self._refresh(shard)
        # In a part of the topic any partition may be that of the key.
        if any(shard.failure for shard in shards) and not any(key in shard.states for shard in shards):
            raise self._refusal(self.unreadable)

    async def current_all(self) -> None:
        """Read what was appended to any partition since."""
        self._list()
        for shard in list(self._shards.values()):
            await self._refresh(shard)

    async def _refresh(self, shard: Shard[S, C]) -> None:
        if self._directory.read_only and not shard.failure and shard.replay is not None:
            try:
                await in_thread(shard.replay.log.refresh)
            except (StorageError, OSError) as error:
                self._failed(shard, error)
        if not self._is_behind(shard):
            return
        with trio.move_on_after(LOAD_WAIT_S):
            async with shard.lock:
                if self._is_behind(shard):
                    await self._catch_up(shard)
            return
        raise self._refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def _is_behind(self, shard: Shard[S, C]) -> bool:
        # A thread may have read to the end, with changes that are not applied yet: its lock says when they are.
        if shard.is_catching_up:
            return True
        if shard.failure:
            return trio.current_time() >= shard.failed_s + RETRY_S
        replay = shard.replay
        if replay is None or replay.log.is_gone:
            return True
        return replay.reached != replay.log.next_offset

    async def _catch_up(self, shard: Shard[S, C]) -> None:
        """Read a partition to its end; call with its lock. An error is a state of the partition and is not raised."""
        with trio.CancelScope(shield=True):
            shard.is_catching_up = True
            try:
                log = await in_thread(partial(self._directory.log, shard.partition))
                replay = shard.replay
                if replay is None or replay.log is not log or replay.reached > log.next_offset or shard.failure:
                    self._begin(shard, log)
                await self._advance(shard)
            except (StorageError, OSError, MemoryError) as error:
                self._failed(shard, error)
            else:
                self._succeeded(shard)
            finally:
                shard.is_catching_up = False

    def _begin(self, shard: Shard[S, C], log: Log) -> None:
        """Begin at the start of a log: of a partition that was created, created again, or could not be read."""
        self._forget(shard)
        shard.replay = self._replay_of(log)

    def _forget(self, shard: Shard[S, C]) -> None:
        self._on_forget(shard)
        shard.states = {}

    async def _advance(self, shard: Shard[S, C]) -> None:
        replay = shard.replay
        while replay is not None and not replay.is_complete:
            for change in await in_thread(partial(replay.advance, _STEP_BYTES)):
                self._apply(shard, change, own_offset=None)
            await trio.lowlevel.checkpoint()

    def _failed(self, shard: Shard[S, C], error: Exception) -> None:
        self._forget(shard)
        shard.failure, shard.failed_s = str(error) or type(error).__name__, trio.current_time()
        if self._reported.get(shard.partition) != shard.failure:
            self._reported[shard.partition] = shard.failure
            _log.error(
                "%s: its %s are not available until it can be read again: %s; stop the broker, then `offsetfs repair` "
                "shows what to do",
                shard.partition, self._content, shard.failure,
            )  # fmt: skip

    def _succeeded(self, shard: Shard[S, C]) -> None:
        shard.failure = ""
        if self._reported.pop(shard.partition, None) is not None:
            _log.info("%s: its %s are available again", shard.partition, self._content)
        if shard.loaded_s is None:
            shard.loaded_s = trio.current_time()

    # --- writing -----------------------------------------------------------------------------------------------------

    async def append(self, key: str, make: Callable[[], list[C]], producer: ProducerEpoch | None = None) -> None:
        """Append what `make` returns to the key's partition, which is created if needed.

        `make` is called in the order of the appends, so that it sees what those before have changed; it may raise. If
        there is no topic it is also called before that is created. With `producer` the changes are part of its
        transaction, and count when that commits.
        After return the records are in the segment file. The error of `refusal`, StorageError, OSError, MemoryError;
        then nothing of a batch that failed is stored.
        """
        with trio.CancelScope(shield=True):
            if self.partition_of(key) is None:
                if not make():  # nothing is created for a request that is not granted, or stores nothing
                    return
                await self.create(key)
            shards = self._shards_of(key)
            if not self._count:
                raise self._refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            shard = shards[0]
            async with shard.lock:
                if self._is_behind(shard):
                    await self._catch_up(shard)
                if shard.failure:
                    raise self._refusal(self.unreadable)
                slices = Slices()
                for changes, records in self._batches(make()):
                    await self._append(shard, changes, records, producer)
                    await slices.step()  # before the records of the next batch are made

    async def create(self, key: str) -> None:
        """Create the topic, or complete it; StorageError, OSError."""
        async with self._creating:
            await in_thread(partial(self._create, key))

    async def sync(self, key: str) -> None:
        """Return when everything that was appended to the key's partition is on disk; StorageError, OSError."""
        for shard in self._shards_of(key):
            if shard.replay is not None:
                await self._syncs.sync(shard.replay.log, shard.replay.log.next_offset)

    async def _append(
        self, shard: Shard[S, C], changes: list[C], records: list[KeyValue], producer: ProducerEpoch | None
    ) -> None:
        if producer is not None:
            await in_thread(
                partial(self._write_in_transaction, shard.partition, records, producer), limiter=self._appends
            )
            await self._catch_up(shard)  # the replay keeps the records until the marker
            return
        write = partial(self._write, shard.partition, records)
        first = await in_thread(write, limiter=self._appends)
        if shard.replay is not None and shard.replay.skip_own(first, first + len(records)):
            for number, change in enumerate(changes):
                self._apply(shard, change, own_offset=first + number)
            return
        await self._catch_up(shard)  # another writer of this process has appended before us

    def _write(self, partition: TopicPartition, records: list[KeyValue]) -> int:
        log = self._directory.writable_log(partition)
        now = log.clock.now_ms()
        builder = BatchBuilder(BatchBuilder.OVERHEAD_BYTES + sum(_size(record) for record in records))
        for key, value in records:
            builder.append(key, value, (), now)
        return log.append(builder.seal()).base_offset

    def _write_in_transaction(
        self, partition: TopicPartition, records: list[KeyValue], producer: ProducerEpoch
    ) -> None:
        log = self._directory.writable_log(partition)
        log.append(transactional_batch(records, *producer, log.clock.now_ms()))

    def _batches(self, changes: list[C]) -> Iterator[tuple[list[C], list[KeyValue]]]:
        """Yield changes and their records in batches that `max.message.bytes` allows; one batch if they are few."""
        batch: list[C] = []
        records: list[KeyValue] = []
        size = 0
        for change in changes:
            record = self._record(change)
            if batch and size + _size(record) > _BATCH_BYTES_MAX:
                yield batch, records
                batch, records, size = [], [], 0
            batch.append(change)
            records.append(record)
            size += _size(record)
        if batch:
            yield batch, records


def _size(record: KeyValue) -> int:
    key, value = record
    return len(key) + len(value or b"") + _RECORD_OVERHEAD
