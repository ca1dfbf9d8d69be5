"""The messages of EndQuorumEpoch. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage


class ReplicaInfo(ProtocolMessage):
    __slots__ = ("candidate_directory_id", "candidate_id")

    def __init__(self, candidate_id: int = 0, candidate_directory_id: bytes = NO_ID) -> None:
        self.candidate_id = candidate_id
        self.candidate_directory_id = candidate_directory_id


class EndQuorumEpochRequestPartitionData(ProtocolMessage):
    __slots__ = ("leader_epoch", "leader_id", "partition_index", "preferred_candidates", "preferred_successors")

    def __init__(
        self,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
        preferred_successors: list[int] = NEW,
        preferred_candidates: list[ReplicaInfo] = NEW,
    ) -> None:
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.preferred_successors = [] if preferred_successors is NEW else preferred_successors
        self.preferred_candidates = [] if preferred_candidates is NEW else preferred_candidates


class EndQuorumEpochRequestTopicData(ProtocolMessage):
    __slots__ = ("partitions", "topic_name")

    def __init__(self, topic_name: str = "", partitions: list[EndQuorumEpochRequestPartitionData] = NEW) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions


class EndQuorumEpochRequestLeaderEndpoint(ProtocolMessage):
    __slots__ = ("host", "name", "port")

    def __init__(self, name: str = "", host: str = "", port: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port


class EndQuorumEpochRequest(ProtocolMessage):
    __slots__ = ("cluster_id", "leader_endpoints", "topics")

    def __init__(
        self,
        cluster_id: str | None = None,
        topics: list[EndQuorumEpochRequestTopicData] = NEW,
        leader_endpoints: list[EndQuorumEpochRequestLeaderEndpoint] = NEW,
    ) -> None:
        self.cluster_id = cluster_id
        self.topics = [] if topics is NEW else topics
        self.leader_endpoints = [] if leader_endpoints is NEW else leader_endpoints


class EndQuorumEpochResponsePartitionData(ProtocolMessage):
    __slots__ = ("error_code", "leader_epoch", "leader_id", "partition_index")

    def __init__(
        self, partition_index: int = 0, error_code: int = 0, leader_id: int = 0, leader_epoch: int = 0
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class EndQuorumEpochResponseTopicData(ProtocolMessage):
    __slots__ = ("partitions", "topic_name")

    def __init__(self, topic_name: str = "", partitions: list[EndQuorumEpochResponsePartitionData] = NEW) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions


class EndQuorumEpochResponseNodeEndpoint(ProtocolMessage):
    __slots__ = ("host", "node_id", "port")

    def __init__(self, node_id: int = 0, host: str = "", port: int = 0) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port


class EndQuorumEpochResponse(ProtocolMessage):
    __slots__ = ("error_code", "node_endpoints", "topics")

    def __init__(
        self,
        error_code: int = 0,
        topics: list[EndQuorumEpochResponseTopicData] = NEW,
        node_endpoints: list[EndQuorumEpochResponseNodeEndpoint] = NEW,
    ) -> None:
        self.error_code = error_code
        self.topics = [] if topics is NEW else topics
        self.node_endpoints = [] if node_endpoints is NEW else node_endpoints
