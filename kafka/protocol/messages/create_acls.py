"""The messages of CreateAcls. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class AclCreation(ProtocolMessage):
    __slots__ = (
        "host",
        "operation",
        "permission_type",
        "principal",
        "resource_name",
        "resource_pattern_type",
        "resource_type",
    )

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        resource_pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.resource_pattern_type = resource_pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class CreateAclsRequest(ProtocolMessage):
    __slots__ = ("creations",)

    def __init__(self, creations: list[AclCreation] = NEW) -> None:
        self.creations = [] if creations is NEW else creations


class AclCreationResult(ProtocolMessage):
    __slots__ = (
        "error_code",
        "error_message",
    )

    def __init__(self, error_code: int = 0, error_message: str | None = "") -> None:
        self.error_code = error_code
        self.error_message = error_message


class CreateAclsResponse(ProtocolMessage):
    __slots__ = ("results", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, results: list[AclCreationResult] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is NEW else results
