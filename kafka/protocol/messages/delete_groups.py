"""The messages of DeleteGroups. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class DeleteGroupsRequest(ProtocolMessage):
    __slots__ = ("groups_names",)

    def __init__(self, groups_names: list[str] = NEW) -> None:
        self.groups_names = [] if groups_names is NEW else groups_names


class DeletableGroupResult(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "group_id")

    def __init__(self, group_id: str = "", error_code: int = 0, error_message: str | None = None) -> None:
        self.group_id = group_id
        self.error_code = error_code
        self.error_message = error_message


class DeleteGroupsResponse(ProtocolMessage):
    __slots__ = ("results", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, results: list[DeletableGroupResult] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is NEW else results
