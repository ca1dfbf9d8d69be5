"""The messages of ShareFetch. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage, Records


class ShareFetchRequestAcknowledgementBatch(ProtocolMessage):
    __slots__ = ("acknowledge_types", "first_offset", "last_offset")

    def __init__(self, first_offset: int = 0, last_offset: int = 0, acknowledge_types: list[int] = NEW) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.acknowledge_types = [] if acknowledge_types is NEW else acknowledge_types


class ShareFetchRequestFetchPartition(ProtocolMessage):
    __slots__ = ("acknowledgement_batches", "partition_index", "partition_max_bytes")

    def __init__(
        self,
        partition_index: int = 0,
        partition_max_bytes: int = 0,
        acknowledgement_batches: list[ShareFetchRequestAcknowledgementBatch] = NEW,
    ) -> None:
        self.partition_index = partition_index
        self.partition_max_bytes = partition_max_bytes
        self.acknowledgement_batches = [] if acknowledgement_batches is NEW else acknowledgement_batches


class ShareFetchRequestFetchTopic(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(self, topic_id: bytes = NO_ID, partitions: list[ShareFetchRequestFetchPartition] = NEW) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class ShareFetchRequestForgottenTopic(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(self, topic_id: bytes = NO_ID, partitions: list[int] = NEW) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class ShareFetchRequest(ProtocolMessage):
    __slots__ = (
        "batch_size",
        "forgotten_topics_data",
        "group_id",
        "is_renew_ack",
        "max_bytes",
        "max_records",
        "max_wait_ms",
        "member_id",
        "min_bytes",
        "share_acquire_mode",
        "share_session_epoch",
        "topics",
    )

    def __init__(
        self,
        group_id: str | None = None,
        member_id: str | None = "",
        share_session_epoch: int = 0,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        max_records: int = 0,
        batch_size: int = 0,
        share_acquire_mode: int = 0,
        is_renew_ack: bool = False,
        topics: list[ShareFetchRequestFetchTopic] = NEW,
        forgotten_topics_data: list[ShareFetchRequestForgottenTopic] = NEW,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.max_records = max_records
        self.batch_size = batch_size
        self.share_acquire_mode = share_acquire_mode
        self.is_renew_ack = is_renew_ack
        self.topics = [] if topics is NEW else topics
        self.forgotten_topics_data = [] if forgotten_topics_data is NEW else forgotten_topics_data


class ShareFetchResponseLeaderIdAndEpoch(ProtocolMessage):
    __slots__ = ("leader_epoch", "leader_id")

    def __init__(self, leader_id: int = 0, leader_epoch: int = 0) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class AcquiredRecords(ProtocolMessage):
    __slots__ = ("delivery_count", "first_offset", "last_offset")

    def __init__(self, first_offset: int = 0, last_offset: int = 0, delivery_count: int = 0) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_count = delivery_count


class ShareFetchResponsePartitionData(ProtocolMessage):
    __slots__ = (
        "acknowledge_error_code",
        "acknowledge_error_message",
        "acquired_records",
        "current_leader",
        "error_code",
        "error_message",
        "partition_index",
        "records",
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acknowledge_error_code: int = 0,
        acknowledge_error_message: str | None = None,
        current_leader: ShareFetchResponseLeaderIdAndEpoch = NEW,
        records: Records | None = None,
        acquired_records: list[AcquiredRecords] = NEW,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.acknowledge_error_code = acknowledge_error_code
        self.acknowledge_error_message = acknowledge_error_message
        self.current_leader = ShareFetchResponseLeaderIdAndEpoch() if current_leader is NEW else current_leader
        self.records = records
        self.acquired_records = [] if acquired_records is NEW else acquired_records


class ShareFetchableTopicResponse(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(self, topic_id: bytes = NO_ID, partitions: list[ShareFetchResponsePartitionData] = NEW) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class ShareFetchResponseNodeEndpoint(ProtocolMessage):
    __slots__ = ("host", "node_id", "port", "rack")

    def __init__(self, node_id: int = 0, host: str = "", port: int = 0, rack: str | None = None) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class ShareFetchResponse(ProtocolMessage):
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
        responses: list[ShareFetchableTopicResponse] = NEW,
        node_endpoints: list[ShareFetchResponseNodeEndpoint] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.acquisition_lock_timeout_ms = acquisition_lock_timeout_ms
        self.responses = [] if responses is NEW else responses
        self.node_endpoints = [] if node_endpoints is NEW else node_endpoints
