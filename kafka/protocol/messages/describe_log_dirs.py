"""The messages of DescribeLogDirs. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class DescribableLogDirTopic(ProtocolMessage):
    __slots__ = ("partition_index", "partitions", "topic")

    def __init__(self, topic: str = "", partitions: list[int] = NEW, partition_index: list[int] = NEW) -> None:
        self.topic = topic
        self.partitions = [] if partitions is NEW else partitions
        self.partition_index = [] if partition_index is NEW else partition_index


class DescribeLogDirsRequest(ProtocolMessage):
    __slots__ = ("topics",)

    def __init__(self, topics: list[DescribableLogDirTopic] | None = NEW) -> None:
        self.topics = [] if topics is NEW else topics


class DescribeLogDirsPartition(ProtocolMessage):
    __slots__ = ("is_future_key", "offset_lag", "partition_index", "partition_size")

    def __init__(
        self, partition_index: int = 0, partition_size: int = 0, offset_lag: int = 0, is_future_key: bool = False
    ) -> None:
        self.partition_index = partition_index
        self.partition_size = partition_size
        self.offset_lag = offset_lag
        self.is_future_key = is_future_key


class DescribeLogDirsTopic(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[DescribeLogDirsPartition] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class DescribeLogDirsResult(ProtocolMessage):
    __slots__ = ("error_code", "is_cordoned", "log_dir", "topics", "total_bytes", "usable_bytes")

    def __init__(
        self,
        error_code: int = 0,
        log_dir: str = "",
        topics: list[DescribeLogDirsTopic] = NEW,
        total_bytes: int = -1,
        usable_bytes: int = -1,
        is_cordoned: bool = False,
    ) -> None:
        self.error_code = error_code
        self.log_dir = log_dir
        self.topics = [] if topics is NEW else topics
        self.total_bytes = total_bytes
        self.usable_bytes = usable_bytes
        self.is_cordoned = is_cordoned


class DescribeLogDirsResponse(ProtocolMessage):
    __slots__ = ("error_code", "results", "throttle_time_ms")

    def __init__(
        self, throttle_time_ms: int = 0, error_code: int = 0, results: list[DescribeLogDirsResult] = NEW
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results = [] if results is NEW else results
