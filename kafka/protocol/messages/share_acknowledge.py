"""The messages of ShareAcknowledge. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage


class ShareAcknowledgeRequestAcknowledgementBatch(ProtocolMessage):
    __slots__ = ("acknowledge_types", "first_offset", "last_offset")

    def __init__(self, first_offset: int = 0, last_offset: int = 0, acknowledge_types: list[int] = NEW) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.acknowledge_types = [] if acknowledge_types is NEW else acknowledge_types


class AcknowledgePartition(ProtocolMessage):
    __slots__ = ("acknowledgement_batches", "partition_index")

    def __init__(
        self, partition_index: int = 0, acknowledgement_batches: list[ShareAcknowledgeRequestAcknowledgementBatch] = NEW
    ) -> None:
        self.partition_index = partition_index
        self.acknowledgement_batches = [] if acknowledgement_batches is NEW else acknowledgement_batches


class AcknowledgeTopic(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(self, topic_id: bytes = NO_ID, partitions: list[AcknowledgePartition] = NEW) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class ShareAcknowledgeRequest(ProtocolMessage):
    __slots__ = ("group_id", "is_renew_ack", "member_id", "share_session_epoch", "topics")

    def __init__(
        self,
        group_id: str | None = None,
        member_id: str | None = "",
        share_session_epoch: int = 0,
        is_renew_ack: bool = False,
        topics: list[AcknowledgeTopic] = NEW,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.is_renew_ack = is_renew_ack
        self.topics = [] if topics is NEW else topics


class ShareAcknowledgeResponseLeaderIdAndEpoch(ProtocolMessage):
    __slots__ = ("leader_epoch", "leader_id")

    def __init__(self, leader_id: int = 0, leader_epoch: int = 0) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class ShareAcknowledgeResponsePartitionData(ProtocolMessage):
    __slots__ = ("current_leader", "error_code", "error_message", "partition_index")

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        current_leader: ShareAcknowledgeResponseLeaderIdAndEpoch = NEW,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.current_leader = ShareAcknowledgeResponseLeaderIdAndEpoch() if current_leader is NEW else current_leader


class ShareAcknowledgeTopicResponse(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(self, topic_id: bytes = NO_ID, partitions: list[ShareAcknowledgeResponsePartitionData] = NEW) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class ShareAcknowledgeResponseNodeEndpoint(ProtocolMessage):
    __slots__ = ("host", "node_id", "port", "rack")

    def __init__(self, node_id: int = 0, host: str = "", port: int = 0, rack: str | None = None) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class ShareAcknowledgeResponse(ProtocolMessage):
    __slots__ = (
        "acquisition_lock_timeout_ms",
        "error_code",
        "error_message",
        "node_endpoints",
        "responses",
        "throttle_time_ms",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acquisition_lock_timeout_ms: int = 0,
        responses: list[ShareAcknowledgeTopicResponse] = NEW,
        node_endpoints: list[ShareAcknowledgeResponseNodeEndpoint] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.acquisition_lock_timeout_ms = acquisition_lock_timeout_ms
        self.responses = [] if responses is NEW else responses
        self.node_endpoints = [] if node_endpoints is NEW else node_endpoints
