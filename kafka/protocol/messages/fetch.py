"""The messages of Fetch. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage, Records


class FetchRequestReplicaState(ProtocolMessage):
    __slots__ = ("replica_epoch", "replica_id")

    def __init__(self, replica_id: int = -1, replica_epoch: int = -1) -> None:
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch


class FetchRequestFetchPartition(ProtocolMessage):
    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "last_fetched_epoch",
        "log_start_offset",
        "partition",
        "partition_max_bytes",
        "replica_directory_id",
    )

    def __init__(
        self,
        partition: int = 0,
        current_leader_epoch: int = -1,
        fetch_offset: int = 0,
        last_fetched_epoch: int = -1,
        log_start_offset: int = -1,
        partition_max_bytes: int = 0,
        replica_directory_id: bytes = NO_ID,
        high_watermark: int = 9223372036854775807,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.partition_max_bytes = partition_max_bytes
        self.replica_directory_id = replica_directory_id
        self.high_watermark = high_watermark


class FetchRequestFetchTopic(ProtocolMessage):
    __slots__ = ("partitions", "topic", "topic_id")

    def __init__(
        self, topic: str = "", topic_id: bytes = NO_ID, partitions: list[FetchRequestFetchPartition] = NEW
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class FetchRequestForgottenTopic(ProtocolMessage):
    __slots__ = ("partitions", "topic", "topic_id")

    def __init__(self, topic: str = "", topic_id: bytes = NO_ID, partitions: list[int] = NEW) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class FetchRequest(ProtocolMessage):
    __slots__ = (
        "cluster_id",
        "forgotten_topics_data",
        "isolation_level",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "rack_id",
        "replica_id",
        "replica_state",
        "session_epoch",
        "session_id",
        "topics",
    )

    def __init__(
        self,
        cluster_id: str | None = None,
        replica_id: int = -1,
        replica_state: FetchRequestReplicaState = NEW,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        isolation_level: int = 0,
        session_id: int = 0,
        session_epoch: int = -1,
        topics: list[FetchRequestFetchTopic] = NEW,
        forgotten_topics_data: list[FetchRequestForgottenTopic] = NEW,
        rack_id: str = "",
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.replica_state = FetchRequestReplicaState() if replica_state is NEW else replica_state
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics = [] if topics is NEW else topics
        self.forgotten_topics_data = [] if forgotten_topics_data is NEW else forgotten_topics_data
        self.rack_id = rack_id


class FetchResponseEpochEndOffset(ProtocolMessage):
    __slots__ = ("end_offset", "epoch")

    def __init__(self, epoch: int = -1, end_offset: int = -1) -> None:
        self.epoch = epoch
        self.end_offset = end_offset


class FetchResponseLeaderIdAndEpoch(ProtocolMessage):
    __slots__ = ("leader_epoch", "leader_id")

    def __init__(self, leader_id: int = -1, leader_epoch: int = -1) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class FetchResponseSnapshotId(ProtocolMessage):
    __slots__ = (
        "end_offset",
        "epoch",
    )

    def __init__(self, end_offset: int = -1, epoch: int = -1) -> None:
        self.end_offset = end_offset
        self.epoch = epoch


class AbortedTransaction(ProtocolMessage):
    __slots__ = ("first_offset", "producer_id")

    def __init__(self, producer_id: int = 0, first_offset: int = 0) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset


class FetchResponsePartitionData(ProtocolMessage):
    __slots__ = (
        "aborted_transactions",
        "current_leader",
        "diverging_epoch",
        "error_code",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "partition_index",
        "preferred_read_replica",
        "records",
        "snapshot_id",
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        high_watermark: int = 0,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        diverging_epoch: FetchResponseEpochEndOffset = NEW,
        current_leader: FetchResponseLeaderIdAndEpoch = NEW,
        snapshot_id: FetchResponseSnapshotId = NEW,
        aborted_transactions: list[AbortedTransaction] | None = NEW,
        preferred_read_replica: int = -1,
        records: Records | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.diverging_epoch = FetchResponseEpochEndOffset() if diverging_epoch is NEW else diverging_epoch
        self.current_leader = FetchResponseLeaderIdAndEpoch() if current_leader is NEW else current_leader
        self.snapshot_id = FetchResponseSnapshotId() if snapshot_id is NEW else snapshot_id
        self.aborted_transactions = [] if aborted_transactions is NEW else aborted_transactions
        self.preferred_read_replica = preferred_read_replica
        self.records = records


class FetchableTopicResponse(ProtocolMessage):
    __slots__ = ("partition_responses", "partitions", "topic", "topic_id")

    def __init__(
        self,
        topic: str = "",
        topic_id: bytes = NO_ID,
        partitions: list[FetchResponsePartitionData] = NEW,
        partition_responses: list[FetchablePartitionResponse] = NEW,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions
        self.partition_responses = [] if partition_responses is NEW else partition_responses


class FetchResponseNodeEndpoint(ProtocolMessage):
    __slots__ = ("host", "node_id", "port", "rack")

    def __init__(self, node_id: int = 0, host: str = "", port: int = 0, rack: str | None = None) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class FetchResponse(ProtocolMessage):
    __slots__ = ("error_code", "node_endpoints", "responses", "session_id", "throttle_time_ms")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        session_id: int = 0,
        responses: list[FetchableTopicResponse] = NEW,
        node_endpoints: list[FetchResponseNodeEndpoint] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.session_id = session_id
        self.responses = [] if responses is NEW else responses
        self.node_endpoints = [] if node_endpoints is NEW else node_endpoints


class FetchablePartitionResponse(ProtocolMessage):
    __slots__ = (
        "aborted_transactions",
        "current_leader",
        "diverging_epoch",
        "error_code",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "partition",
        "preferred_read_replica",
        "record_set",
        "snapshot_id",
    )

    def __init__(
        self,
        partition: int = 0,
        error_code: int = 0,
        high_watermark: int = 0,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        diverging_epoch: FetchResponseEpochEndOffset = NEW,
        current_leader: FetchResponseLeaderIdAndEpoch = NEW,
        snapshot_id: FetchResponseSnapshotId = NEW,
        aborted_transactions: list[AbortedTransaction] | None = NEW,
        preferred_read_replica: int = -1,
        record_set: Records | None = None,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.diverging_epoch = FetchResponseEpochEndOffset() if diverging_epoch is NEW else diverging_epoch
        self.current_leader = FetchResponseLeaderIdAndEpoch() if current_leader is NEW else current_leader
        self.snapshot_id = FetchResponseSnapshotId() if snapshot_id is NEW else snapshot_id
        self.aborted_transactions = [] if aborted_transactions is NEW else aborted_transactions
        self.preferred_read_replica = preferred_read_replica
        self.record_set = record_set
