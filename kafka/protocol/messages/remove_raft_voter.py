"""The messages of RemoveRaftVoter. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NO_ID, ProtocolMessage


class RemoveRaftVoterRequest(ProtocolMessage):
    __slots__ = ("cluster_id", "voter_directory_id", "voter_id")

    def __init__(self, cluster_id: str | None = "", voter_id: int = 0, voter_directory_id: bytes = NO_ID) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id


class RemoveRaftVoterResponse(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = "") -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
