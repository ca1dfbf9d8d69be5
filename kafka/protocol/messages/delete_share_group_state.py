"""The messages of DeleteShareGroupState. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage


class DeleteShareGroupStateRequestPartitionData(ProtocolMessage):
    __slots__ = ("partition",)

    def __init__(self, partition: int = 0) -> None:
        self.partition = partition


class DeleteStateData(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(
        self, topic_id: bytes = NO_ID, partitions: list[DeleteShareGroupStateRequestPartitionData] = NEW
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class DeleteShareGroupStateRequest(ProtocolMessage):
    __slots__ = (
        "group_id",
        "topics",
    )

    def __init__(self, group_id: str = "", topics: list[DeleteStateData] = NEW) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW else topics


class DeleteShareGroupStateResponsePartitionResult(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "partition")

    def __init__(self, partition: int = 0, error_code: int = 0, error_message: str | None = None) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message


class DeleteStateResult(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(
        self, topic_id: bytes = NO_ID, partitions: list[DeleteShareGroupStateResponsePartitionResult] = NEW
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class DeleteShareGroupStateResponse(ProtocolMessage):
    __slots__ = ("results",)

    def __init__(self, results: list[DeleteStateResult] = NEW) -> None:
        self.results = [] if results is NEW else results
