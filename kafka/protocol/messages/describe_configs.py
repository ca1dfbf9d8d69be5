"""The messages of DescribeConfigs. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class DescribeConfigsResource(ProtocolMessage):
    __slots__ = ("configuration_keys", "resource_name", "resource_type")

    def __init__(
        self, resource_type: int = 0, resource_name: str = "", configuration_keys: list[str] | None = NEW
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configuration_keys = [] if configuration_keys is NEW else configuration_keys


class DescribeConfigsRequest(ProtocolMessage):
    __slots__ = ("include_documentation", "include_synonyms", "resources")

    def __init__(
        self,
        resources: list[DescribeConfigsResource] = NEW,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> None:
        self.resources = [] if resources is NEW else resources
        self.include_synonyms = include_synonyms
        self.include_documentation = include_documentation


class DescribeConfigsSynonym(ProtocolMessage):
    __slots__ = ("name", "source", "value")

    def __init__(self, name: str = "", value: str | None = "", source: int = 0) -> None:
        self.name = name
        self.value = value
        self.source = source


class DescribeConfigsResourceResult(ProtocolMessage):
    __slots__ = (
        "config_source",
        "config_type",
        "documentation",
        "is_default",
        "is_sensitive",
        "name",
        "read_only",
        "synonyms",
        "value",
    )

    def __init__(
        self,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
        synonyms: list[DescribeConfigsSynonym] = NEW,
        config_type: int = 0,
        documentation: str | None = "",
        is_default: bool = False,
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive
        self.synonyms = [] if synonyms is NEW else synonyms
        self.config_type = config_type
        self.documentation = documentation
        self.is_default = is_default


class DescribeConfigsResult(ProtocolMessage):
    __slots__ = ("configs", "error_code", "error_message", "resource_name", "resource_type")

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        configs: list[DescribeConfigsResourceResult] = NEW,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = [] if configs is NEW else configs


class DescribeConfigsResponse(ProtocolMessage):
    __slots__ = ("results", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, results: list[DescribeConfigsResult] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is NEW else results
