"""ListOffsets, and the producer ids that InitProducerId hands out."""

from __future__ import annotations

import secrets
from functools import partial

import trio

from offsetfs.broker.error_codes import ErrorCode, code_of
from offsetfs.broker.partitions import Topics
from offsetfs.protocol.messages import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from offsetfs.storage.errors import StorageError

_READ_COMMITTED = 1
_LATEST = -1


class Offsets:
    """Answers ListOffsets requests."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    async def list_offsets(self, request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
        """Return an offset for each partition: of a time, or of one of the marks below zero."""
        response = ListOffsetsResponse()
        for topic in request.topics:
            answers = [await self._one(topic.name, each, request.isolation_level, version) for each in topic.partitions]
            response.topics.append(ListOffsetsTopicResponse(topic.name, answers))
        return response

    async def _one(
        self, topic: str, wanted: ListOffsetsPartition, isolation_level: int, version: int
    ) -> ListOffsetsPartitionResponse:
        answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
        try:
            log = self._topics.log(topic, wanted.partition_index)
            if version >= 4:
                answer.leader_epoch = max(log.leader_epoch, 0)
            if wanted.timestamp == _LATEST and isolation_level == _READ_COMMITTED:
                answer.offset = await trio.to_thread.run_sync(log.last_stable_offset)
                return answer
            found = await trio.to_thread.run_sync(partial(log.list_offset, wanted.timestamp))
            if found is not None:
                answer.offset, answer.timestamp = found
        except (StorageError, OSError, MemoryError) as error:
            answer.error_code = code_of(error)
        return answer


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
