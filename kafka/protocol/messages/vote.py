"""The messages of Vote. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage


class VoteRequestPartitionData(ProtocolMessage):
    __slots__ = (
        "last_offset",
        "last_offset_epoch",
        "partition_index",
        "pre_vote",
        "replica_directory_id",
        "replica_epoch",
        "replica_id",
        "voter_directory_id",
    )

    def __init__(
        self,
        partition_index: int = 0,
        replica_epoch: int = 0,
        replica_id: int = 0,
        replica_directory_id: bytes = NO_ID,
        voter_directory_id: bytes = NO_ID,
        last_offset_epoch: int = 0,
        last_offset: int = 0,
        pre_vote: bool = False,
    ) -> None:
        self.partition_index = partition_index
        self.replica_epoch = replica_epoch
        self.replica_id = replica_id
        self.replica_directory_id = replica_directory_id
        self.voter_directory_id = voter_directory_id
        self.last_offset_epoch = last_offset_epoch
        self.last_offset = last_offset
        self.pre_vote = pre_vote


class VoteRequestTopicData(ProtocolMessage):
    __slots__ = ("partitions", "topic_name")

    def __init__(self, topic_name: str = "", partitions: list[VoteRequestPartitionData] = NEW) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions


class VoteRequest(ProtocolMessage):
    __slots__ = ("cluster_id", "topics", "voter_id")

    def __init__(
        self, cluster_id: str | None = None, voter_id: int = -1, topics: list[VoteRequestTopicData] = NEW
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.topics = [] if topics is NEW else topics


class VoteResponsePartitionData(ProtocolMessage):
    __slots__ = ("error_code", "leader_epoch", "leader_id", "partition_index", "vote_granted")

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
        vote_granted: bool = False,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.vote_granted = vote_granted


class VoteResponseTopicData(ProtocolMessage):
    __slots__ = ("partitions", "topic_name")

    def __init__(self, topic_name: str = "", partitions: list[VoteResponsePartitionData] = NEW) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions


class VoteResponseNodeEndpoint(ProtocolMessage):
    __slots__ = ("host", "node_id", "port")

    def __init__(self, node_id: int = 0, host: str = "", port: int = 0) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port


class VoteResponse(ProtocolMessage):
    __slots__ = ("error_code", "node_endpoints", "topics")

    def __init__(
        self,
        error_code: int = 0,
        topics: list[VoteResponseTopicData] = NEW,
        node_endpoints: list[VoteResponseNodeEndpoint] = NEW,
    ) -> None:
        self.error_code = error_code
        self.topics = [] if topics is NEW else topics
        self.node_endpoints = [] if node_endpoints is NEW else node_endpoints
