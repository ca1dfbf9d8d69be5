"""The messages of TxnOffsetCommit. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage


class TxnOffsetCommitRequestPartition(ProtocolMessage):
    __slots__ = ("committed_leader_epoch", "committed_metadata", "committed_offset", "partition_index")

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        committed_metadata: str | None = "",
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.committed_metadata = committed_metadata


class TxnOffsetCommitRequestTopic(ProtocolMessage):
    __slots__ = ("name", "partitions", "topic_id")

    def __init__(
        self, name: str = "", topic_id: bytes = NO_ID, partitions: list[TxnOffsetCommitRequestPartition] = NEW
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class TxnOffsetCommitRequest(ProtocolMessage):
    __slots__ = (
        "generation_id_or_member_epoch",
        "group_id",
        "group_instance_id",
        "member_id",
        "producer_epoch",
        "producer_id",
        "topics",
        "transactional_id",
    )

    def __init__(
        self,
        transactional_id: str = "",
        group_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        generation_id_or_member_epoch: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        topics: list[TxnOffsetCommitRequestTopic] = NEW,
    ) -> None:
        self.transactional_id = transactional_id
        self.group_id = group_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.topics = [] if topics is NEW else topics


class TxnOffsetCommitResponsePartition(ProtocolMessage):
    __slots__ = ("error_code", "partition_index")

    def __init__(self, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class TxnOffsetCommitResponseTopic(ProtocolMessage):
    __slots__ = ("name", "partitions", "topic_id")

    def __init__(
        self, name: str = "", topic_id: bytes = NO_ID, partitions: list[TxnOffsetCommitResponsePartition] = NEW
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class TxnOffsetCommitResponse(ProtocolMessage):
    __slots__ = (
        "throttle_time_ms",
        "topics",
    )

    def __init__(self, throttle_time_ms: int = 0, topics: list[TxnOffsetCommitResponseTopic] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW else topics
