"""The messages of LeaveGroup. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class MemberIdentity(ProtocolMessage):
    __slots__ = ("group_instance_id", "member_id", "reason")

    def __init__(self, member_id: str = "", group_instance_id: str | None = None, reason: str | None = None) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.reason = reason


class LeaveGroupRequest(ProtocolMessage):
    __slots__ = (
        "group_id",
        "member_id",
        "members",
    )

    def __init__(self, group_id: str = "", member_id: str = "", members: list[MemberIdentity] = NEW) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.members = [] if members is NEW else members


class MemberResponse(ProtocolMessage):
    __slots__ = ("error_code", "group_instance_id", "member_id")

    def __init__(self, member_id: str = "", group_instance_id: str | None = "", error_code: int = 0) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.error_code = error_code


class LeaveGroupResponse(ProtocolMessage):
    __slots__ = ("error_code", "members", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0, members: list[MemberResponse] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.members = [] if members is NEW else members
