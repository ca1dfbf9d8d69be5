"""The messages of ReadShareGroupState. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage


class ReadShareGroupStateRequestPartitionData(ProtocolMessage):
    __slots__ = ("leader_epoch", "partition")

    def __init__(self, partition: int = 0, leader_epoch: int = 0) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch


class ReadStateData(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(
        self, topic_id: bytes = NO_ID, partitions: list[ReadShareGroupStateRequestPartitionData] = NEW
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class ReadShareGroupStateRequest(ProtocolMessage):
    __slots__ = (
        "group_id",
        "topics",
    )

    def __init__(self, group_id: str = "", topics: list[ReadStateData] = NEW) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW else topics


class ReadShareGroupStateResponseStateBatch(ProtocolMessage):
    __slots__ = ("delivery_count", "delivery_state", "first_offset", "last_offset")

    def __init__(
        self, first_offset: int = 0, last_offset: int = 0, delivery_state: int = 0, delivery_count: int = 0
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_state = delivery_state
        self.delivery_count = delivery_count


class ReadShareGroupStateResponsePartitionResult(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "partition", "start_offset", "state_batches", "state_epoch")

    def __init__(
        self,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        state_epoch: int = 0,
        start_offset: int = 0,
        state_batches: list[ReadShareGroupStateResponseStateBatch] = NEW,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message
        self.state_epoch = state_epoch
        self.start_offset = start_offset
        self.state_batches = [] if state_batches is NEW else state_batches


class ReadStateResult(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(
        self, topic_id: bytes = NO_ID, partitions: list[ReadShareGroupStateResponsePartitionResult] = NEW
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class ReadShareGroupStateResponse(ProtocolMessage):
    __slots__ = ("results",)

    def __init__(self, results: list[ReadStateResult] = NEW) -> None:
        self.results = [] if results is NEW else results
