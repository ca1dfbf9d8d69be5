"""What a cluster has of some partitions, before they are copied: first and last offsets, and bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from offsetfs.kafka.client.cluster import ClusterClient, repeated
from offsetfs.kafka.client.errors import ClientError, KafkaError, check_code
from offsetfs.kafka.client.metadata import ClusterMetadata
from offsetfs.kafka.mirror.options import EARLIEST, LATEST
from offsetfs.kafka.mirror.partition import UNKNOWN
from offsetfs.kafka.mirror.positions import OffsetQuery, at_time, offsets_at
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import id_text
from offsetfs.storage import TopicPartition


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where a copy of a partition begins: at the earliest of the places that are given; none: at the log start."""

    time: int | None = None
    """The first record of this time or later, in milliseconds since 1970."""
    offset: int | None = None
    newest: int | None = None
    """So many offsets before the end."""


Choose = Callable[[ClusterMetadata], Mapping[TopicPartition, Beginning]]
"""Returns the partitions that are wanted, of those that the cluster has."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The offsets of a partition."""

    start: int
    """The log start."""
    begin: int
    """The first offset that is wanted."""
    end: int
    size: int | None = None
    """The bytes of the whole log at its leader; None: unknown."""

    def bytes_from(self, offset: int) -> int | None:
        """Estimate the bytes from an offset to the end, as if all offsets had the same; None: unknown."""
        missing = self.end - max(offset, self.start)
        if missing <= 0:
            return 0
        return None if self.size is None else self.size * missing // (self.end - self.start)


@dataclass(frozen=True, slots=True)
class ClusterSurvey:
    """The partitions that are wanted."""

    cluster_id: str
    """Empty where the brokers are older than 0.10.1."""
    extents: Mapping[TopicPartition, Extent]
    topic_ids: Mapping[str, str]
    """The topic ids as text; "" where the brokers are older than 2.8."""
    is_whole: bool
    """Whether all partitions are wanted from their log starts on."""


async def survey(client: ClusterClient, choose: Choose) -> ClusterSurvey:
    """Ask a cluster; ClientError, and what `choose` raises. A leader that is being elected is waited for."""
    metadata = await client.metadata()
    chosen = choose(metadata)
    extents = await repeated(lambda: _extents(client, chosen), client.properties)
    infos = [metadata.topics[topic] for topic in {partition.topic for partition in chosen}]
    return ClusterSurvey(
        metadata.cluster_id or "",
        extents,
        {topic.name: id_text(topic.id) if topic.has_id else "" for topic in infos},
        all(extent.begin == extent.start for extent in extents.values()),
    )


async def _extents(client: ClusterClient, chosen: Mapping[TopicPartition, Beginning]) -> dict[TopicPartition, Extent]:
    metadata = await client.metadata(refresh=True)
    asked = [OffsetQuery(name, *_leader(metadata, name), EARLIEST) for name in chosen]
    starts = await _offsets(client, asked)
    ends = await _offsets(client, [at_time(query, LATEST) for query in asked])
    times = {name: beginning.time for name, beginning in chosen.items() if beginning.time is not None}
    timed = await _offsets(client, [at_time(query, times[query.name]) for query in asked if query.name in times])
    sizes: dict[TopicPartition, int] = {}
    for leader in sorted({query.leader for query in asked}):
        sizes |= await _sizes(client, leader, [query.name for query in asked if query.leader == leader])
    extents = dict[TopicPartition, Extent]()
    for name, beginning in chosen.items():
        start, end = starts[name], max(ends[name], starts[name])
        newest = None if beginning.newest is None else end - beginning.newest
        given = [offset for offset in (timed.get(name), beginning.offset, newest) if offset is not None]
        extents[name] = Extent(start, min(max(start, min(given, default=start)), end), end, sizes.get(name))
    return extents


def _leader(metadata: ClusterMetadata, name: TopicPartition) -> tuple[int, int]:
    """Return node id and epoch of a leader; KafkaError if the partition is gone or has none."""
    topic = metadata.topics.get(name.topic)
    info = None if topic is None else topic.partitions.get(name.partition)
    if info is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(name))
    if info.leader == UNKNOWN:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, str(name))
    return info.leader, info.leader_epoch


async def _offsets(client: ClusterClient, asked: Sequence[OffsetQuery]) -> dict[TopicPartition, int]:
    failures = list[ClientError]()
    found = await offsets_at(client, asked, lambda leader, error: failures.append(error))
    if failures:
        raise failures[0]
    for query in asked:
        check_code(found[query.name].error if query.name in found else ErrorCode.UNKNOWN_SERVER_ERROR, str(query.name))
    return {name: answer.offset for name, answer in found.items()}


async def _sizes(client: ClusterClient, leader: int, names: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the bytes of logs at their leader, without those that it may not, or cannot, tell."""
    numbers = dict[str, list[int]]()
    for name in names:
        numbers.setdefault(name.topic, []).append(name.partition)
    # Version 0 has another field for the numbers.
    topics = [m.DescribableLogDirTopic(topic, partitions, partitions) for topic, partitions in numbers.items()]
    try:
        response = await client.request(m.DescribeLogDirsRequest(topics), node=leader)
    except ClientError:
        return {}
    return {
        TopicPartition(topic.name, row.partition_index): row.partition_size
        for directory in response.results
        for topic in directory.topics
        for row in topic.partitions
        if not row.is_future_key
    }
