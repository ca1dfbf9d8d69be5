"""The messages of ListConfigResources. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class ListConfigResourcesRequest(ProtocolMessage):
    __slots__ = ("resource_types",)

    def __init__(self, resource_types: list[int] = NEW) -> None:
        self.resource_types = [] if resource_types is NEW else resource_types


class ConfigResource(ProtocolMessage):
    __slots__ = (
        "resource_name",
        "resource_type",
    )

    def __init__(self, resource_name: str = "", resource_type: int = 16) -> None:
        self.resource_name = resource_name
        self.resource_type = resource_type


class ListConfigResourcesResponse(ProtocolMessage):
    __slots__ = ("config_resources", "error_code", "throttle_time_ms")

    def __init__(
        self, throttle_time_ms: int = 0, error_code: int = 0, config_resources: list[ConfigResource] = NEW
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.config_resources = [] if config_resources is NEW else config_resources
