"""The messages of DescribeGroups. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class DescribeGroupsRequest(ProtocolMessage):
    __slots__ = (
        "groups",
        "include_authorized_operations",
    )

    def __init__(self, groups: list[str] = NEW, include_authorized_operations: bool = False) -> None:
        self.groups = [] if groups is NEW else groups
        self.include_authorized_operations = include_authorized_operations


class DescribedGroupMember(ProtocolMessage):
    __slots__ = ("client_host", "client_id", "group_instance_id", "member_assignment", "member_id", "member_metadata")

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        member_metadata: bytes = b"",
        member_assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.member_metadata = member_metadata
        self.member_assignment = member_assignment


class DescribeGroupsResponseDescribedGroup(ProtocolMessage):
    __slots__ = (
        "authorized_operations",
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "members",
        "protocol_data",
        "protocol_type",
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        protocol_type: str = "",
        protocol_data: str = "",
        members: list[DescribedGroupMember] = NEW,
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.protocol_type = protocol_type
        self.protocol_data = protocol_data
        self.members = [] if members is NEW else members
        self.authorized_operations = authorized_operations


class DescribeGroupsResponse(ProtocolMessage):
    __slots__ = ("groups", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, groups: list[DescribeGroupsResponseDescribedGroup] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is NEW else groups
