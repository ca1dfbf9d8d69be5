"""Offsets of the source: by time, and the ends of leader epochs. One request to each leader."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from offsetfs.client.cluster import ClusterClient
from offsetfs.client.errors import ClientError, UnsupportedByBroker
from offsetfs.mirror.options import EARLIEST_LOCAL, LATEST
from offsetfs.protocol import messages as m
from offsetfs.protocol.error_codes import ErrorCode
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


Answers = Mapping[TopicPartition, SourceOffset]


async def offsets_at(client: ClusterClient, asked: Iterable[OffsetQuery]) -> Answers:
    """Return the offset of the first record at a time or later; the end where there is none. Failed leaders: no answer.

    EARLIEST and LATEST are times, too.
    """
    found: dict[TopicPartition, SourceOffset] = {}
    for leader, partitions in _by_leader(asked).items():
        try:
            found |= await _times(client, leader, partitions)
        except ClientError as error:
            if not error.is_retriable:
                raise
    later = [each for each in asked if each.value != LATEST and found.get(each.name) == SourceOffset(0)]
    if later:
        found |= await offsets_at(
            client, [OffsetQuery(each.name, each.leader, each.leader_epoch, LATEST) for each in later]
        )
    return found


async def local_starts(client: ClusterClient, asked: Iterable[OffsetQuery]) -> Answers:
    """Return the first offset on the disk of each leader; below it records are in remote storage (KIP-405).

    0 for brokers that know of no remote storage. Failed leaders: no answer.
    """
    found: dict[TopicPartition, SourceOffset] = {}
    for leader, partitions in _by_leader(asked).items():
        try:
            connection = await client.connection(leader)
            if connection.version_of(m.ListOffsetsRequest) < LOCAL_STARTS_VERSION:
                found |= {each.name: SourceOffset(ErrorCode.NONE, 0) for each in partitions}
                continue
            local = [OffsetQuery(each.name, leader, each.leader_epoch, EARLIEST_LOCAL) for each in partitions]
            found |= await _times(client, leader, local)
        except ClientError as error:
            if not error.is_retriable:
                raise
    return found


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


async def ends_of_epochs(client: ClusterClient, asked: Iterable[OffsetQuery]) -> Answers:
    """Return where epochs end at their leaders; offset -1 if the broker cannot say, or does not know the epoch."""
    found: dict[TopicPartition, SourceOffset] = {}
    for leader, partitions in _by_leader(asked).items():
        try:
            found |= await _epochs(client, leader, partitions)
        except ClientError as error:
            if not error.is_retriable:
                raise
    return found


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
