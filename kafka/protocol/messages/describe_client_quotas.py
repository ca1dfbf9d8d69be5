"""The messages of DescribeClientQuotas. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class ComponentData(ProtocolMessage):
    __slots__ = ("entity_type", "match", "match_type")

    def __init__(self, entity_type: str = "", match_type: int = 0, match: str | None = "") -> None:
        self.entity_type = entity_type
        self.match_type = match_type
        self.match = match


class DescribeClientQuotasRequest(ProtocolMessage):
    __slots__ = (
        "components",
        "strict",
    )

    def __init__(self, components: list[ComponentData] = NEW, strict: bool = False) -> None:
        self.components = [] if components is NEW else components
        self.strict = strict


class DescribeClientQuotasResponseEntityData(ProtocolMessage):
    __slots__ = ("entity_name", "entity_type")

    def __init__(self, entity_type: str = "", entity_name: str | None = "") -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class ValueData(ProtocolMessage):
    __slots__ = (
        "key",
        "value",
    )

    def __init__(self, key: str = "", value: float = 0.0) -> None:
        self.key = key
        self.value = value


class DescribeClientQuotasResponseEntryData(ProtocolMessage):
    __slots__ = (
        "entity",
        "values",
    )

    def __init__(
        self, entity: list[DescribeClientQuotasResponseEntityData] = NEW, values: list[ValueData] = NEW
    ) -> None:
        self.entity = [] if entity is NEW else entity
        self.values = [] if values is NEW else values


class DescribeClientQuotasResponse(ProtocolMessage):
    __slots__ = ("entries", "error_code", "error_message", "throttle_time_ms")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        entries: list[DescribeClientQuotasResponseEntryData] | None = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.entries = [] if entries is NEW else entries
