"""The messages of AlterConfigs. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class AlterConfigsRequestAlterableConfig(ProtocolMessage):
    __slots__ = (
        "name",
        "value",
    )

    def __init__(self, name: str = "", value: str | None = "") -> None:
        self.name = name
        self.value = value


class AlterConfigsRequestAlterConfigsResource(ProtocolMessage):
    __slots__ = ("configs", "resource_name", "resource_type")

    def __init__(
        self, resource_type: int = 0, resource_name: str = "", configs: list[AlterConfigsRequestAlterableConfig] = NEW
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = [] if configs is NEW else configs


class AlterConfigsRequest(ProtocolMessage):
    __slots__ = (
        "resources",
        "validate_only",
    )

    def __init__(
        self, resources: list[AlterConfigsRequestAlterConfigsResource] = NEW, validate_only: bool = False
    ) -> None:
        self.resources = [] if resources is NEW else resources
        self.validate_only = validate_only


class AlterConfigsResponseAlterConfigsResourceResponse(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "resource_name", "resource_type")

    def __init__(
        self, error_code: int = 0, error_message: str | None = "", resource_type: int = 0, resource_name: str = ""
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name


class AlterConfigsResponse(ProtocolMessage):
    __slots__ = ("responses", "throttle_time_ms")

    def __init__(
        self, throttle_time_ms: int = 0, responses: list[AlterConfigsResponseAlterConfigsResourceResponse] = NEW
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = [] if responses is NEW else responses
