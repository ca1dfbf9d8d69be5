"""The consumer groups that are restored: their committed offsets, translated into those of the cluster.

A group must have no members while offsets are committed for it (Kafka answers UNKNOWN_MEMBER_ID), and offsets that it
has in the cluster are not replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from offsetfs.common.name_patterns import NamePattern, suggestion
from offsetfs.kafka.client.cluster import ClusterClient, repeated
from offsetfs.kafka.client.errors import KafkaError, check_code
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.restore.topic_plan import RestoreRefused
from offsetfs.storage import LogDirectory, TopicPartition
from offsetfs.storage.coordinators import ConsumerGroups

NAMES_VERSION_MAX = 9
"""Later versions of OffsetCommit have the ids of topics."""
FETCH_VERSION_MAX = 7
"""Later versions of OffsetFetch ask for several groups at once."""
DESCRIBE_VERSION_MAX = 5

_WITHOUT_MEMBERS = ("", "Empty", "Dead")


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
        await repeated(partial(_check_group, client, plan), client.properties)


async def _check_group(client: ClusterClient, plan: GroupPlan) -> None:
    node = await client.coordinator(plan.name)
    described = await client.request(m.DescribeGroupsRequest([plan.name]), node=node, max_version=DESCRIBE_VERSION_MAX)
    group = described.groups[0]
    check_code(group.error_code, f"group {plan.name}")
    if group.group_state not in _WITHOUT_MEMBERS:
        raise RestoreRefused(
            f"group {plan.name} has members in the cluster; stop its consumers, or leave the group out of --groups"
        )
    rows = [m.OffsetFetchRequestTopic(topic, indexes) for topic, indexes in _by_topic(plan.commits).items()]
    fetched = await client.request(m.OffsetFetchRequest(plan.name, rows), node=node, max_version=FETCH_VERSION_MAX)
    check_code(fetched.error_code, f"group {plan.name}")
    for partition, row in _rows(fetched):
        check_code(row.error_code, f"group {plan.name}: {partition}")
        if row.committed_offset >= 0:
            remedy = "delete them there, or leave the group out of --groups"
            raise RestoreRefused(f"group {plan.name} has offsets for {partition} in the cluster; {remedy}")


async def commit(client: ClusterClient, plan: GroupPlan, translated: Mapping[TopicPartition, Mapping[int, int]]) -> int:
    """Commit the offsets of a group for the partitions in `translated`; return how many. KafkaError, ClientError."""
    offsets = {
        partition: translated[partition][offset]
        for partition, offset in plan.commits.items()
        if partition in translated
    }
    if not offsets:
        return 0
    topics = [
        m.OffsetCommitRequestTopic(
            topic,
            partitions=[
                m.OffsetCommitRequestPartition(index, offsets[TopicPartition(topic, index)]) for index in indexes
            ],
        )
        for topic, indexes in _by_topic(offsets).items()
    ]
    await repeated(partial(_commit, client, m.OffsetCommitRequest(plan.name, topics=topics)), client.properties)
    return len(offsets)


async def _commit(client: ClusterClient, request: m.OffsetCommitRequest) -> None:
    node = await client.coordinator(request.group_id)
    response = await client.request(request, node=node, max_version=NAMES_VERSION_MAX)
    for partition, row in _rows(response):
        if row.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            raise KafkaError(row.error_code, "the group has members; stop its consumers")
        check_code(row.error_code, str(partition))


def _by_topic(partitions: Collection[TopicPartition]) -> dict[str, list[int]]:
    indexes: dict[str, list[int]] = {}
    for partition in partitions:
        indexes.setdefault(partition.topic, []).append(partition.partition)
    return indexes


def _rows(response: Any) -> Iterator[tuple[TopicPartition, Any]]:
    """Yield the partitions in a response of OffsetCommit or OffsetFetch."""
    for topic in response.topics:
        for row in topic.partitions:
            yield TopicPartition(topic.name, row.partition_index), row
