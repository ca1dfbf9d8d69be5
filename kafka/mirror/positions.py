"""Offsets of the source: by time, and the ends of leader epochs. One request to each leader."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from offsetfs.kafka.client.cluster import ClusterClient
from offsetfs.kafka.client.errors import ClientError, UnsupportedByBroker
from offsetfs.kafka.mirror.options import EARLIEST_LOCAL, LATEST
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import TopicPartition

CONSUMER_EPOCHS_VERSION = 3
"""OffsetForLeaderEpoch of this version and later is for clients, too."""

LOCAL_STARTS_VERSION = 8
"""ListOffsets of this version and later can ask for the first record that is not only in remote storage (KIP-405)."""

_CONSUMER = -1


@dataclass(frozen=True, slots=True)
class OffsetQuery:
    """A query for a partition: the offset of `time`, or the end of `epoch`."""

    name: TopicPartition
    leader: int
    leader_epoch: int
    value: int


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """The answer for a partition: an error, or an offset; of an epoch the epoch it is the end of."""

    error: int
    offset: int = -1
    epoch: int = -1


def at_time(asked: OffsetQuery, time: int) -> OffsetQuery:
    """Return the query for another time."""
    return OffsetQuery(asked.name, asked.leader, asked.leader_epoch, time)


Answers = Mapping[TopicPartition, SourceOffset]

OnFailure = Callable[[int, ClientError], None]
"""Called with the node id of a leader that could not be asked, and the reason. Its partitions have no answer."""


async def offsets_at(client: ClusterClient, asked: Sequence[OffsetQuery], on_failure: OnFailure) -> Answers:
    """Return the offset of the first record at a time or later; the end where there is none.

    EARLIEST and LATEST are times, too.
    """
    offsets = await _from_leaders(client, asked, _times, on_failure)
    later = [query for query in asked if query.value != LATEST and offsets.get(query.name) == SourceOffset(0)]
    if later:
        ends = [OffsetQuery(query.name, query.leader, query.leader_epoch, LATEST) for query in later]
        for query in later:
            del offsets[query.name]
        offsets |= await offsets_at(client, ends, on_failure)
    return offsets


async def local_starts(client: ClusterClient, asked: Sequence[OffsetQuery], on_failure: OnFailure) -> Answers:
    """Return the first offset on the disk of each leader; below it records are in remote storage (KIP-405).

    0 for brokers that know of no remote storage.
    """
    return await _from_leaders(client, asked, _local_starts, on_failure)


async def ends_of_epochs(client: ClusterClient, asked: Sequence[OffsetQuery], on_failure: OnFailure) -> Answers:
    """Return the ends of epochs at their leaders; offset -1 if the broker does not know the epoch or the request."""
    return await _from_leaders(client, asked, _epochs, on_failure)


_Ask = Callable[[ClusterClient, int, list[OffsetQuery]], Awaitable[dict[TopicPartition, SourceOffset]]]


async def _from_leaders(
    client: ClusterClient, asked: Sequence[OffsetQuery], ask: _Ask, on_failure: OnFailure
) -> dict[TopicPartition, SourceOffset]:
    offsets: dict[TopicPartition, SourceOffset] = {}
    for leader, partitions in _by_leader(asked).items():
        try:
            offsets |= await ask(client, leader, partitions)
        except ClientError as error:  # the other leaders are asked all the same
            on_failure(leader, error)
    return offsets


async def _local_starts(
    client: ClusterClient, leader: int, asked: list[OffsetQuery]
) -> dict[TopicPartition, SourceOffset]:
    connection = await client.connection(leader)
    if connection.version_of(m.ListOffsetsRequest) < LOCAL_STARTS_VERSION:
        return {query.name: SourceOffset(ErrorCode.NONE, 0) for query in asked}
    local = [OffsetQuery(query.name, leader, query.leader_epoch, EARLIEST_LOCAL) for query in asked]
    return await _times(client, leader, local)


async def _times(client: ClusterClient, leader: int, asked: list[OffsetQuery]) -> dict[TopicPartition, SourceOffset]:
    topics: dict[str, m.ListOffsetsTopic] = {}
    for query in asked:
        topic = topics.setdefault(query.name.topic, m.ListOffsetsTopic(query.name.topic, []))
        topic.partitions.append(m.ListOffsetsPartition(query.name.partition, query.leader_epoch, query.value))
    connection = await client.connection(leader)
    response = await connection.request(m.ListOffsetsRequest(_CONSUMER, 0, [*topics.values()]))
    return {name: SourceOffset(row.error_code, _offset_of(row)) for name, row in _partitions(response.topics)}


def _offset_of(row: Any) -> int:
    """Return the offset; brokers before 0.10.1 have a list of them."""
    return int(row.old_style_offsets[0]) if row.old_style_offsets else int(row.offset)


async def _epochs(client: ClusterClient, leader: int, asked: list[OffsetQuery]) -> dict[TopicPartition, SourceOffset]:
    connection = await client.connection(leader)
    try:
        version = connection.version_of(m.OffsetForLeaderEpochRequest)
    except UnsupportedByBroker:
        version = 0
    if version < CONSUMER_EPOCHS_VERSION:
        return {query.name: SourceOffset(ErrorCode.UNSUPPORTED_VERSION) for query in asked}
    topics: dict[str, m.OffsetForLeaderTopic] = {}
    for query in asked:
        topic = topics.setdefault(query.name.topic, m.OffsetForLeaderTopic(query.name.topic, []))
        topic.partitions.append(m.OffsetForLeaderPartition(query.name.partition, query.leader_epoch, query.value))
    response = await connection.request(m.OffsetForLeaderEpochRequest(_CONSUMER, [*topics.values()]))
    return {
        TopicPartition(topic.topic, row.partition): SourceOffset(row.error_code, row.end_offset, row.leader_epoch)
        for topic in response.topics
        for row in topic.partitions
    }


def _by_leader(asked: Iterable[OffsetQuery]) -> dict[int, list[OffsetQuery]]:
    queries = defaultdict[int, list[OffsetQuery]](list)
    for query in asked:
        queries[query.leader].append(query)
    return queries


def _partitions(topics: Any) -> Iterable[tuple[TopicPartition, Any]]:
    for topic in topics:
        for row in topic.partitions:
            yield TopicPartition(topic.name, row.partition_index), row
