"""The group coordinator of a broker: membership, committed offsets and administration of groups.

Its parts answer the requests of clients and share one table of groups (`GroupTable`), which follows the log of
`__consumer_offsets`.
"""

from __future__ import annotations

import trio

from offsetfs.kafka.broker.cluster import BrokerNode
from offsetfs.kafka.broker.groups.classic_members import ClassicMembers
from offsetfs.kafka.broker.groups.consumer_membership import ConsumerMembership
from offsetfs.kafka.broker.groups.deadlines import MemberTimers
from offsetfs.kafka.broker.groups.group import Group
from offsetfs.kafka.broker.groups.group_admin import GroupAdmin
from offsetfs.kafka.broker.groups.group_membership import Membership
from offsetfs.kafka.broker.groups.group_offsets import GroupOffsets
from offsetfs.kafka.broker.groups.group_table import GroupTable
from offsetfs.kafka.broker.log_sync import LogSync
from offsetfs.kafka.broker.report import GroupSnapshot
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.broker.topics.partitions import Topics


class GroupCoordinator:
    """The groups of one log directory."""

    def __init__(self, topics: Topics, node: BrokerNode, settings: ServerSettings, syncs: LogSync) -> None:
        self._timers = MemberTimers(settings.group_consumer_session_timeout_ms / 1000)
        self.table = GroupTable(topics.directory, settings.offsets_topic_num_partitions, self._timers.note, syncs)
        self.consumers = ConsumerMembership(self.table, self._timers, topics, settings)
        classic = ClassicMembers(self.table, self.consumers, topics, settings)
        self.membership = Membership(self.table, classic, settings)
        self.offsets = GroupOffsets(self.table, settings)
        self.admin = GroupAdmin(self.table, node)

    async def run(self) -> None:
        """Load the groups, then end sessions and rebalances and delete what has expired, until cancelled.

        On a read-only directory it ends after the load: the members are those of the broker that writes.
        """
        await self.table.log.load()
        if self.table.directory.read_only:
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.membership.run)
            nursery.start_soon(self._timers.run, self.consumers.expire)
            nursery.start_soon(self.offsets.run)
            nursery.start_soon(self.offsets.forget_deleted)

    def snapshot(self) -> list[GroupSnapshot]:
        """Return all groups, those with committed offsets alone included."""
        return [self._snapshot(name) for name in self.table.names()]

    def _snapshot(self, name: str) -> GroupSnapshot:
        group = self.table.live.get(name) or self.table.consumer(name) or Group(name)
        offsets = {partition: commit.offset for partition, commit in self.table.stored(name).offsets.items()}
        return GroupSnapshot(name, group.state, len(group.members), offsets)
