"""The messages of DescribeTopicPartitions. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage


class DescribeTopicPartitionsRequestTopicRequest(ProtocolMessage):
    __slots__ = ("name",)

    def __init__(self, name: str = "") -> None:
        self.name = name


class DescribeTopicPartitionsRequestCursor(ProtocolMessage):
    __slots__ = ("partition_index", "topic_name")

    def __init__(self, topic_name: str = "", partition_index: int = 0) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index


class DescribeTopicPartitionsRequest(ProtocolMessage):
    __slots__ = ("cursor", "response_partition_limit", "topics")

    def __init__(
        self,
        topics: list[DescribeTopicPartitionsRequestTopicRequest] = NEW,
        response_partition_limit: int = 2000,
        cursor: DescribeTopicPartitionsRequestCursor | None = None,
    ) -> None:
        self.topics = [] if topics is NEW else topics
        self.response_partition_limit = response_partition_limit
        self.cursor = cursor


class DescribeTopicPartitionsResponsePartition(ProtocolMessage):
    __slots__ = (
        "eligible_leader_replicas",
        "error_code",
        "isr_nodes",
        "last_known_elr",
        "leader_epoch",
        "leader_id",
        "offline_replicas",
        "partition_index",
        "replica_nodes",
    )

    def __init__(
        self,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: list[int] = NEW,
        isr_nodes: list[int] = NEW,
        eligible_leader_replicas: list[int] | None = None,
        last_known_elr: list[int] | None = None,
        offline_replicas: list[int] = NEW,
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes = [] if replica_nodes is NEW else replica_nodes
        self.isr_nodes = [] if isr_nodes is NEW else isr_nodes
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr
        self.offline_replicas = [] if offline_replicas is NEW else offline_replicas


class DescribeTopicPartitionsResponseTopic(ProtocolMessage):
    __slots__ = ("error_code", "is_internal", "name", "partitions", "topic_authorized_operations", "topic_id")

    def __init__(
        self,
        error_code: int = 0,
        name: str | None = "",
        topic_id: bytes = NO_ID,
        is_internal: bool = False,
        partitions: list[DescribeTopicPartitionsResponsePartition] = NEW,
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = [] if partitions is NEW else partitions
        self.topic_authorized_operations = topic_authorized_operations


class DescribeTopicPartitionsResponseCursor(ProtocolMessage):
    __slots__ = ("partition_index", "topic_name")

    def __init__(self, topic_name: str = "", partition_index: int = 0) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index


class DescribeTopicPartitionsResponse(ProtocolMessage):
    __slots__ = ("next_cursor", "throttle_time_ms", "topics")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[DescribeTopicPartitionsResponseTopic] = NEW,
        next_cursor: DescribeTopicPartitionsResponseCursor | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW else topics
        self.next_cursor = next_cursor
