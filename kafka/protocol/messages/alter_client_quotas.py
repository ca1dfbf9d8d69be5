"""The messages of AlterClientQuotas. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class AlterClientQuotasRequestEntityData(ProtocolMessage):
    __slots__ = ("entity_name", "entity_type")

    def __init__(self, entity_type: str = "", entity_name: str | None = "") -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class OpData(ProtocolMessage):
    __slots__ = ("key", "remove", "value")

    def __init__(self, key: str = "", value: float = 0.0, remove: bool = False) -> None:
        self.key = key
        self.value = value
        self.remove = remove


class AlterClientQuotasRequestEntryData(ProtocolMessage):
    __slots__ = (
        "entity",
        "ops",
    )

    def __init__(self, entity: list[AlterClientQuotasRequestEntityData] = NEW, ops: list[OpData] = NEW) -> None:
        self.entity = [] if entity is NEW else entity
        self.ops = [] if ops is NEW else ops


class AlterClientQuotasRequest(ProtocolMessage):
    __slots__ = (
        "entries",
        "validate_only",
    )

    def __init__(self, entries: list[AlterClientQuotasRequestEntryData] = NEW, validate_only: bool = False) -> None:
        self.entries = [] if entries is NEW else entries
        self.validate_only = validate_only


class AlterClientQuotasResponseEntityData(ProtocolMessage):
    __slots__ = ("entity_name", "entity_type")

    def __init__(self, entity_type: str = "", entity_name: str | None = "") -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class AlterClientQuotasResponseEntryData(ProtocolMessage):
    __slots__ = ("entity", "error_code", "error_message")

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        entity: list[AlterClientQuotasResponseEntityData] = NEW,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.entity = [] if entity is NEW else entity


class AlterClientQuotasResponse(ProtocolMessage):
    __slots__ = ("entries", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, entries: list[AlterClientQuotasResponseEntryData] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.entries = [] if entries is NEW else entries
