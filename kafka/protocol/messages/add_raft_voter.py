"""The messages of AddRaftVoter. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage


class AddRaftVoterRequestListener(ProtocolMessage):
    __slots__ = ("host", "name", "port")

    def __init__(self, name: str = "", host: str = "", port: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port


class AddRaftVoterRequest(ProtocolMessage):
    __slots__ = ("ack_when_committed", "cluster_id", "listeners", "timeout_ms", "voter_directory_id", "voter_id")

    def __init__(
        self,
        cluster_id: str | None = "",
        timeout_ms: int = 0,
        voter_id: int = 0,
        voter_directory_id: bytes = NO_ID,
        listeners: list[AddRaftVoterRequestListener] = NEW,
        ack_when_committed: bool = True,
    ) -> None:
        self.cluster_id = cluster_id
        self.timeout_ms = timeout_ms
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.listeners = [] if listeners is NEW else listeners
        self.ack_when_committed = ack_when_committed


class AddRaftVoterResponse(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = "") -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
