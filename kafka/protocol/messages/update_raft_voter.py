"""The messages of UpdateRaftVoter. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage


class UpdateRaftVoterRequestListener(ProtocolMessage):
    __slots__ = ("host", "name", "port")

    def __init__(self, name: str = "", host: str = "", port: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port


class UpdateRaftVoterRequestKRaftVersionFeature(ProtocolMessage):
    __slots__ = ("max_supported_version", "min_supported_version")

    def __init__(self, min_supported_version: int = 0, max_supported_version: int = 0) -> None:
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


class UpdateRaftVoterRequest(ProtocolMessage):
    __slots__ = (
        "cluster_id",
        "current_leader_epoch",
        "k_raft_version_feature",
        "listeners",
        "voter_directory_id",
        "voter_id",
    )

    def __init__(
        self,
        cluster_id: str | None = "",
        current_leader_epoch: int = 0,
        voter_id: int = 0,
        voter_directory_id: bytes = NO_ID,
        listeners: list[UpdateRaftVoterRequestListener] = NEW,
        k_raft_version_feature: UpdateRaftVoterRequestKRaftVersionFeature = NEW,
    ) -> None:
        self.cluster_id = cluster_id
        self.current_leader_epoch = current_leader_epoch
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.listeners = [] if listeners is NEW else listeners
        self.k_raft_version_feature = (
            UpdateRaftVoterRequestKRaftVersionFeature() if k_raft_version_feature is NEW else k_raft_version_feature
        )


class CurrentLeader(ProtocolMessage):
    __slots__ = ("host", "leader_epoch", "leader_id", "port")

    def __init__(self, leader_id: int = -1, leader_epoch: int = -1, host: str = "", port: int = 0) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.host = host
        self.port = port


class UpdateRaftVoterResponse(ProtocolMessage):
    __slots__ = ("current_leader", "error_code", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0, current_leader: CurrentLeader = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.current_leader = CurrentLeader() if current_leader is NEW else current_leader
