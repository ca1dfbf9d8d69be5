"""The messages of DeleteRecords. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class DeleteRecordsPartition(ProtocolMessage):
    __slots__ = ("offset", "partition_index")

    def __init__(self, partition_index: int = 0, offset: int = 0) -> None:
        self.partition_index = partition_index
        self.offset = offset


class DeleteRecordsTopic(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[DeleteRecordsPartition] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class DeleteRecordsRequest(ProtocolMessage):
    __slots__ = ("timeout_ms", "topics")

    def __init__(self, topics: list[DeleteRecordsTopic] = NEW, timeout_ms: int = 0) -> None:
        self.topics = [] if topics is NEW else topics
        self.timeout_ms = timeout_ms


class DeleteRecordsPartitionResult(ProtocolMessage):
    __slots__ = ("error_code", "low_watermark", "partition_index")

    def __init__(self, partition_index: int = 0, low_watermark: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.low_watermark = low_watermark
        self.error_code = error_code


class DeleteRecordsTopicResult(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[DeleteRecordsPartitionResult] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class DeleteRecordsResponse(ProtocolMessage):
    __slots__ = (
        "throttle_time_ms",
        "topics",
    )

    def __init__(self, throttle_time_ms: int = 0, topics: list[DeleteRecordsTopicResult] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW else topics
