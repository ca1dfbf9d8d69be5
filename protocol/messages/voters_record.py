"""VotersRecord. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.protocol.message import NEW, NO_ID, ProtocolMessage


class VotersRecordEndpoint(ProtocolMessage):
    __slots__ = ("host", "name", "port")

    def __init__(self, name: str = "", host: str = "", port: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port


class VotersRecordKRaftVersionFeature(ProtocolMessage):
    __slots__ = ("max_supported_version", "min_supported_version")

    def __init__(self, min_supported_version: int = 0, max_supported_version: int = 0) -> None:
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


class VotersRecordVoter(ProtocolMessage):
    __slots__ = ("endpoints", "k_raft_version_feature", "voter_directory_id", "voter_id")

    def __init__(
        self,
        voter_id: int = 0,
        voter_directory_id: bytes = NO_ID,
        endpoints: list[VotersRecordEndpoint] = NEW,
        k_raft_version_feature: VotersRecordKRaftVersionFeature = NEW,
    ) -> None:
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.endpoints = [] if endpoints is NEW else endpoints
        self.k_raft_version_feature = (
            VotersRecordKRaftVersionFeature() if k_raft_version_feature is NEW else k_raft_version_feature
        )


class VotersRecord(ProtocolMessage):
    __slots__ = (
        "version",
        "voters",
    )

    def __init__(self, version: int = 0, voters: list[VotersRecordVoter] = NEW) -> None:
        self.version = version
        self.voters = [] if voters is NEW else voters
