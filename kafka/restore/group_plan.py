"""The consumer groups that are restored: their committed offsets, translated into those of the cluster.

A group must have no members while offsets are committed for it (Kafka answers UNKNOWN_MEMBER_ID), and offsets that it
has in the cluster are not replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from offsetfs.common.name_patterns import NamePattern, suggestion
from offsetfs.kafka.client.cluster import ClusterClient
from offsetfs.kafka.client.group_offsets import commit_offsets, committed_offsets, group_state, has_members
from offsetfs.kafka.restore.topic_plan import RestoreRefused
from offsetfs.storage import LogDirectory, TopicPartition
from offsetfs.storage.coordinators import ConsumerGroups


class GroupNotFound(RestoreRefused):
    """A pattern matches none of the consumer groups."""


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A group and its commits in the log directory, for the partitions that are restored."""

    name: str
    commits: Mapping[TopicPartition, int]


def groups_of(
    directory: LogDirectory,
    patterns: Sequence[NamePattern],
    restored: Collection[TopicPartition],
    on_omission: Callable[[str], None],
) -> list[GroupPlan]:
    """Return the groups whose names a pattern matches as a whole, with commits for restored partitions.

    GroupNotFound if a pattern other than `.*` matches no group, which may be a typing error.
    """
    if not patterns:
        return []
    groups = ConsumerGroups(directory, on_omission)
    while not groups.refresh():
        pass
    names = {name: raw for raw in groups.names() if (name := raw.decode(errors="replace")).encode() == raw}
    for pattern in patterns:
        if pattern.pattern != ".*" and not any(map(pattern.fullmatch, names)):
            near = suggestion([pattern.pattern], names) or "offsetfs ls shows them below groups/"
            raise GroupNotFound(f"{directory.path} has no consumer group that matches {pattern.pattern!r}; {near}")
    plans = []
    for name, raw in names.items():
        if any(pattern.fullmatch(name) for pattern in patterns):
            # A commit of -1 or below means that there is none, as for Kafka's coordinator.
            known = [offset_commit for offset_commit in groups.commits(raw) or [] if offset_commit.offset >= 0]
            commits = {
                offset_commit.partition: offset_commit.offset
                for offset_commit in known
                if offset_commit.partition in restored
            }
            if commits:
                plans.append(GroupPlan(name, commits))
    return plans


async def check_groups(client: ClusterClient, plans: Sequence[GroupPlan]) -> None:
    """Raise RestoreRefused if offsets cannot be committed for a group, or it has some already; ClientError."""
    for plan in plans:
        if has_members(await group_state(client, plan.name)):
            raise RestoreRefused(
                f"group {plan.name} has members in the cluster; stop its consumers, or leave the group out of --groups"
            )
        for partition in await committed_offsets(client, plan.name, plan.commits):
            remedy = "delete them there, or leave the group out of --groups"
            raise RestoreRefused(f"group {plan.name} has offsets for {partition} in the cluster; {remedy}")


async def commit(client: ClusterClient, plan: GroupPlan, translated: Mapping[TopicPartition, Mapping[int, int]]) -> int:
    """Commit the offsets of a group for the partitions in `translated`; return how many. KafkaError, ClientError."""
    offsets = {
        partition: translated[partition][offset]
        for partition, offset in plan.commits.items()
        if partition in translated
    }
    await commit_offsets(client, plan.name, offsets)
    return len(offsets)
