"""ListOffsets, and the producer ids that InitProducerId hands out."""

from __future__ import annotations

import secrets
from collections import Counter
from functools import partial

import trio

from offsetfs.broker.error_codes import ErrorCode, code_of
from offsetfs.broker.leader_epochs import epoch_error
from offsetfs.broker.partitions import Topics, leader_epoch_of
from offsetfs.protocol.messages import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from offsetfs.storage import Log
from offsetfs.storage.errors import StorageError

_READ_COMMITTED = 1
_LEADER_EPOCH_VERSION = 4
_LATEST, _EARLIEST, _MAX_TIMESTAMP, _EARLIEST_LOCAL, _LATEST_TIERED = -1, -2, -3, -4, -5
_FIRST_VERSIONS = {_LATEST: 1, _EARLIEST: 1, _MAX_TIMESTAMP: 7, _EARLIEST_LOCAL: 8, _LATEST_TIERED: 9}
"""The version that brought each mark. Kafka: `ReplicaManager.timestampMinSupportedVersion`."""


class Offsets:
    """Answers ListOffsets requests."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    async def list_offsets(self, request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
        """Return an offset for each partition: of a time, or of one of the marks below zero."""
        response = ListOffsetsResponse()
        counts = Counter((topic.name, each.partition_index) for topic in request.topics for each in topic.partitions)
        is_committed = request.isolation_level == _READ_COMMITTED
        for topic in request.topics:
            answer = ListOffsetsTopicResponse(topic.name)
            response.topics.append(answer)
            for each in topic.partitions:
                result = ListOffsetsPartitionResponse(partition_index=each.partition_index)
                answer.partitions.append(result)
                if counts[topic.name, each.partition_index] > 1:
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
            offset, timestamp, epoch = await trio.to_thread.run_sync(work)
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
    """Hands out producer ids to idempotent producers.

    A broker counts from 0 in its metadata. Here each start begins at a random multiple of 2²⁰ below 2⁶²: two starts, or
    a broker that takes the directory over, do not meet, and nothing has to be stored.
    """

    def __init__(self) -> None:
        self._ids = iter(range(0))

    async def init_producer_id(self, request: InitProducerIdRequest, version: int) -> InitProducerIdResponse:
        """Return a new id with epoch 0. There are no transactions yet, so a transactional id gets an error."""
        if request.transactional_id is not None:
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
        producer_id = next(self._ids, None)
        if producer_id is None:
            first = (1 + secrets.randbelow(2**42 - 1)) << 20
            self._ids = iter(range(first, first + 2**20))
            producer_id = next(self._ids)
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
