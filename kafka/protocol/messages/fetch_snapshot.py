"""The messages of FetchSnapshot. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage, Records


class FetchSnapshotRequestSnapshotId(ProtocolMessage):
    __slots__ = (
        "end_offset",
        "epoch",
    )

    def __init__(self, end_offset: int = 0, epoch: int = 0) -> None:
        self.end_offset = end_offset
        self.epoch = epoch


class FetchSnapshotRequestPartitionSnapshot(ProtocolMessage):
    __slots__ = ("current_leader_epoch", "partition", "position", "replica_directory_id", "snapshot_id")

    def __init__(
        self,
        partition: int = 0,
        current_leader_epoch: int = 0,
        snapshot_id: FetchSnapshotRequestSnapshotId = NEW,
        position: int = 0,
        replica_directory_id: bytes = NO_ID,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.snapshot_id = FetchSnapshotRequestSnapshotId() if snapshot_id is NEW else snapshot_id
        self.position = position
        self.replica_directory_id = replica_directory_id


class FetchSnapshotRequestTopicSnapshot(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[FetchSnapshotRequestPartitionSnapshot] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class FetchSnapshotRequest(ProtocolMessage):
    __slots__ = ("cluster_id", "max_bytes", "replica_id", "topics")

    def __init__(
        self,
        cluster_id: str | None = None,
        replica_id: int = -1,
        max_bytes: int = 2147483647,
        topics: list[FetchSnapshotRequestTopicSnapshot] = NEW,
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.max_bytes = max_bytes
        self.topics = [] if topics is NEW else topics


class FetchSnapshotResponseSnapshotId(ProtocolMessage):
    __slots__ = (
        "end_offset",
        "epoch",
    )

    def __init__(self, end_offset: int = 0, epoch: int = 0) -> None:
        self.end_offset = end_offset
        self.epoch = epoch


class FetchSnapshotResponseLeaderIdAndEpoch(ProtocolMessage):
    __slots__ = ("leader_epoch", "leader_id")

    def __init__(self, leader_id: int = 0, leader_epoch: int = 0) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class FetchSnapshotResponsePartitionSnapshot(ProtocolMessage):
    __slots__ = ("current_leader", "error_code", "index", "position", "size", "snapshot_id", "unaligned_records")

    def __init__(
        self,
        index: int = 0,
        error_code: int = 0,
        snapshot_id: FetchSnapshotResponseSnapshotId = NEW,
        current_leader: FetchSnapshotResponseLeaderIdAndEpoch = NEW,
        size: int = 0,
        position: int = 0,
        unaligned_records: Records | None = None,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.snapshot_id = FetchSnapshotResponseSnapshotId() if snapshot_id is NEW else snapshot_id
        self.current_leader = FetchSnapshotResponseLeaderIdAndEpoch() if current_leader is NEW else current_leader
        self.size = size
        self.position = position
        self.unaligned_records = unaligned_records


class FetchSnapshotResponseTopicSnapshot(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[FetchSnapshotResponsePartitionSnapshot] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class FetchSnapshotResponseNodeEndpoint(ProtocolMessage):
    __slots__ = ("host", "node_id", "port")

    def __init__(self, node_id: int = 0, host: str = "", port: int = 0) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port


class FetchSnapshotResponse(ProtocolMessage):
    __slots__ = ("error_code", "node_endpoints", "throttle_time_ms", "topics")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        topics: list[FetchSnapshotResponseTopicSnapshot] = NEW,
        node_endpoints: list[FetchSnapshotResponseNodeEndpoint] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.topics = [] if topics is NEW else topics
        self.node_endpoints = [] if node_endpoints is NEW else node_endpoints
