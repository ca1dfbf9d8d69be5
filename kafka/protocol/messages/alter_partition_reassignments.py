"""The messages of AlterPartitionReassignments. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class ReassignablePartition(ProtocolMessage):
    __slots__ = (
        "partition_index",
        "replicas",
    )

    def __init__(self, partition_index: int = 0, replicas: list[int] | None = None) -> None:
        self.partition_index = partition_index
        self.replicas = replicas


class ReassignableTopic(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[ReassignablePartition] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class AlterPartitionReassignmentsRequest(ProtocolMessage):
    __slots__ = ("allow_replication_factor_change", "timeout_ms", "topics")

    def __init__(
        self,
        timeout_ms: int = 60000,
        allow_replication_factor_change: bool = True,
        topics: list[ReassignableTopic] = NEW,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.topics = [] if topics is NEW else topics


class ReassignablePartitionResponse(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "partition_index")

    def __init__(self, partition_index: int = 0, error_code: int = 0, error_message: str | None = "") -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message


class ReassignableTopicResponse(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[ReassignablePartitionResponse] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class AlterPartitionReassignmentsResponse(ProtocolMessage):
    __slots__ = ("allow_replication_factor_change", "error_code", "error_message", "responses", "throttle_time_ms")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        allow_replication_factor_change: bool = True,
        error_code: int = 0,
        error_message: str | None = "",
        responses: list[ReassignableTopicResponse] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.error_code = error_code
        self.error_message = error_message
        self.responses = [] if responses is NEW else responses
