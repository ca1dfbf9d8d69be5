"""The messages of DescribeProducers. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class DescribeProducersRequestTopicRequest(ProtocolMessage):
    __slots__ = (
        "name",
        "partition_indexes",
    )

    def __init__(self, name: str = "", partition_indexes: list[int] = NEW) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is NEW else partition_indexes


class DescribeProducersRequest(ProtocolMessage):
    __slots__ = ("topics",)

    def __init__(self, topics: list[DescribeProducersRequestTopicRequest] = NEW) -> None:
        self.topics = [] if topics is NEW else topics


class ProducerState(ProtocolMessage):
    __slots__ = (
        "coordinator_epoch",
        "current_txn_start_offset",
        "last_sequence",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self,
        producer_id: int = 0,
        producer_epoch: int = 0,
        last_sequence: int = -1,
        last_timestamp: int = -1,
        coordinator_epoch: int = 0,
        current_txn_start_offset: int = -1,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.last_sequence = last_sequence
        self.last_timestamp = last_timestamp
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_start_offset = current_txn_start_offset


class PartitionResponse(ProtocolMessage):
    __slots__ = ("active_producers", "error_code", "error_message", "partition_index")

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        active_producers: list[ProducerState] = NEW,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.active_producers = [] if active_producers is NEW else active_producers


class TopicResponse(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[PartitionResponse] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class DescribeProducersResponse(ProtocolMessage):
    __slots__ = (
        "throttle_time_ms",
        "topics",
    )

    def __init__(self, throttle_time_ms: int = 0, topics: list[TopicResponse] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW else topics
