"""ListOffsets: the offset of a time, or of one of the marks below zero."""

from __future__ import annotations

from functools import partial

import trio

from offsetfs.common.threads import in_thread
from offsetfs.kafka.broker.batches.leader_epochs import epoch_error
from offsetfs.kafka.broker.error_codes import code_of
from offsetfs.kafka.broker.slices import Slices
from offsetfs.kafka.broker.topics.admin_results import repeated
from offsetfs.kafka.broker.topics.partitions import Topics, leader_epoch_of
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.messages import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from offsetfs.kafka.protocol.shared_values import READ_COMMITTED
from offsetfs.storage import Log, LogDirectory, TopicPartition
from offsetfs.storage.errors import StorageError, WouldBlock

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


class Offsets:
    """Answers ListOffsets requests."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    async def list_offsets(self, request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
        """Return an offset for each partition: of a time, or of one of the marks below zero."""
        response, slices = ListOffsetsResponse(), Slices()
        twice = repeated((topic.name, each.partition_index) for topic in request.topics for each in topic.partitions)
        is_committed = request.isolation_level == READ_COMMITTED
        for topic in (each for each in request.topics if each.partitions):
            answer = ListOffsetsTopicResponse(topic.name)
            response.topics.append(answer)
            for each in {each.partition_index: each for each in topic.partitions}.values():
                await slices.step()
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


def _answer(
    directory: LogDirectory,
    name: TopicPartition,
    wanted: ListOffsetsPartition,
    *,
    is_committed: bool,
    nowait: bool = False,
) -> tuple[ErrorCode, tuple[int, int, int]]:
    """Return the code for a partition, and `_found` if there is no error."""
    log = directory.log(name)
    log.refresh()
    code = epoch_error(log, wanted.current_leader_epoch)
    if code != ErrorCode.NONE:
        return code, (-1, -1, -1)
    return code, _found(log, wanted.timestamp, is_committed=is_committed, nowait=nowait)


def _found(log: Log, timestamp: int, *, is_committed: bool, nowait: bool = False) -> tuple[int, int, int]:
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
    found = log.list_offset(timestamp)
    # As `Partition.fetchOffsetForTimestamp`: a record that the client cannot read yet does not count.
    if found is None or (found[0] >= end and timestamp not in (_EARLIEST, _EARLIEST_LOCAL)):
        return -1, -1, -1
    return *found, log.epochs.epoch_of(found[0])
