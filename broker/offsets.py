"""ListOffsets, DescribeProducers, and the producer ids that InitProducerId hands out."""

from __future__ import annotations

import secrets
from functools import partial

from offsetfs.broker.admin_results import repeated
from offsetfs.broker.error_codes import code_of
from offsetfs.broker.leader_epochs import epoch_error
from offsetfs.broker.partitions import Topics, leader_epoch_of
from offsetfs.broker.shared_values import READ_COMMITTED
from offsetfs.protocol.error_codes import ErrorCode
from offsetfs.protocol.messages import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from offsetfs.runtime.threads import in_thread
from offsetfs.storage import Log
from offsetfs.storage.errors import StorageError

_LEADER_EPOCH_VERSION = 4
_LATEST, _EARLIEST, _MAX_TIMESTAMP, _EARLIEST_LOCAL, _LATEST_TIERED = -1, -2, -3, -4, -5
_FIRST_VERSIONS = {_LATEST: 1, _EARLIEST: 1, _MAX_TIMESTAMP: 7, _EARLIEST_LOCAL: 8, _LATEST_TIERED: 9}
"""The version that brought each mark. Kafka: `ReplicaManager.timestampMinSupportedVersion`."""

ID_MIN = 1 << 40
BLOCK_SIZE = 1 << 10


class Offsets:
    """Answers ListOffsets requests."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    async def list_offsets(self, request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
        """Return an offset for each partition: of a time, or of one of the marks below zero."""
        response = ListOffsetsResponse()
        twice = repeated((topic.name, each.partition_index) for topic in request.topics for each in topic.partitions)
        is_committed = request.isolation_level == READ_COMMITTED
        for topic in (each for each in request.topics if each.partitions):
            answer = ListOffsetsTopicResponse(topic.name)
            response.topics.append(answer)
            for each in {each.partition_index: each for each in topic.partitions}.values():
                result = ListOffsetsPartitionResponse(partition_index=each.partition_index)
                answer.partitions.append(result)
                if (topic.name, each.partition_index) in twice:
                    result.error_code = ErrorCode.INVALID_REQUEST
                elif each.timestamp < 0 and version < _FIRST_VERSIONS.get(each.timestamp, version + 1):
                    result.error_code = ErrorCode.UNSUPPORTED_VERSION
                else:
                    await self._find(topic.name, each, result, version, is_committed=is_committed)
        return response

    async def _find(
        self,
        topic: str,
        wanted: ListOffsetsPartition,
        result: ListOffsetsPartitionResponse,
        version: int,
        *,
        is_committed: bool,
    ) -> None:
        try:
            log = await self._topics.opened_log(topic, wanted.partition_index)
            code = epoch_error(log, wanted.current_leader_epoch)
            if code != ErrorCode.NONE:
                result.error_code = code
                return
            work = partial(_found, log, wanted.timestamp, is_committed=is_committed)
            offset, timestamp, epoch = await in_thread(work)
            result.offset, result.timestamp = offset, timestamp
            result.leader_epoch = epoch if version >= _LEADER_EPOCH_VERSION else -1
        except (StorageError, OSError, MemoryError) as error:
            result.error_code = code_of(error)


def _found(log: Log, timestamp: int, *, is_committed: bool) -> tuple[int, int, int]:
    """Return offset, timestamp and leader epoch for a time or a mark; -1 where there is none."""
    if timestamp == _LATEST_TIERED:
        return -1, -1, -1
    end = log.last_stable_offset() if is_committed else log.next_offset
    if timestamp == _LATEST:
        return end, -1, leader_epoch_of(log)
    found = log.list_offset(timestamp)
    # As `Partition.fetchOffsetForTimestamp`: a record that the client cannot read yet does not count.
    if found is None or (found[0] >= end and timestamp not in (_EARLIEST, _EARLIEST_LOCAL)):
        return -1, -1, -1
    return *found, log.epoch_of(found[0])


class ProducerIds:
    """Hands out producer ids to idempotent and transactional producers.

    A broker counts from 0 in its metadata. Here blocks of `BLOCK_SIZE` ids begin at random from `ID_MIN` on, which no
    broker reaches. Nothing is stored, so that a directory that is restored from a backup, or copied, hands out no id
    twice either. Two of a million blocks are the same with a probability of 1 to 18,000; of the thousand that a busy
    broker takes, 1 to 18 billion.
    """

    def __init__(self) -> None:
        self._ids = iter(range(0))

    def next(self) -> int:
        """Return a new id."""
        producer_id = next(self._ids, None)
        if producer_id is None:
            producer_id = ID_MIN + secrets.randbelow((2**63 - ID_MIN) // BLOCK_SIZE) * BLOCK_SIZE
            self._ids = iter(range(producer_id + 1, producer_id + BLOCK_SIZE))
        return producer_id


class Producers:
    """Answers DescribeProducers requests."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    async def describe(self, request: DescribeProducersRequest, version: int) -> DescribeProducersResponse:
        """Return the producers that each partition knows, with their last sequences and open transactions."""
        response = DescribeProducersResponse()
        for topic in request.topics:
            found = [await self._partition(topic.name, each) for each in topic.partition_indexes]
            response.topics.append(TopicResponse(topic.name, found))
        return response

    async def _partition(self, topic: str, partition: int) -> PartitionResponse:
        try:
            log = await self._topics.opened_log(topic, partition)
            entries = await in_thread(log.producers)
        except (StorageError, OSError, MemoryError) as error:
            return PartitionResponse(partition, code_of(error))
        producers = [
            ProducerState(
                producer_id=producer_id,
                producer_epoch=each.producer_epoch,
                last_sequence=each.last_sequence,
                last_timestamp=each.timestamp,
                coordinator_epoch=each.coordinator_epoch,
                current_txn_start_offset=each.current_txn_first_offset,
            )
            for producer_id, each in sorted(entries.items())
        ]
        return PartitionResponse(partition, active_producers=producers)
