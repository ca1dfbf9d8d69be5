"""The messages of BeginQuorumEpoch. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage


class BeginQuorumEpochRequestPartitionData(ProtocolMessage):
    __slots__ = ("leader_epoch", "leader_id", "partition_index", "voter_directory_id")

    def __init__(
        self, partition_index: int = 0, voter_directory_id: bytes = NO_ID, leader_id: int = 0, leader_epoch: int = 0
    ) -> None:
        self.partition_index = partition_index
        self.voter_directory_id = voter_directory_id
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class BeginQuorumEpochRequestTopicData(ProtocolMessage):
    __slots__ = ("partitions", "topic_name")

    def __init__(self, topic_name: str = "", partitions: list[BeginQuorumEpochRequestPartitionData] = NEW) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions


class BeginQuorumEpochRequestLeaderEndpoint(ProtocolMessage):
    __slots__ = ("host", "name", "port")

    def __init__(self, name: str = "", host: str = "", port: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port


class BeginQuorumEpochRequest(ProtocolMessage):
    __slots__ = ("cluster_id", "leader_endpoints", "topics", "voter_id")

    def __init__(
        self,
        cluster_id: str | None = None,
        voter_id: int = -1,
        topics: list[BeginQuorumEpochRequestTopicData] = NEW,
        leader_endpoints: list[BeginQuorumEpochRequestLeaderEndpoint] = NEW,
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.topics = [] if topics is NEW else topics
        self.leader_endpoints = [] if leader_endpoints is NEW else leader_endpoints


class BeginQuorumEpochResponsePartitionData(ProtocolMessage):
    __slots__ = ("error_code", "leader_epoch", "leader_id", "partition_index")

    def __init__(
        self, partition_index: int = 0, error_code: int = 0, leader_id: int = 0, leader_epoch: int = 0
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class BeginQuorumEpochResponseTopicData(ProtocolMessage):
    __slots__ = ("partitions", "topic_name")

    def __init__(self, topic_name: str = "", partitions: list[BeginQuorumEpochResponsePartitionData] = NEW) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions


class BeginQuorumEpochResponseNodeEndpoint(ProtocolMessage):
    __slots__ = ("host", "node_id", "port")

    def __init__(self, node_id: int = 0, host: str = "", port: int = 0) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port


class BeginQuorumEpochResponse(ProtocolMessage):
    __slots__ = ("error_code", "node_endpoints", "topics")

    def __init__(
        self,
        error_code: int = 0,
        topics: list[BeginQuorumEpochResponseTopicData] = NEW,
        node_endpoints: list[BeginQuorumEpochResponseNodeEndpoint] = NEW,
    ) -> None:
        self.error_code = error_code
        self.topics = [] if topics is NEW else topics
        self.node_endpoints = [] if node_endpoints is NEW else node_endpoints
