"""The messages of AlterShareGroupOffsets. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage


class AlterShareGroupOffsetsRequestPartition(ProtocolMessage):
    __slots__ = (
        "partition_index",
        "start_offset",
    )

    def __init__(self, partition_index: int = 0, start_offset: int = 0) -> None:
        self.partition_index = partition_index
        self.start_offset = start_offset


class AlterShareGroupOffsetsRequestTopic(ProtocolMessage):
    __slots__ = ("partitions", "topic_name")

    def __init__(self, topic_name: str = "", partitions: list[AlterShareGroupOffsetsRequestPartition] = NEW) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions


class AlterShareGroupOffsetsRequest(ProtocolMessage):
    __slots__ = (
        "group_id",
        "topics",
    )

    def __init__(self, group_id: str = "", topics: list[AlterShareGroupOffsetsRequestTopic] = NEW) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW else topics


class AlterShareGroupOffsetsResponsePartition(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "partition_index")

    def __init__(self, partition_index: int = 0, error_code: int = 0, error_message: str | None = None) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message


class AlterShareGroupOffsetsResponseTopic(ProtocolMessage):
    __slots__ = ("partitions", "topic_id", "topic_name")

    def __init__(
        self,
        topic_name: str = "",
        topic_id: bytes = NO_ID,
        partitions: list[AlterShareGroupOffsetsResponsePartition] = NEW,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class AlterShareGroupOffsetsResponse(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "responses", "throttle_time_ms")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[AlterShareGroupOffsetsResponseTopic] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.responses = [] if responses is NEW else responses
