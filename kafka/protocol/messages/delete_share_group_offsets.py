"""The messages of DeleteShareGroupOffsets. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage


class DeleteShareGroupOffsetsRequestTopic(ProtocolMessage):
    __slots__ = ("topic_name",)

    def __init__(self, topic_name: str = "") -> None:
        self.topic_name = topic_name


class DeleteShareGroupOffsetsRequest(ProtocolMessage):
    __slots__ = (
        "group_id",
        "topics",
    )

    def __init__(self, group_id: str = "", topics: list[DeleteShareGroupOffsetsRequestTopic] = NEW) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW else topics


class DeleteShareGroupOffsetsResponseTopic(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "topic_id", "topic_name")

    def __init__(
        self, topic_name: str = "", topic_id: bytes = NO_ID, error_code: int = 0, error_message: str | None = None
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message


class DeleteShareGroupOffsetsResponse(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "responses", "throttle_time_ms")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[DeleteShareGroupOffsetsResponseTopic] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.responses = [] if responses is NEW else responses
