"""The messages of DeleteTopics. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage


class DeleteTopicState(ProtocolMessage):
    __slots__ = (
        "name",
        "topic_id",
    )

    def __init__(self, name: str | None = None, topic_id: bytes = NO_ID) -> None:
        self.name = name
        self.topic_id = topic_id


class DeleteTopicsRequest(ProtocolMessage):
    __slots__ = ("timeout_ms", "topic_names", "topics")

    def __init__(self, topics: list[DeleteTopicState] = NEW, topic_names: list[str] = NEW, timeout_ms: int = 0) -> None:
        self.topics = [] if topics is NEW else topics
        self.topic_names = [] if topic_names is NEW else topic_names
        self.timeout_ms = timeout_ms


class DeletableTopicResult(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "name", "topic_id")

    def __init__(
        self, name: str | None = "", topic_id: bytes = NO_ID, error_code: int = 0, error_message: str | None = None
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message


class DeleteTopicsResponse(ProtocolMessage):
    __slots__ = ("responses", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, responses: list[DeletableTopicResult] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = [] if responses is NEW else responses
