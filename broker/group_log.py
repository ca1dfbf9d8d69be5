"""What the group coordinator keeps on disk: commits and groups in `__consumer_offsets`, in Kafka's format.

What is in memory is what the log has: an append counts when it is in the segment file, and records that others append
(the mount's `groups/`, on a read-only directory a running broker) are read before the next answer. Each partition has
one lock, which keeps the order of its groups; partitions are independent. A partition that cannot be read gives an
error for all of its groups, and is tried again every `RETRY_S`.

Only the event loop uses this module's objects; it waits for the disk in threads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import trio

from offsetfs.broker.error_codes import ErrorCode
from offsetfs.broker.group import GroupError
from offsetfs.protocol.records import GroupMetadataValue
from offsetfs.runtime.threads import in_thread
from offsetfs.storage import BatchBuilder, Log, LogDirectory, TopicPartition
from offsetfs.storage.coordinators import (
    OFFSETS_TOPIC,
    Change,
    ClassicGroupChange,
    CommitChange,
    CommittedOffset,
    OffsetsReplay,
    commit_key,
    commit_value,
    group_key,
    group_value,
    partition_of,
    partition_of_group,
)
from offsetfs.storage.errors import StorageError

_log = logging.getLogger(__name__)

RETRY_S = 10.0
"""How long a partition that could not be read is left alone."""

LOAD_WAIT_S = 5.0
"""How long a request waits for its partition to be loaded, before clients are asked to try again."""

_STEP_BYTES = 1 << 18  # what the event loop applies at once: a few milliseconds
_BATCH_BYTES_MAX = 1 << 18
_RECORD_OVERHEAD = 64
_APPENDS_MAX = 4  # at the same time; reads, which have another limit, never delay a commit

KeyValue = tuple[bytes, bytes | None]
"""Key and value of a record; None deletes the key."""


@dataclass(slots=True, eq=False)
class StoredGroup:
    """What the log has of a group. `newer`: the records of a group of a newer protocol, values by keys."""

    metadata: GroupMetadataValue | None = None
    offsets: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)
    newer: dict[bytes, bytes] = field(default_factory=dict)
    _at: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return self.metadata is None and not self.offsets and not self.newer

    def note_commit(self, change: CommitChange) -> None:
        # As OffsetMetadataManager: a transaction that ends does not replace a later commit.
        if self._at.get(change.partition, -1) > change.at:
            return
        if change.commit is None:
            self.offsets.pop(change.partition, None)
            self._at.pop(change.partition, None)
        else:
            self.offsets[change.partition] = change.commit
            self._at[change.partition] = change.at


@dataclass(slots=True, eq=False)
class _Shard:
    """The groups of one partition of the topic."""

    partition: TopicPartition
    groups: dict[str, StoredGroup] = field(default_factory=dict)
    lock: trio.Lock = field(default_factory=trio.Lock)
    replay: OffsetsReplay | None = None
    loaded_s: float | None = None
    failure: str = ""
    failed_s: float = 0.0


OnGroup = Callable[[str, GroupMetadataValue | None], None]


def commit_record(group: str, partition: TopicPartition, commit: CommittedOffset | None) -> KeyValue:
    """Return the record of a commit, or of its deletion."""
    return commit_key(group, partition), None if commit is None else commit_value(commit)


def group_record(group: str, value: GroupMetadataValue | None) -> KeyValue:
    """Return the record of a classic group, or of its deletion."""
    return group_key(group), None if value is None else group_value(value)


class GroupLog:
    """Reads and writes `__consumer_offsets` of one directory."""

    def __init__(self, directory: LogDirectory, partitions: int, on_group: OnGroup) -> None:
        """`partitions`: the number of partitions of a new topic. `on_group` is called with each classic group that
        another coordinator has written or deleted.
        """
        self._directory = directory
        self._partitions = partitions
        self._on_group = on_group
        self._shards: dict[TopicPartition, _Shard] = {}
        self._creating = trio.Lock()
        self._appends = trio.CapacityLimiter(_APPENDS_MAX)
        self._listing: list[TopicPartition] | None = None
        self._count = 0  # of partitions, if the topic is complete
        self._reported: dict[TopicPartition, str] = {}

    # --- look-ups ----------------------------------------------------------------------------------------------------

    def find(self, group: str) -> StoredGroup | None:
        """Return what is known of a group; `current` makes it so."""
        return next((each.groups[group] for each in self._shards_of(group) if group in each.groups), None)

    def groups(self) -> Iterator[tuple[str, StoredGroup]]:
        """Return all known groups, of the partitions that can be read."""
        return ((name, stored) for shard in self._shards.values() for name, stored in shard.groups.items())

    def loaded_s(self, group: str) -> float:
        """Return when the partition of a group was loaded."""
        return max((each.loaded_s or 0.0 for each in self._shards_of(group)), default=0.0)

    def pending_commits(self, group: str) -> set[tuple[str, TopicPartition]]:
        """Return the commits of open transactions in the group's partition."""
        replays = [each.replay for each in self._shards_of(group) if each.replay is not None]
        return {commit for each in replays for commit in each.pending_commits()}

    def _shards_of(self, group: str) -> list[_Shard]:
        """Return the partition of a group; all of them if the directory does not have the whole topic."""
        self._list()
        if not self._count:
            return list(self._shards.values())
        home = TopicPartition(OFFSETS_TOPIC, partition_of(group, self._count))
        return [self._shards[home]]

    def _list(self) -> None:
        listing = self._directory.partitions()
        if listing is self._listing:
            return
        self._listing = listing
        there = {each for each in listing if each.topic == OFFSETS_TOPIC}
        for gone in self._shards.keys() - there:
            del self._shards[gone]
        for each in sorted(there - self._shards.keys(), key=lambda each: each.partition):
            self._shards[each] = _Shard(each)
        is_whole = {each.partition for each in there} == set(range(len(there)))
        self._count = len(there) if is_whole else 0

    # --- reading -----------------------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Read all partitions. Those that cannot be read are named in the log."""
        self._list()
        for shard in list(self._shards.values()):
            async with shard.lock:
                await self._catch_up(shard)

    async def current(self, group: str) -> None:
        """Read what was appended to the group's partition since.

        COORDINATOR_LOAD_IN_PROGRESS while it is being loaded; NOT_COORDINATOR, as from a coordinator of Kafka that
        could not load it, if it cannot be read.
        """
        shards = self._shards_of(group)
        for shard in shards:
            await self._refresh(shard)
        # In a part of the topic any partition may be that of the group.
        if any(each.failure for each in shards) and not any(group in each.groups for each in shards):
            raise GroupError(ErrorCode.NOT_COORDINATOR)

    async def current_all(self) -> None:
        """Read what was appended to any partition since."""
        self._list()
        for shard in list(self._shards.values()):
            await self._refresh(shard)

    async def _refresh(self, shard: _Shard) -> None:
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
        raise GroupError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def _is_behind(self, shard: _Shard) -> bool:
        if shard.failure:
            return trio.current_time() >= shard.failed_s + RETRY_S
        replay = shard.replay
        if replay is None or replay.log.is_gone:
            return True
        return replay.reached != replay.log.next_offset

    async def _catch_up(self, shard: _Shard) -> None:
        """Read a partition to its end; call with its lock. An error is a state of the partition and is not raised."""
        with trio.CancelScope(shield=True):
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

    def _begin(self, shard: _Shard, log: Log) -> None:
        """Begin at the start of a log: of a partition that was created, created again, or could not be read."""
        self._forget(shard)
        shard.replay = OffsetsReplay(log)

    def _forget(self, shard: _Shard) -> None:
        if shard.loaded_s is None or self._directory.read_only:
            for name in shard.groups:
                self._on_group(name, None)
        shard.groups = {}

    async def _advance(self, shard: _Shard) -> None:
        replay = shard.replay
        while replay is not None and not replay.is_complete:
            for change in await in_thread(partial(replay.advance, _STEP_BYTES)):
                self._apply(shard, change, is_own=False)
            await trio.lowlevel.checkpoint()

    def _failed(self, shard: _Shard, error: Exception) -> None:
        self._forget(shard)
        shard.failure, shard.failed_s = str(error) or type(error).__name__, trio.current_time()
        if self._reported.get(shard.partition) != shard.failure:
            self._reported[shard.partition] = shard.failure
            _log.error(
                "%s: its groups and committed offsets are not available until it can be read again: %s; "
                "`offsetfs verify` shows the damage",
                shard.partition, shard.failure,
            )  # fmt: skip

    def _succeeded(self, shard: _Shard) -> None:
        shard.failure = ""
        if self._reported.pop(shard.partition, None) is not None:
            _log.info("%s: its groups and committed offsets are available again", shard.partition)
        if shard.loaded_s is None:
            shard.loaded_s = trio.current_time()

    def _apply(self, shard: _Shard, change: Change, *, is_own: bool) -> None:
        stored = shard.groups.get(change.group) or StoredGroup()
        if isinstance(change, CommitChange):
            stored.note_commit(change)
        elif isinstance(change, ClassicGroupChange):
            stored.metadata = change.value
            # In a writing process no other coordinator writes groups: later ones that are read are our own.
            if not is_own and (shard.loaded_s is None or self._directory.read_only):
                self._on_group(change.group, change.value)
        elif change.value is None:
            stored.newer.pop(change.key, None)
        else:
            stored.newer[change.key] = change.value
        if stored.is_empty:
            shard.groups.pop(change.group, None)
        else:
            shard.groups[change.group] = stored

    # --- writing -----------------------------------------------------------------------------------------------------

    async def append(self, group: str, make: Callable[[], list[Change]]) -> None:
        """Append what `make` returns to the group's partition, which is created if needed.

        `make` is called in the order of the appends, so that it sees what those before have changed; it may raise. If
        there is no topic it is also called before that is created.
        After return the records are in the segment file. GroupError, StorageError, OSError, MemoryError; then nothing
        of a batch that failed is stored.
        """
        with trio.CancelScope(shield=True):
            self._list()
            if not self._count:
                if not make():  # nothing is created for a request that is not granted, or stores nothing
                    return
                async with self._creating:
                    await in_thread(partial(self._create, group))
            shards = self._shards_of(group)
            if not self._count:
                raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            shard = shards[0]
            async with shard.lock:
                if self._is_behind(shard):
                    await self._catch_up(shard)
                if shard.failure:
                    raise GroupError(ErrorCode.NOT_COORDINATOR)
                for changes, records in _batches(make()):
                    await self._append(shard, changes, records)

    def _create(self, group: str) -> None:
        partition_of_group(self._directory, group, may_create=True, partitions=self._partitions)

    async def _append(self, shard: _Shard, changes: list[Change], records: list[KeyValue]) -> None:
        write = partial(self._write, shard.partition, records)
        first = await in_thread(write, limiter=self._appends)
        if shard.replay is not None and shard.replay.skip_own(first, first + len(records)):
            for number, change in enumerate(changes):
                own = change._replace(at=first + number) if isinstance(change, CommitChange) else change
                self._apply(shard, own, is_own=True)
            return
        await self._catch_up(shard)  # another writer of this process has appended before us

    def _write(self, partition: TopicPartition, records: list[KeyValue]) -> int:
        log = self._directory.writable_log(partition)
        now = log.clock.now_ms()
        builder = BatchBuilder(BatchBuilder.OVERHEAD_BYTES + sum(_size(record) for record in records))
        for key, value in records:
            builder.append(key, value, (), now)
        return log.append(builder.seal()).base_offset


def _batches(changes: list[Change]) -> Iterator[tuple[list[Change], list[KeyValue]]]:
    """Yield changes and their records in batches that `max.message.bytes` allows; one batch if they are not many."""
    batch: list[Change] = []
    records: list[KeyValue] = []
    size = 0
    for change in changes:
        record = _record(change)
        if batch and size + _size(record) > _BATCH_BYTES_MAX:
            yield batch, records
            batch, records, size = [], [], 0
        batch.append(change)
        records.append(record)
        size += _size(record)
    if batch:
        yield batch, records


def _record(change: Change) -> KeyValue:
    if isinstance(change, CommitChange):
        return commit_record(change.group, change.partition, change.commit)
    if isinstance(change, ClassicGroupChange):
        return group_record(change.group, change.value)
    return change.key, change.value


def _size(record: KeyValue) -> int:
    key, value = record
    return len(key) + len(value or b"") + _RECORD_OVERHEAD
