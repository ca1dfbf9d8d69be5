"""The messages of ListOffsets. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class ListOffsetsPartition(ProtocolMessage):
    __slots__ = ("current_leader_epoch", "max_num_offsets", "partition_index", "timestamp")

    def __init__(
        self, partition_index: int = 0, current_leader_epoch: int = -1, timestamp: int = 0, max_num_offsets: int = 1
    ) -> None:
        self.partition_index = partition_index
        self.current_leader_epoch = current_leader_epoch
        self.timestamp = timestamp
        self.max_num_offsets = max_num_offsets


class ListOffsetsTopic(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[ListOffsetsPartition] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class ListOffsetsRequest(ProtocolMessage):
    __slots__ = ("isolation_level", "replica_id", "timeout_ms", "topics")

    def __init__(
        self, replica_id: int = 0, isolation_level: int = 0, topics: list[ListOffsetsTopic] = NEW, timeout_ms: int = 0
    ) -> None:
        self.replica_id = replica_id
        self.isolation_level = isolation_level
        self.topics = [] if topics is NEW else topics
        self.timeout_ms = timeout_ms


class ListOffsetsPartitionResponse(ProtocolMessage):
    __slots__ = ("error_code", "leader_epoch", "offset", "old_style_offsets", "partition_index", "timestamp")

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        timestamp: int = -1,
        offset: int = -1,
        leader_epoch: int = -1,
        old_style_offsets: list[int] = NEW,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.timestamp = timestamp
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.old_style_offsets = [] if old_style_offsets is NEW else old_style_offsets


class ListOffsetsTopicResponse(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[ListOffsetsPartitionResponse] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class ListOffsetsResponse(ProtocolMessage):
    __slots__ = (
        "throttle_time_ms",
        "topics",
    )

    def __init__(self, throttle_time_ms: int = 0, topics: list[ListOffsetsTopicResponse] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW else topics
