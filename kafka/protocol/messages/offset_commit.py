"""The messages of OffsetCommit. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage


class OffsetCommitRequestPartition(ProtocolMessage):
    __slots__ = (
        "commit_timestamp",
        "committed_leader_epoch",
        "committed_metadata",
        "committed_offset",
        "partition_index",
    )

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        committed_metadata: str | None = "",
        commit_timestamp: int = -1,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.committed_metadata = committed_metadata
        self.commit_timestamp = commit_timestamp


class OffsetCommitRequestTopic(ProtocolMessage):
    __slots__ = ("name", "partitions", "topic_id")

    def __init__(
        self, name: str = "", topic_id: bytes = NO_ID, partitions: list[OffsetCommitRequestPartition] = NEW
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class OffsetCommitRequest(ProtocolMessage):
    __slots__ = (
        "generation_id",
        "generation_id_or_member_epoch",
        "group_id",
        "group_instance_id",
        "member_id",
        "retention_time_ms",
        "topics",
    )

    def __init__(
        self,
        group_id: str = "",
        generation_id_or_member_epoch: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        retention_time_ms: int = -1,
        topics: list[OffsetCommitRequestTopic] = NEW,
        generation_id: int = -1,
    ) -> None:
        self.group_id = group_id
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.retention_time_ms = retention_time_ms
        self.topics = [] if topics is NEW else topics
        self.generation_id = generation_id


class OffsetCommitResponsePartition(ProtocolMessage):
    __slots__ = ("error_code", "partition_index")

    def __init__(self, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class OffsetCommitResponseTopic(ProtocolMessage):
    __slots__ = ("name", "partitions", "topic_id")

    def __init__(
        self, name: str = "", topic_id: bytes = NO_ID, partitions: list[OffsetCommitResponsePartition] = NEW
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class OffsetCommitResponse(ProtocolMessage):
    __slots__ = (
        "throttle_time_ms",
        "topics",
    )

    def __init__(self, throttle_time_ms: int = 0, topics: list[OffsetCommitResponseTopic] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW else topics
