"""The group coordinator of a broker: membership, committed offsets and administration of groups.

Its parts answer the requests of clients and share one table of groups (`GroupTable`), which follows the log of
`__consumer_offsets`.
"""

from __future__ import annotations

import trio

from offsetfs.kafka.broker.cluster import BrokerNode
from offsetfs.kafka.broker.groups.classic_members import ClassicMembers
from offsetfs.kafka.broker.groups.consumer_membership import ConsumerMembership
from offsetfs.kafka.broker.groups.group import Group
from offsetfs.kafka.broker.groups.group_admin import GroupAdmin
from offsetfs.kafka.broker.groups.group_membership import Membership
from offsetfs.kafka.broker.groups.group_offsets import GroupOffsets
from offsetfs.kafka.broker.groups.group_table import GroupTable
from offsetfs.kafka.broker.log_sync import LogSync
from offsetfs.kafka.broker.report import GroupSnapshot
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.broker.topics.partitions import Topics
from offsetfs.storage import TopicPartition


class GroupCoordinator:
    """The groups of one log directory."""

    def __init__(self, topics: Topics, node: BrokerNode, settings: ServerSettings, syncs: LogSync) -> None:
        self._table = GroupTable(topics.directory, settings.offsets_topic_num_partitions, syncs)
        self.consumers = ConsumerMembership(self._table, topics, settings)
        classic = ClassicMembers(self._table, self.consumers, topics, settings)
        self.membership = Membership(self._table, classic, settings)
        self.offsets = GroupOffsets(self._table, settings)
        self.admin = GroupAdmin(self._table, node)

    async def run(self) -> None:
        """Load the groups, then end sessions and rebalances and delete what has expired, until cancelled.

        On a read-only directory it ends after the load: the members are those of the broker that writes.
        """
        await self._table.load()
        if self._table.directory.read_only:
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.membership.run)
            nursery.start_soon(self.consumers.run)
            nursery.start_soon(self.offsets.run)
            nursery.start_soon(self.offsets.forget_deleted)

    async def home(self, group: str) -> TopicPartition:
        """Return the partition that has the records of a group, as `GroupTable.home`; GroupError."""
        return await self._table.home(group)

    def snapshot(self) -> list[GroupSnapshot]:
        """Return all groups, those with committed offsets alone included."""
        return [self._snapshot(name) for name in self._table.names()]

    def _snapshot(self, name: str) -> GroupSnapshot:
        group = self._table.live.get(name) or self._table.consumer(name) or Group(name)
        offsets = {partition: each.offset for partition, each in self._table.stored(name).offsets.items()}
        return GroupSnapshot(name, group.state, len(group.members), offsets)

    def members(self, group: str) -> Group | None:
        """Return the live state of a group, or None. Its members hold partitions while `members` is not empty."""
        return self._table.live.get(group)
