"""The messages of ListPartitionReassignments. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class ListPartitionReassignmentsTopics(ProtocolMessage):
    __slots__ = (
        "name",
        "partition_indexes",
    )

    def __init__(self, name: str = "", partition_indexes: list[int] = NEW) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is NEW else partition_indexes


class ListPartitionReassignmentsRequest(ProtocolMessage):
    __slots__ = (
        "timeout_ms",
        "topics",
    )

    def __init__(self, timeout_ms: int = 60000, topics: list[ListPartitionReassignmentsTopics] | None = None) -> None:
        self.timeout_ms = timeout_ms
        self.topics = topics


class OngoingPartitionReassignment(ProtocolMessage):
    __slots__ = ("adding_replicas", "partition_index", "removing_replicas", "replicas")

    def __init__(
        self,
        partition_index: int = 0,
        replicas: list[int] = NEW,
        adding_replicas: list[int] = NEW,
        removing_replicas: list[int] = NEW,
    ) -> None:
        self.partition_index = partition_index
        self.replicas = [] if replicas is NEW else replicas
        self.adding_replicas = [] if adding_replicas is NEW else adding_replicas
        self.removing_replicas = [] if removing_replicas is NEW else removing_replicas


class OngoingTopicReassignment(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[OngoingPartitionReassignment] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class ListPartitionReassignmentsResponse(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "throttle_time_ms", "topics")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        topics: list[OngoingTopicReassignment] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.topics = [] if topics is NEW else topics
