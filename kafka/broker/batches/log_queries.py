"""Queries of a log besides its records: ListOffsets, OffsetForLeaderEpoch (KIP-320), DescribeProducers.

A broker takes the epochs of a directory over as the broker before it has left them, and starts no epoch of its own: the
epoch of a partition is the latest in its `leader-epoch-checkpoint`. Metadata, Fetch and ListOffsets return the same.
"""

from __future__ import annotations

from functools import partial

import trio

from offsetfs.common.threads import in_thread
from offsetfs.kafka.broker.errors import code_of
from offsetfs.kafka.broker.slices import Slices
from offsetfs.kafka.broker.topics.admin_results import repeated
from offsetfs.kafka.broker.topics.partitions import Topics, leader_epoch_of
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import READ_COMMITTED
from offsetfs.kafka.protocol.messages import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponseEpochEndOffset,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from offsetfs.storage import Log, LogDirectory, TopicPartition, check_topic
from offsetfs.storage.errors import StorageError, WouldBlock

_NOT_CHECKED = -1  # a leader epoch
_LEADER_EPOCH_VERSION = 4
_LATEST, _EARLIEST, _MAX_TIMESTAMP, _EARLIEST_LOCAL, _LATEST_TIERED, _EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)
_FIRST_VERSIONS = {
    _LATEST: 1,
    _EARLIEST: 1,
    _MAX_TIMESTAMP: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
    _EARLIEST_PENDING_UPLOAD: 11,
}
"""The version that brought each mark. Kafka: `ReplicaManager.timestampMinSupportedVersion`."""


