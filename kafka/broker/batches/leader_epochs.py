"""Leader epochs (KIP-320): whether a client knows the current one, and where an epoch ends (OffsetForLeaderEpoch).

A broker takes the epochs of a directory over as the one before has left them, and starts none of its own: the epoch of
a partition is the latest in its `leader-epoch-checkpoint`. Metadata, Fetch and ListOffsets return the same.
"""

from __future__ import annotations

from offsetfs.kafka.broker.error_codes import code_of
from offsetfs.kafka.broker.slices import Slices
from offsetfs.kafka.broker.topics.partitions import Topics, leader_epoch_of
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.messages import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponseEpochEndOffset,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from offsetfs.storage import Log
from offsetfs.storage.errors import StorageError

_NOT_CHECKED = -1


def epoch_error(log: Log, epoch: int) -> ErrorCode:
    """Return the error of a request whose client takes `epoch` for that of the leader. Kafka: `Partition`."""
    current = leader_epoch_of(log)
    if epoch in (current, _NOT_CHECKED):
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if epoch < current else ErrorCode.UNKNOWN_LEADER_EPOCH


class LeaderEpochs:
    """Answers OffsetForLeaderEpoch requests."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    async def offset_for_leader_epoch(
        self, request: OffsetForLeaderEpochRequest, version: int
    ) -> OffsetForLeaderEpochResponse:
        """Return for each partition where the records of an epoch end."""
        response, slices = OffsetForLeaderEpochResponse(), Slices()
        for topic in request.topics:
            result = OffsetForLeaderTopicResult(topic.topic)
            response.topics.append(result)
            for each in topic.partitions:
                await slices.step()
                result.partitions.append(await self._end(topic.topic, each))
        return response

    async def _end(self, topic: str, wanted: OffsetForLeaderPartition) -> OffsetForLeaderEpochResponseEpochEndOffset:
        result = OffsetForLeaderEpochResponseEpochEndOffset(partition=wanted.partition)
        try:
            log = await self._topics.opened_log(topic, wanted.partition)
            result.error_code = epoch_error(log, wanted.current_leader_epoch)
            found = log.epochs.end_of(wanted.leader_epoch, log.next_offset)
            if result.error_code == ErrorCode.NONE and found is not None:
                result.leader_epoch, result.end_offset = found
        except (StorageError, OSError, MemoryError) as error:
            result.error_code = code_of(error)
        return result
