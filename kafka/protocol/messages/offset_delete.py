"""The messages of OffsetDelete. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class OffsetDeleteRequestPartition(ProtocolMessage):
    __slots__ = ("partition_index",)

    def __init__(self, partition_index: int = 0) -> None:
        self.partition_index = partition_index


class OffsetDeleteRequestTopic(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[OffsetDeleteRequestPartition] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class OffsetDeleteRequest(ProtocolMessage):
    __slots__ = (
        "group_id",
        "topics",
    )

    def __init__(self, group_id: str = "", topics: list[OffsetDeleteRequestTopic] = NEW) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW else topics


class OffsetDeleteResponsePartition(ProtocolMessage):
    __slots__ = ("error_code", "partition_index")

    def __init__(self, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class OffsetDeleteResponseTopic(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[OffsetDeleteResponsePartition] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class OffsetDeleteResponse(ProtocolMessage):
    __slots__ = (
        "error_code",
        "throttle_time_ms",
        "topics",
    )

    def __init__(
        self, error_code: int = 0, throttle_time_ms: int = 0, topics: list[OffsetDeleteResponseTopic] = NEW
    ) -> None:
        self.error_code = error_code
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW else topics
