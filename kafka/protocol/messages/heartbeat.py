"""The messages of Heartbeat. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import ProtocolMessage


class HeartbeatRequest(ProtocolMessage):
    __slots__ = ("generation_id", "group_id", "group_instance_id", "member_id")

    def __init__(
        self, group_id: str = "", generation_id: int = 0, member_id: str = "", group_instance_id: str | None = None
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id


class HeartbeatResponse(ProtocolMessage):
    __slots__ = ("error_code", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
