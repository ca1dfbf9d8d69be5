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
    """What is asked for a partition: the offset of `time`, or the end of `epoch`."""

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
    found = await _from_leaders(client, asked, _times, on_failure)
    later = [each for each in asked if each.value != LATEST and found.get(each.name) == SourceOffset(0)]
    if later:
        ends = [OffsetQuery(each.name, each.leader, each.leader_epoch, LATEST) for each in later]
        for each in later:
            del found[each.name]
        found |= await offsets_at(client, ends, on_failure)
    return found


async def local_starts(client: ClusterClient, asked: Sequence[OffsetQuery], on_failure: OnFailure) -> Answers:
    """Return the first offset on the disk of each leader; below it records are in remote storage (KIP-405).

    0 for brokers that know of no remote storage.
    """
    return await _from_leaders(client, asked, _local_starts, on_failure)


async def ends_of_epochs(client: ClusterClient, asked: Sequence[OffsetQuery], on_failure: OnFailure) -> Answers:
    """Return where epochs end at their leaders; offset -1 if the broker cannot say, or does not know the epoch."""
    return await _from_leaders(client, asked, _epochs, on_failure)


_Ask = Callable[[ClusterClient, int, list[OffsetQuery]], Awaitable[dict[TopicPartition, SourceOffset]]]


async def _from_leaders(
    client: ClusterClient, asked: Sequence[OffsetQuery], ask: _Ask, on_failure: OnFailure
) -> dict[TopicPartition, SourceOffset]:
    found: dict[TopicPartition, SourceOffset] = {}
    for leader, partitions in _by_leader(asked).items():
        try:
            found |= await ask(client, leader, partitions)
        except ClientError as error:  # the other leaders are asked all the same
            on_failure(leader, error)
    return found


async def _local_starts(
    client: ClusterClient, leader: int, asked: list[OffsetQuery]
) -> dict[TopicPartition, SourceOffset]:
    connection = await client.connection(leader)
    if connection.version_of(m.ListOffsetsRequest) < LOCAL_STARTS_VERSION:
        return {each.name: SourceOffset(ErrorCode.NONE, 0) for each in asked}
    local = [OffsetQuery(each.name, leader, each.leader_epoch, EARLIEST_LOCAL) for each in asked]
    return await _times(client, leader, local)


async def _times(client: ClusterClient, leader: int, asked: list[OffsetQuery]) -> dict[TopicPartition, SourceOffset]:
    topics: dict[str, m.ListOffsetsTopic] = {}
    for each in asked:
        topic = topics.setdefault(each.name.topic, m.ListOffsetsTopic(each.name.topic, []))
        topic.partitions.append(m.ListOffsetsPartition(each.name.partition, each.leader_epoch, each.value))
    connection = await client.connection(leader)
    response = await connection.request(m.ListOffsetsRequest(_CONSUMER, 0, [*topics.values()]))
    return {name: SourceOffset(each.error_code, _offset_of(each)) for name, each in _partitions(response.topics)}


def _offset_of(found: Any) -> int:
    """Return the offset; brokers before 0.10.1 have a list of them."""
    return int(found.old_style_offsets[0]) if found.old_style_offsets else int(found.offset)


async def _epochs(client: ClusterClient, leader: int, asked: list[OffsetQuery]) -> dict[TopicPartition, SourceOffset]:
    connection = await client.connection(leader)
    try:
        version = connection.version_of(m.OffsetForLeaderEpochRequest)
    except UnsupportedByBroker:
        version = 0
    if version < CONSUMER_EPOCHS_VERSION:
        return {each.name: SourceOffset(ErrorCode.UNSUPPORTED_VERSION) for each in asked}
    topics: dict[str, m.OffsetForLeaderTopic] = {}
    for each in asked:
        topic = topics.setdefault(each.name.topic, m.OffsetForLeaderTopic(each.name.topic, []))
        topic.partitions.append(m.OffsetForLeaderPartition(each.name.partition, each.leader_epoch, each.value))
    response = await connection.request(m.OffsetForLeaderEpochRequest(_CONSUMER, [*topics.values()]))
    return {
        TopicPartition(topic.topic, each.partition): SourceOffset(each.error_code, each.end_offset, each.leader_epoch)
        for topic in response.topics
        for each in topic.partitions
    }


def _by_leader(asked: Iterable[OffsetQuery]) -> dict[int, list[OffsetQuery]]:
    found = defaultdict[int, list[OffsetQuery]](list)
    for each in asked:
        found[each.leader].append(each)
    return found


def _partitions(topics: Any) -> Iterable[tuple[TopicPartition, Any]]:
    for topic in topics:
        for each in topic.partitions:
            yield TopicPartition(topic.name, each.partition_index), each
