"""The committed offsets of one consumer group in a cluster: read, and set while the group has no members.

Requests go to the coordinator of the group, which is found again after each retriable error, for
`default.api.timeout.ms` in all. A repeated commit of the same offsets changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any

from offsetfs.kafka.client.cluster import ClusterClient, repeated
from offsetfs.kafka.client.errors import KafkaError, UnsupportedByBroker, check_code
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import TopicPartition

COMMIT_VERSION_MAX = 9
"""Later versions of OffsetCommit have the ids of topics."""
FETCH_VERSION_MAX = 7
"""Later versions of OffsetFetch ask for several groups at once."""
DESCRIBE_VERSION_MAX = 5
"""In later versions of DescribeGroups a group that does not exist is an error."""

_DEAD = "Dead"
_WITHOUT_MEMBERS = ("", "Empty", _DEAD)


async def group_state(client: ClusterClient, group: str) -> str:
    """Return Kafka's name of the state of a group, `Dead` if there is none; ClientError."""
    return await repeated(partial(_state, client, group), client.properties)


def has_members(state: str) -> bool:
    """Whether a group in this state has members, so that nobody else may commit for it."""
    return state not in _WITHOUT_MEMBERS


async def _state(client: ClusterClient, group: str) -> str:
    connection = await client.connection(await client.coordinator(group))
    response = await connection.request(m.DescribeGroupsRequest([group]), max_version=DESCRIBE_VERSION_MAX)
    found = response.groups[0]
    check_code(found.error_code, f"group {group}")
    if found.group_state not in ("", _DEAD):
        return str(found.group_state)
    try:  # to DescribeGroups a group of KIP-848 is dead
        connection.version_of(m.ConsumerGroupDescribeRequest)
    except UnsupportedByBroker:
        return _DEAD
    newer = (await connection.request(m.ConsumerGroupDescribeRequest([group]))).groups[0]
    if newer.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return _DEAD
    check_code(newer.error_code, f"group {group}")
    return str(newer.group_state)


async def committed_offsets(
    client: ClusterClient, group: str, partitions: Collection[TopicPartition] | None = None
) -> dict[TopicPartition, int]:
    """Return the offsets that a group has committed, for `partitions` or for all; ClientError."""
    return await repeated(partial(_committed, client, group, partitions), client.properties)


async def _committed(
    client: ClusterClient, group: str, partitions: Collection[TopicPartition] | None
) -> dict[TopicPartition, int]:
    rows = None
    if partitions is not None:
        rows = [m.OffsetFetchRequestTopic(topic, indexes) for topic, indexes in _by_topic(partitions).items()]
    node = await client.coordinator(group)
    response = await client.request(m.OffsetFetchRequest(group, rows), node=node, max_version=FETCH_VERSION_MAX)
    check_code(response.error_code, f"group {group}")
    committed = {}
    for partition, row in _rows(response):
        check_code(row.error_code, f"group {group}: {partition}")
        if row.committed_offset >= 0:
            committed[partition] = row.committed_offset
    return committed


async def commit_offsets(client: ClusterClient, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit offsets for a group without members; ClientError.

    After a KafkaError some of the offsets may be committed: a coordinator refuses single topics.
    """
    if offsets:
        await repeated(partial(_commit, client, group, offsets), client.properties)


async def _commit(client: ClusterClient, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    topics = [
        m.OffsetCommitRequestTopic(
            topic,
            partitions=[
                m.OffsetCommitRequestPartition(index, offsets[TopicPartition(topic, index)]) for index in indexes
            ],
        )
        for topic, indexes in _by_topic(offsets).items()
    ]
    node = await client.coordinator(group)
    request = m.OffsetCommitRequest(group, topics=topics)
    response = await client.request(request, node=node, max_version=COMMIT_VERSION_MAX)
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