class LogQueries:
    """Answers ListOffsets, OffsetForLeaderEpoch and DescribeProducers requests."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    async def list_offsets(self, request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
        """Return an offset for each partition: of a time, or of one of the marks below zero."""
        response, slices = ListOffsetsResponse(), Slices()
        partitions = [(topic.name, wanted.partition_index) for topic in request.topics for wanted in topic.partitions]
        twice = repeated(partitions)
        is_committed = request.isolation_level == READ_COMMITTED
        for topic in (topic for topic in request.topics if topic.partitions):
            answer = ListOffsetsTopicResponse(topic.name)
            response.topics.append(answer)
            for wanted in {wanted.partition_index: wanted for wanted in topic.partitions}.values():
                await slices.step()
                result = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
                answer.partitions.append(result)
                if (topic.name, wanted.partition_index) in twice:
                    result.error_code = ErrorCode.INVALID_REQUEST
                elif wanted.timestamp < 0 and version < _FIRST_VERSIONS.get(wanted.timestamp, version + 1):
                    result.error_code = ErrorCode.UNSUPPORTED_VERSION
                else:
                    await self._find(topic.name, wanted, result, version, is_committed=is_committed)
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
            name, directory = self._topics.name(topic, wanted.partition_index), self._topics.directory
            work = partial(_answer, directory, name, wanted, is_committed=is_committed)
            if directory.read_only or directory.opened(name) is None:
                # One hop for all: after that which opens the log, records may be appended that are later than this.
                with trio.CancelScope(shield=True):  # a thread goes on when its task is cancelled
                    code, (offset, timestamp, epoch) = await in_thread(work)
            else:
                try:
                    # What memory knows is answered here: a hop to a thread would let later requests of others overtake
                    # it, and "latest" have records that were produced after the request was sent.
                    code, (offset, timestamp, epoch) = work(nowait=True)
                except WouldBlock:
                    code, (offset, timestamp, epoch) = await in_thread(work)
            if code != ErrorCode.NONE:
                result.error_code = code
                return
            result.offset, result.timestamp = offset, timestamp
            result.leader_epoch = epoch if version >= _LEADER_EPOCH_VERSION else -1
        except (StorageError, OSError, MemoryError) as error:
            result.error_code = code_of(error)

    async def offset_for_leader_epoch(
        self, request: OffsetForLeaderEpochRequest, version: int
    ) -> OffsetForLeaderEpochResponse:
        """Return for each partition where the records of an epoch end."""
        response, slices = OffsetForLeaderEpochResponse(), Slices()
        for topic in request.topics:
            result = OffsetForLeaderTopicResult(topic.topic)
            response.topics.append(result)
            for partition in topic.partitions:
                await slices.step()
                result.partitions.append(await self._epoch_end(topic.topic, partition))
        return response

    async def _epoch_end(
        self, topic: str, wanted: OffsetForLeaderPartition
    ) -> OffsetForLeaderEpochResponseEpochEndOffset:
        result = OffsetForLeaderEpochResponseEpochEndOffset(partition=wanted.partition)
        try:
            log = await self._topics.opened_log(topic, wanted.partition)
            result.error_code = epoch_error(log, wanted.current_leader_epoch)
            end = log.epochs.end_of(wanted.leader_epoch, log.next_offset)
            if result.error_code == ErrorCode.NONE and end is not None:
                result.leader_epoch, result.end_offset = end
        except (StorageError, OSError, MemoryError) as error:
            result.error_code = code_of(error)
        return result

    async def describe_producers(self, request: DescribeProducersRequest, version: int) -> DescribeProducersResponse:
        """Return the producers that each partition knows, with their last sequences and open transactions."""
        response, slices = DescribeProducersResponse(), Slices()
        for topic in request.topics:
            partitions = list[PartitionResponse]()
            for partition in topic.partition_indexes:
                await slices.step()
                partitions.append(await self._producers(topic.name, partition))
            response.topics.append(TopicResponse(topic.name, partitions))
        return response

    async def _producers(self, topic: str, partition: int) -> PartitionResponse:
        try:
            check_topic(topic)
            log = await self._topics.opened_log(topic, partition)
            entries = await in_thread(log.producers)
        except (StorageError, OSError, MemoryError) as error:
            return PartitionResponse(partition, code_of(error))
        producers = [
            ProducerState(
                producer_id=producer_id,
                producer_epoch=entry.producer_epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.current_txn_first_offset,
            )
            for producer_id, entry in sorted(entries.items())
        ]
        return PartitionResponse(partition, active_producers=producers)


def _answer(
    directory: LogDirectory,
    name: TopicPartition,
    wanted: ListOffsetsPartition,
    *,
    is_committed: bool,
    nowait: bool = False,
) -> tuple[ErrorCode, tuple[int, int, int]]:
    """Return the code for a partition, and `_offset` if there is no error."""
    log = directory.log(name)
    log.refresh()
    code = epoch_error(log, wanted.current_leader_epoch)
    if code != ErrorCode.NONE:
        return code, (-1, -1, -1)
    return code, _offset(log, wanted.timestamp, is_committed=is_committed, nowait=nowait)


def _offset(log: Log, timestamp: int, *, is_committed: bool, nowait: bool = False) -> tuple[int, int, int]:
    """Return offset, timestamp and leader epoch for a time or a mark; -1 where there is none.

    With `nowait`, `WouldBlock` instead of waiting for the disk, or searching the log for a time.
    """
    if timestamp in (_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD):
        return -1, -1, -1
    end = log.last_stable_offset(nowait=nowait) if is_committed else log.next_offset
    if timestamp == _LATEST:
        return end, -1, leader_epoch_of(log)
    if nowait and timestamp not in (_EARLIEST, _EARLIEST_LOCAL):
        raise WouldBlock("a time is searched in a thread", path=log.path)
    place = log.list_offset(timestamp)
    # As `Partition.fetchOffsetForTimestamp`: a record that the client cannot read yet does not count.
    if place is None or (place[0] >= end and timestamp not in (_EARLIEST, _EARLIEST_LOCAL)):
        return -1, -1, -1
    return *place, log.epochs.epoch_of(place[0])


def epoch_error(log: Log, epoch: int) -> ErrorCode:
    """Return the error of a request whose client takes `epoch` for that of the leader. Kafka: `Partition`."""
    current = leader_epoch_of(log)
    if epoch in (current, _NOT_CHECKED):
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if epoch < current else ErrorCode.UNKNOWN_LEADER_EPOCH
