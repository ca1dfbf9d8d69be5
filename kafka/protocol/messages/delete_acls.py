"""The messages of DeleteAcls. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class DeleteAclsFilter(ProtocolMessage):
    __slots__ = (
        "host_filter",
        "operation",
        "pattern_type_filter",
        "permission_type",
        "principal_filter",
        "resource_name_filter",
        "resource_type_filter",
    )

    def __init__(
        self,
        resource_type_filter: int = 0,
        resource_name_filter: str | None = "",
        pattern_type_filter: int = 3,
        principal_filter: str | None = "",
        host_filter: str | None = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type_filter = resource_type_filter
        self.resource_name_filter = resource_name_filter
        self.pattern_type_filter = pattern_type_filter
        self.principal_filter = principal_filter
        self.host_filter = host_filter
        self.operation = operation
        self.permission_type = permission_type


class DeleteAclsRequest(ProtocolMessage):
    __slots__ = ("filters",)

    def __init__(self, filters: list[DeleteAclsFilter] = NEW) -> None:
        self.filters = [] if filters is NEW else filters


class DeleteAclsMatchingAcl(ProtocolMessage):
    __slots__ = (
        "error_code",
        "error_message",
        "host",
        "operation",
        "pattern_type",
        "permission_type",
        "principal",
        "resource_name",
        "resource_type",
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class DeleteAclsFilterResult(ProtocolMessage):
    __slots__ = (
        "error_code",
        "error_message",
        "matching_acls",
    )

    def __init__(
        self, error_code: int = 0, error_message: str | None = "", matching_acls: list[DeleteAclsMatchingAcl] = NEW
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.matching_acls = [] if matching_acls is NEW else matching_acls


class DeleteAclsResponse(ProtocolMessage):
    __slots__ = ("filter_results", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, filter_results: list[DeleteAclsFilterResult] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.filter_results = [] if filter_results is NEW else filter_results
