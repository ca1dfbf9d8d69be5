"""The messages of InitializeShareGroupState. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage


class InitializeShareGroupStateRequestPartitionData(ProtocolMessage):
    __slots__ = ("partition", "start_offset", "state_epoch")

    def __init__(self, partition: int = 0, state_epoch: int = 0, start_offset: int = 0) -> None:
        self.partition = partition
        self.state_epoch = state_epoch
        self.start_offset = start_offset


class InitializeStateData(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(
        self, topic_id: bytes = NO_ID, partitions: list[InitializeShareGroupStateRequestPartitionData] = NEW
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class InitializeShareGroupStateRequest(ProtocolMessage):
    __slots__ = (
        "group_id",
        "topics",
    )

    def __init__(self, group_id: str = "", topics: list[InitializeStateData] = NEW) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW else topics


class InitializeShareGroupStateResponsePartitionResult(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "partition")

    def __init__(self, partition: int = 0, error_code: int = 0, error_message: str | None = None) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message


class InitializeStateResult(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(
        self, topic_id: bytes = NO_ID, partitions: list[InitializeShareGroupStateResponsePartitionResult] = NEW
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class InitializeShareGroupStateResponse(ProtocolMessage):
    __slots__ = ("results",)

    def __init__(self, results: list[InitializeStateResult] = NEW) -> None:
        self.results = [] if results is NEW else results
