"""The messages of OffsetForLeaderEpoch. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class OffsetForLeaderPartition(ProtocolMessage):
    __slots__ = ("current_leader_epoch", "leader_epoch", "partition")

    def __init__(self, partition: int = 0, current_leader_epoch: int = -1, leader_epoch: int = 0) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.leader_epoch = leader_epoch


class OffsetForLeaderTopic(ProtocolMessage):
    __slots__ = ("partitions", "topic")

    def __init__(self, topic: str = "", partitions: list[OffsetForLeaderPartition] = NEW) -> None:
        self.topic = topic
        self.partitions = [] if partitions is NEW else partitions


class OffsetForLeaderEpochRequest(ProtocolMessage):
    __slots__ = (
        "replica_id",
        "topics",
    )

    def __init__(self, replica_id: int = -2, topics: list[OffsetForLeaderTopic] = NEW) -> None:
        self.replica_id = replica_id
        self.topics = [] if topics is NEW else topics


class OffsetForLeaderEpochResponseEpochEndOffset(ProtocolMessage):
    __slots__ = ("end_offset", "error_code", "leader_epoch", "partition")

    def __init__(self, error_code: int = 0, partition: int = 0, leader_epoch: int = -1, end_offset: int = -1) -> None:
        self.error_code = error_code
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.end_offset = end_offset


class OffsetForLeaderTopicResult(ProtocolMessage):
    __slots__ = ("partitions", "topic")

    def __init__(self, topic: str = "", partitions: list[OffsetForLeaderEpochResponseEpochEndOffset] = NEW) -> None:
        self.topic = topic
        self.partitions = [] if partitions is NEW else partitions


class OffsetForLeaderEpochResponse(ProtocolMessage):
    __slots__ = (
        "throttle_time_ms",
        "topics",
    )

    def __init__(self, throttle_time_ms: int = 0, topics: list[OffsetForLeaderTopicResult] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW else topics
