"""Compares the last records here with those of the source at the same offsets.

Leader epochs do not tell two logs apart whose epochs have the same numbers, such as those of a cluster before and after
it was restored from a backup. Only the last batch of a partition is compared. Compaction at the source may have removed
records, or the batch may be gone there: what one side alone has is no difference.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import islice

from offsetfs.common.threads import in_thread_or_here
from offsetfs.kafka.client.cluster import ClusterClient
from offsetfs.kafka.client.errors import ClientError
from offsetfs.kafka.mirror.fetcher import data_of, records_of
from offsetfs.kafka.mirror.partition import MOVED, UNKNOWN, MirroredPartition
from offsetfs.kafka.mirror.positions import OnFailure
from offsetfs.kafka.mirror.session import LEADER_EPOCH_VERSION
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.message import NO_ID, TOPIC_IDS_VERSION
from offsetfs.storage import Batch, read_batch
from offsetfs.storage.errors import StorageError

BYTES_MAX = 16 << 20
"""Bytes of last batches that are compared at a time, at most; a single batch may have more."""
PARTITIONS_MAX = 256

_EPOCH_BYTES = slice(12, 16)
"""The bytes of the leader epoch in a batch, which its checksum does not cover."""


class Comparison(enum.Enum):
    """The result for a partition without a difference."""

    EQUAL = enum.auto()
    """No record is known to differ."""
    NO_ANSWER = enum.auto()
    """The source does not answer now."""


Results = Mapping[MirroredPartition, Comparison | int]
"""The `Comparison` of each partition, or the first offset at which a record of its last batch differs."""


async def compare(client: ClusterClient, partitions: Iterable[MirroredPartition], on_failure: OnFailure) -> Results:
    """Compare the last batch of each partition with what its leader has there."""
    waiting = list(partitions)
    results: dict[MirroredPartition, Comparison | int] = dict.fromkeys(waiting, Comparison.EQUAL)
    waiting = [
        partition
        for partition in waiting
        if partition.log.size_bytes and partition.log.log_start_offset < partition.log.next_offset
    ]
    while waiting:
        own = await in_thread_or_here(partial(_last_batches, waiting))
        by_leader = defaultdict[int, dict[MirroredPartition, Batch]](dict)
        for partition, batch in own.items():
            if batch is not None:
                by_leader[partition.leader][partition] = batch
        for leader, batches in by_leader.items():
            results |= await _compared(client, leader, batches, on_failure)
        del waiting[: len(own)]
    return results


def _last_batches(partitions: Iterable[MirroredPartition]) -> dict[MirroredPartition, Batch | None]:
    """Return the last batches of some partitions, from the first one on, in a thread; None where it is unreadable."""
    batches: dict[MirroredPartition, Batch | None] = {}
    size = 0
    for partition in islice(partitions, PARTITIONS_MAX):
        try:
            batch = batches[partition] = partition.log.batch_at(partition.log.next_offset - 1)
        except (StorageError, OSError):  # `verify` and the next append say more
            batch = batches[partition] = None
        size += 0 if batch is None else batch.header.size
        if size >= BYTES_MAX:
            break
    return batches


async def _compared(
    client: ClusterClient, leader: int, own: Mapping[MirroredPartition, Batch], on_failure: OnFailure
) -> Results:
    """Compare partitions of one leader."""
    try:
        fetched = await _fetched(client, leader, own)
        for partition, records in list(fetched.items()):
            # A batch that is larger than the one here is in a response only as the first one of it.
            if records is not None and not records and len(own) > 1:
                fetched |= await _fetched(client, leader, {partition: own[partition]})
    except ClientError as error:
        on_failure(leader, error)
        return dict.fromkeys(own, Comparison.NO_ANSWER)
    return await in_thread_or_here(
        lambda: {partition: _difference(batch, fetched.get(partition, _NOTHING)) for partition, batch in own.items()}
    )


_NOTHING = memoryview(b"")


async def _fetched(
    client: ClusterClient, leader: int, own: Mapping[MirroredPartition, Batch]
) -> dict[MirroredPartition, memoryview | None]:
    """Return the records of the leader at the last offset of each batch, b"" for no records; None: it answers later."""
    offsets = {partition: batch.header.last_offset for partition, batch in own.items()}
    answers = await records_at(
        client, leader, offsets, {partition: batch.header.size for partition, batch in own.items()}
    )
    records: dict[MirroredPartition, memoryview | None] = dict.fromkeys(own, _NOTHING)
    for partition, answer in answers.items():
        if isinstance(answer, int):
            records[partition] = None if answer in MOVED else _NOTHING
        else:
            records[partition] = answer
    return records


def _difference(own: Batch, records: memoryview | None) -> Comparison | int:
    if records is None:
        return Comparison.NO_ANSWER
    if not records or _without_epoch(records[: own.header.size]) == _without_epoch(own.data):
        return Comparison.EQUAL
    try:
        theirs = {record.offset: record for record in read_batch(records).records()}
        different = [record.offset for record in own.records() if theirs.get(record.offset, record) != record]
    except StorageError:  # damaged, here or there
        return Comparison.EQUAL
    return int(different[0]) if different else Comparison.EQUAL


def _without_epoch(batch: memoryview) -> tuple[memoryview, memoryview]:
    return batch[: _EPOCH_BYTES.start], batch[_EPOCH_BYTES.stop :]


Answers = Mapping[MirroredPartition, memoryview | int]
"""The bytes that a leader sends for each partition, or an error code; those that it does not mention are missing."""


async def records_at(
    client: ClusterClient, leader: int, asked: Mapping[MirroredPartition, int], sizes: Mapping[MirroredPartition, int]
) -> Answers:
    """Return the records of a leader from an offset of each partition on, up to a size in bytes; ClientError.

    A request of its own: without a session, and without waiting for records.
    """
    connection = await client.connection(leader)
    has_ids = all(partition.topic_id != NO_ID for partition in asked)
    version = connection.version_of(m.FetchRequest, max_version=None if has_ids else TOPIC_IDS_VERSION - 1)
    topics: dict[str, m.FetchRequestFetchTopic] = {}
    for partition, offset in asked.items():
        topic = topics.setdefault(
            partition.name.topic, m.FetchRequestFetchTopic(partition.name.topic, partition.topic_id, [])
        )
        topic.partitions.append(
            m.FetchRequestFetchPartition(
                partition=partition.name.partition,
                current_leader_epoch=partition.leader_epoch if version >= LEADER_EPOCH_VERSION else UNKNOWN,
                fetch_offset=offset,
                partition_max_bytes=sizes[partition],
            )
        )
    request = m.FetchRequest(max_bytes=sum(sizes.values()), min_bytes=1, session_epoch=-1, topics=[*topics.values()])
    response = await connection.request(request, max_version=version)
    if response.error_code:
        return dict.fromkeys(asked, int(response.error_code))
    by_name = {(partition.name.topic, partition.name.partition): partition for partition in asked}
    by_id = {(partition.topic_id, partition.name.partition): partition for partition in asked}
    answers: dict[MirroredPartition, memoryview | int] = {}
    for topic, number, data in data_of(response):
        answered = by_name.get((topic.topic, number)) or by_id.get((bytes(topic.topic_id), number))
        if answered is not None:
            answers[answered] = int(data.error_code) or records_of(data)
    return answers
