"""The messages of ListGroups. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class ListGroupsRequest(ProtocolMessage):
    __slots__ = (
        "states_filter",
        "types_filter",
    )

    def __init__(self, states_filter: list[str] = NEW, types_filter: list[str] = NEW) -> None:
        self.states_filter = [] if states_filter is NEW else states_filter
        self.types_filter = [] if types_filter is NEW else types_filter


class ListedGroup(ProtocolMessage):
    __slots__ = ("group_id", "group_state", "group_type", "protocol_type")

    def __init__(
        self, group_id: str = "", protocol_type: str = "", group_state: str = "", group_type: str = ""
    ) -> None:
        self.group_id = group_id
        self.protocol_type = protocol_type
        self.group_state = group_state
        self.group_type = group_type


class ListGroupsResponse(ProtocolMessage):
    __slots__ = ("error_code", "groups", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0, groups: list[ListedGroup] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.groups = [] if groups is NEW else groups
