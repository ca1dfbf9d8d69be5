"""Records at one offset of each partition, in a request of its own: without a session, without waiting for records."""

from __future__ import annotations

from collections.abc import Mapping

from offsetfs.kafka.client.cluster import ClusterClient
from offsetfs.kafka.mirror.fetcher import data_of, records_of
from offsetfs.kafka.mirror.partition import UNKNOWN, MirroredPartition
from offsetfs.kafka.mirror.session import LEADER_EPOCH_VERSION
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.message import NO_ID
from offsetfs.kafka.protocol.shared_values import TOPIC_IDS_VERSION

Answers = Mapping[MirroredPartition, memoryview | int]
"""The bytes that a leader sends for each partition, or an error code; those that it does not mention are missing."""


async def records_at(
    client: ClusterClient, leader: int, asked: Mapping[MirroredPartition, int], sizes: Mapping[MirroredPartition, int]
) -> Answers:
    """Return what a leader has from an offset of each partition on, up to a size in bytes; ClientError."""
    connection = await client.connection(leader)
    has_ids = all(each.topic_id != NO_ID for each in asked)
    version = connection.version_of(m.FetchRequest, max_version=None if has_ids else TOPIC_IDS_VERSION - 1)
    topics: dict[str, m.FetchRequestFetchTopic] = {}
    for each, offset in asked.items():
        topic = topics.setdefault(each.name.topic, m.FetchRequestFetchTopic(each.name.topic, each.topic_id, []))
        topic.partitions.append(
            m.FetchRequestFetchPartition(
                partition=each.name.partition,
                current_leader_epoch=each.leader_epoch if version >= LEADER_EPOCH_VERSION else UNKNOWN,
                fetch_offset=offset,
                partition_max_bytes=sizes[each],
            )
        )
    request = m.FetchRequest(max_bytes=sum(sizes.values()), min_bytes=1, session_epoch=-1, topics=[*topics.values()])
    response = await connection.request(request, max_version=version)
    if response.error_code:
        return dict.fromkeys(asked, int(response.error_code))
    by_name = {(each.name.topic, each.name.partition): each for each in asked}
    by_id = {(each.topic_id, each.name.partition): each for each in asked}
    found: dict[MirroredPartition, memoryview | int] = {}
    for topic, number, data in data_of(response):
        one = by_name.get((topic.topic, number)) or by_id.get((bytes(topic.topic_id), number))
        if one is not None:
            found[one] = int(data.error_code) or records_of(data)
    return found
