"""The messages of ReadShareGroupStateSummary. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage


class ReadShareGroupStateSummaryRequestPartitionData(ProtocolMessage):
    __slots__ = ("leader_epoch", "partition")

    def __init__(self, partition: int = 0, leader_epoch: int = 0) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch


class ReadStateSummaryData(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(
        self, topic_id: bytes = NO_ID, partitions: list[ReadShareGroupStateSummaryRequestPartitionData] = NEW
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class ReadShareGroupStateSummaryRequest(ProtocolMessage):
    __slots__ = (
        "group_id",
        "topics",
    )

    def __init__(self, group_id: str = "", topics: list[ReadStateSummaryData] = NEW) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW else topics


class ReadShareGroupStateSummaryResponsePartitionResult(ProtocolMessage):
    __slots__ = (
        "delivery_complete_count",
        "error_code",
        "error_message",
        "leader_epoch",
        "partition",
        "start_offset",
        "state_epoch",
    )

    def __init__(
        self,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        delivery_complete_count: int = -1,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.delivery_complete_count = delivery_complete_count


class ReadStateSummaryResult(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(
        self, topic_id: bytes = NO_ID, partitions: list[ReadShareGroupStateSummaryResponsePartitionResult] = NEW
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class ReadShareGroupStateSummaryResponse(ProtocolMessage):
    __slots__ = ("results",)

    def __init__(self, results: list[ReadStateSummaryResult] = NEW) -> None:
        self.results = [] if results is NEW else results
