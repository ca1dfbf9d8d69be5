"""All groups of a broker: their live members, what is stored of them, and when each has to be looked at.

One owner of the state: membership, offsets and administration of groups work on this table. A group is live if it has,
or had, members of the classic protocol; a group of commits alone is stored only. Only the event loop uses it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

import trio

from offsetfs.kafka.broker.coordinator_log import ProducerEpoch
from offsetfs.kafka.broker.groups.consumer_group import ConsumerGroup
from offsetfs.kafka.broker.groups.deadlines import DeadlineQueue
from offsetfs.kafka.broker.groups.group import Group, GroupError, restored
from offsetfs.kafka.broker.groups.group_log import GroupLog, OnMember, StoredGroup
from offsetfs.kafka.broker.groups.group_memory import GroupMemory, size_of_consumers, size_of_group
from offsetfs.kafka.broker.log_sync import LogSync
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.records import GroupMetadataValue
from offsetfs.storage import LogDirectory, TopicPartition
from offsetfs.storage.coordinators import Change, ClassicGroupChange, CommitChange, newer_deletions
from offsetfs.storage.errors import RecordTooLarge, StorageError

_log = logging.getLogger(__name__)

NEWER_SESSION_S = 45.0
"""The time after the load in which members of share and streams groups, which cannot reach this broker, count."""

_NEWER_MEMBER_TYPES = (5, 10, 19)  # members of share and streams groups, and of consumer groups that cannot be read


class GroupTable:
    """The groups of one log directory."""

    def __init__(self, directory: LogDirectory, partitions: int, on_member: OnMember, syncs: LogSync) -> None:
        """`partitions`: the number of partitions of a new `__consumer_offsets`.

        `on_member`: called with each member of a consumer group whose record was stored or read; None for a member that
        is gone.
        """
        self.directory = directory
        self.live: dict[str, Group] = {}
        self.log = GroupLog(directory, partitions, (self._restore, on_member), syncs)
        self.deadlines = DeadlineQueue[Group]()
        self.memory = GroupMemory(self._kept_bytes)
        self._conversions: dict[str, trio.Event] = {}

    # --- look-ups ----------------------------------------------------------------------------------------------------

    async def current(self, name: str) -> None:
        """Read what others have stored of a group; COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR."""
        await self.log.current(name)
        while name in self._conversions:
            await self._conversions[name].wait()

    def stored(self, name: str) -> StoredGroup:
        """Return the stored state of a group, which is empty if there is no group of this name."""
        return self.log.find(name) or StoredGroup()

    def names(self) -> list[str]:
        """Return all groups, sorted."""
        return sorted({*self.live, *(name for name, _ in self.log.states()), *self.log.pending_groups()})

    def is_known(self, name: str) -> bool:
        """Return whether there is a group, or an id of a member that has not joined.

        A group is there, as in Kafka, from the first offset that a transaction commits, before the transaction ends.
        """
        return name in self.live or self.log.find(name) is not None or bool(self.log.pending_commits(name))

    def has_newer_members(self, name: str) -> bool:
        """Return whether a group has members of a newer protocol: they may have partitions assigned."""
        stored = self.stored(name)
        if stored.consumer is not None:
            return bool(stored.consumer.members)
        newer = stored.newer
        if not any(int.from_bytes(key[:2], "big") in _NEWER_MEMBER_TYPES for key in newer):
            return False
        return self.directory.read_only or trio.current_time() < self.log.loaded_s(name) + NEWER_SESSION_S

    def consumer(self, name: str) -> ConsumerGroup | None:
        """Return a consumer group, or None."""
        return self.stored(name).consumer

    def committed(self, name: str) -> list[TopicPartition]:
        """Return the partitions that a group has offsets of, those that open transactions commit included, sorted."""
        return sorted({*self.stored(name).offsets, *self.log.pending_commits(name)})

    # --- changes -----------------------------------------------------------------------------------------------------

    async def append(self, name: str, make: Callable[[], list[Change]], producer: ProducerEpoch | None = None) -> None:
        """Append the changes that `make` returns, as `GroupLog.append`. GroupError, with a reason in the log.

        In a transaction, of `producer`, they are on disk on return: its commit must not be there without them.
        """
        with self._reported(name):
            await self.log.append(name, make, producer)
            if producer is not None:
                await self.log.sync(name)

    async def home(self, name: str) -> TopicPartition:
        """Return the partition of `__consumer_offsets` that has the records of a group, which is created if needed."""
        with self._reported(name):
            if self.log.partition_of(name) is None and not self.directory.read_only:
                await self.log.create(name)
        home = self.log.partition_of(name)
        if home is None:
            raise GroupError(_RETRIED)
        return home

    @staticmethod
    @contextlib.contextmanager
    def _reported(name: str) -> Iterator[None]:
        try:
            yield
        except (StorageError, OSError, MemoryError) as error:
            _log.error("group %s could not be stored: %s", name, error)
            raise GroupError(_code_of(error)) from error

    async def store(self, group: Group, check: Callable[[], None], assignments: dict[str, bytes] | None = None) -> None:
        """Store state and members that a group has now, unless `check` raises an error first; GroupError."""
        # Now, because members of the next generation may have joined before the append.
        value = group.stored(assignments)

        def make() -> list[Change]:
            check()
            if self.has_newer_members(group.group_id):  # they have joined meanwhile
                raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)
            # As Kafka does when a classic member joins an empty group of another protocol.
            gone = newer_deletions(group.group_id, self.stored(group.group_id).newer)
            return [*gone, ClassicGroupChange(group.group_id, value)]

        await self.append(group.group_id, make)

    async def delete(self, name: str, make: Callable[[], list[Change]]) -> None:
        """Append the deletions of a group that `make` returns, unless it raises an error.

        The group leaves the memory before the append: members that join meanwhile are of a new group, which is stored
        behind it. If the append fails, it comes back. GroupError.
        """
        group: Group | None = None

        def deletions() -> list[Change]:
            nonlocal group
            changes = make()
            group = self.live.pop(name, None) or group
            return changes

        try:
            await self.append(name, deletions)
        except GroupError:
            if group is not None:
                self.live.setdefault(name, group)
            raise

    async def convert(self, name: str, make: Callable[[], tuple[list[Change], Group | None]]) -> None:
        """Append changes of a group that may become one of the other protocol. GroupError.

        `make` returns the changes, and the classic group after them; None for a consumer group. Requests for a group
        that is converted wait meanwhile (`current`): a member must not be unknown to either protocol.
        """
        done = trio.Event()
        after: Group | None = None

        def changes() -> list[Change]:
            nonlocal after
            made, after = make()
            if after is not None or name in self.live:
                self._conversions[name] = done
            return made

        try:
            await self.append(name, changes)
            # Without a checkpoint since the records count: no request sees both groups, or neither.
            before = self.live.pop(name, None)
            if after is not None:
                self.live[name] = after
                self.deadlines.schedule(after)
            if before is not None and before is not after:
                before.end_requests(ErrorCode.REBALANCE_IN_PROGRESS)
        finally:
            done.set()
            if self._conversions.get(name) is done:
                del self._conversions[name]

    def deletions(self, name: str) -> list[Change]:
        """Return the deletion of everything that is stored of a group."""
        stored = self.stored(name)
        changes: list[Change] = [CommitChange(name, partition, None, 0) for partition in self.committed(name)]
        changes += newer_deletions(name, stored.newer)
        if stored.metadata is not None:
            changes.append(ClassicGroupChange(name, None))
        return changes

    def _restore(self, name: str, value: GroupMetadataValue | None) -> None:
        self.live.pop(name, None)
        if value is not None:
            self.live[name] = group = restored(name, value, trio.current_time())
            if not self.directory.read_only:
                self.deadlines.schedule(group)

    def _kept_bytes(self) -> int:
        consumers = (stored.consumer for _, stored in self.log.states())
        return sum(map(size_of_group, self.live.values())) + sum(
            size_of_consumers(consumer) for consumer in consumers if consumer is not None
        )

    def due(self, now_s: float) -> list[Group]:
        """Return the groups whose deadline may be over; each has to be scheduled again."""
        return [group for group in self.deadlines.due(now_s) if self.live.get(group.group_id) is group]


def _code_of(error: Exception) -> ErrorCode:
    # A client would repeat a request that is too large forever, so that is the one error it is not to retry.
    return ErrorCode.INVALID_COMMIT_OFFSET_SIZE if isinstance(error, RecordTooLarge) else _RETRIED


_RETRIED = ErrorCode.COORDINATOR_NOT_AVAILABLE
