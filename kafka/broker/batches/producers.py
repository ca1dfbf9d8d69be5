"""DescribeProducers: the producers that a partition knows."""

from __future__ import annotations

from offsetfs.common.threads import in_thread
from offsetfs.kafka.broker.error_codes import code_of
from offsetfs.kafka.broker.slices import Slices
from offsetfs.kafka.broker.topics.partitions import Topics
from offsetfs.kafka.protocol.messages import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from offsetfs.storage import check_topic
from offsetfs.storage.errors import StorageError


class Producers:
    """Answers DescribeProducers requests."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    async def describe(self, request: DescribeProducersRequest, version: int) -> DescribeProducersResponse:
        """Return the producers that each partition knows, with their last sequences and open transactions."""
        response, slices = DescribeProducersResponse(), Slices()
        for topic in request.topics:
            found = list[PartitionResponse]()
            for each in topic.partition_indexes:
                await slices.step()
                found.append(await self._partition(topic.name, each))
            response.topics.append(TopicResponse(topic.name, found))
        return response

    async def _partition(self, topic: str, partition: int) -> PartitionResponse:
        try:
            check_topic(topic)
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
