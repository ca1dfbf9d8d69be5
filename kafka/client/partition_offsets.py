"""Offsets of partitions of a cluster: starts, ends, and the first record at or after a time."""

from __future__ import annotations

from collections.abc import Sequence

from offsetfs.kafka.client.cluster import ClusterClient, repeated
from offsetfs.kafka.client.errors import KafkaError, check_code
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import TopicPartition

LATEST, EARLIEST = -1, -2
"""Kafka's marks for the end and the start of a partition, in place of a time."""

_CONSUMER = -1


async def partition_offsets(
    client: ClusterClient, partitions: Sequence[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    """Return the offsets of a time in milliseconds, or of `LATEST` or `EARLIEST`; KafkaError, ClientError.

    The offset of a time behind the last record is -1. Leaders that change are waited for: those of a new topic answer
    NOT_LEADER_OR_FOLLOWER.
    """
    return await repeated(lambda: _offsets(client, partitions, timestamp), client.properties)


async def _offsets(
    client: ClusterClient, partitions: Sequence[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    if not partitions:
        return {}
    metadata = await client.metadata(sorted({partition.topic for partition in partitions}), refresh=True)
    by_leader: dict[int, dict[str, list[int]]] = {}
    for partition in partitions:
        leader = metadata.topics[partition.topic].partitions[partition.partition].leader
        if leader < 0:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader")
        by_leader.setdefault(leader, {}).setdefault(partition.topic, []).append(partition.partition)
    offsets = {}
    for leader, topics in by_leader.items():
        rows = [
            m.ListOffsetsTopic(name, [m.ListOffsetsPartition(index, timestamp=timestamp) for index in indexes])
            for name, indexes in topics.items()
        ]
        response = await client.request(m.ListOffsetsRequest(_CONSUMER, topics=rows), node=leader)
        for topic in response.topics:
            for row in topic.partitions:
                partition = TopicPartition(topic.name, row.partition_index)
                check_code(row.error_code, str(partition))
                offsets[partition] = row.offset
    return offsets
