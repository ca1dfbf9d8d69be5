"""The messages of CreatePartitions. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class CreatePartitionsAssignment(ProtocolMessage):
    __slots__ = ("broker_ids",)

    def __init__(self, broker_ids: list[int] = NEW) -> None:
        self.broker_ids = [] if broker_ids is NEW else broker_ids


class CreatePartitionsTopic(ProtocolMessage):
    __slots__ = ("assignments", "count", "name")

    def __init__(
        self, name: str = "", count: int = 0, assignments: list[CreatePartitionsAssignment] | None = NEW
    ) -> None:
        self.name = name
        self.count = count
        self.assignments = [] if assignments is NEW else assignments


class CreatePartitionsRequest(ProtocolMessage):
    __slots__ = ("timeout_ms", "topics", "validate_only")

    def __init__(
        self, topics: list[CreatePartitionsTopic] = NEW, timeout_ms: int = 0, validate_only: bool = False
    ) -> None:
        self.topics = [] if topics is NEW else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


class CreatePartitionsTopicResult(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "name")

    def __init__(self, name: str = "", error_code: int = 0, error_message: str | None = None) -> None:
        self.name = name
        self.error_code = error_code
        self.error_message = error_message


class CreatePartitionsResponse(ProtocolMessage):
    __slots__ = ("results", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, results: list[CreatePartitionsTopicResult] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is NEW else results
