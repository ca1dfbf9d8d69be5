"""The messages of ControllerRegistration. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage


class ControllerRegistrationRequestListener(ProtocolMessage):
    __slots__ = ("host", "name", "port", "security_protocol")

    def __init__(self, name: str = "", host: str = "", port: int = 0, security_protocol: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.security_protocol = security_protocol


class ControllerRegistrationRequestFeature(ProtocolMessage):
    __slots__ = ("max_supported_version", "min_supported_version", "name")

    def __init__(self, name: str = "", min_supported_version: int = 0, max_supported_version: int = 0) -> None:
        self.name = name
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


class ControllerRegistrationRequest(ProtocolMessage):
    __slots__ = ("controller_id", "features", "incarnation_id", "listeners", "zk_migration_ready")

    def __init__(
        self,
        controller_id: int = 0,
        incarnation_id: bytes = NO_ID,
        zk_migration_ready: bool = False,
        listeners: list[ControllerRegistrationRequestListener] = NEW,
        features: list[ControllerRegistrationRequestFeature] = NEW,
    ) -> None:
        self.controller_id = controller_id
        self.incarnation_id = incarnation_id
        self.zk_migration_ready = zk_migration_ready
        self.listeners = [] if listeners is NEW else listeners
        self.features = [] if features is NEW else features


class ControllerRegistrationResponse(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = "") -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
