"""The messages of DescribeQuorum. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage


class DescribeQuorumRequestPartitionData(ProtocolMessage):
    __slots__ = ("partition_index",)

    def __init__(self, partition_index: int = 0) -> None:
        self.partition_index = partition_index


class DescribeQuorumRequestTopicData(ProtocolMessage):
    __slots__ = ("partitions", "topic_name")

    def __init__(self, topic_name: str = "", partitions: list[DescribeQuorumRequestPartitionData] = NEW) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions


class DescribeQuorumRequest(ProtocolMessage):
    __slots__ = ("topics",)

    def __init__(self, topics: list[DescribeQuorumRequestTopicData] = NEW) -> None:
        self.topics = [] if topics is NEW else topics


class DescribeQuorumResponseReplicaState(ProtocolMessage):
    __slots__ = (
        "last_caught_up_timestamp",
        "last_fetch_timestamp",
        "log_end_offset",
        "replica_directory_id",
        "replica_id",
    )

    def __init__(
        self,
        replica_id: int = 0,
        replica_directory_id: bytes = NO_ID,
        log_end_offset: int = 0,
        last_fetch_timestamp: int = -1,
        last_caught_up_timestamp: int = -1,
    ) -> None:
        self.replica_id = replica_id
        self.replica_directory_id = replica_directory_id
        self.log_end_offset = log_end_offset
        self.last_fetch_timestamp = last_fetch_timestamp
        self.last_caught_up_timestamp = last_caught_up_timestamp


class DescribeQuorumResponsePartitionData(ProtocolMessage):
    __slots__ = (
        "current_voters",
        "error_code",
        "error_message",
        "high_watermark",
        "leader_epoch",
        "leader_id",
        "observers",
        "partition_index",
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        leader_id: int = 0,
        leader_epoch: int = 0,
        high_watermark: int = 0,
        current_voters: list[DescribeQuorumResponseReplicaState] = NEW,
        observers: list[DescribeQuorumResponseReplicaState] = NEW,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.high_watermark = high_watermark
        self.current_voters = [] if current_voters is NEW else current_voters
        self.observers = [] if observers is NEW else observers


class DescribeQuorumResponseTopicData(ProtocolMessage):
    __slots__ = ("partitions", "topic_name")

    def __init__(self, topic_name: str = "", partitions: list[DescribeQuorumResponsePartitionData] = NEW) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions


class DescribeQuorumResponseListener(ProtocolMessage):
    __slots__ = ("host", "name", "port")

    def __init__(self, name: str = "", host: str = "", port: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port


class Node(ProtocolMessage):
    __slots__ = ("listeners", "node_id")

    def __init__(self, node_id: int = 0, listeners: list[DescribeQuorumResponseListener] = NEW) -> None:
        self.node_id = node_id
        self.listeners = [] if listeners is NEW else listeners


class DescribeQuorumResponse(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "nodes", "topics")

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        topics: list[DescribeQuorumResponseTopicData] = NEW,
        nodes: list[Node] = NEW,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.topics = [] if topics is NEW else topics
        self.nodes = [] if nodes is NEW else nodes
