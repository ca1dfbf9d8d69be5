"""The messages of BrokerRegistration. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage


class BrokerRegistrationRequestListener(ProtocolMessage):
    __slots__ = ("host", "name", "port", "security_protocol")

    def __init__(self, name: str = "", host: str = "", port: int = 0, security_protocol: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.security_protocol = security_protocol


class BrokerRegistrationRequestFeature(ProtocolMessage):
    __slots__ = ("max_supported_version", "min_supported_version", "name")

    def __init__(self, name: str = "", min_supported_version: int = 0, max_supported_version: int = 0) -> None:
        self.name = name
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


class BrokerRegistrationRequest(ProtocolMessage):
    __slots__ = (
        "broker_id",
        "cluster_id",
        "features",
        "incarnation_id",
        "is_migrating_zk_broker",
        "listeners",
        "log_dirs",
        "previous_broker_epoch",
        "rack",
    )

    def __init__(
        self,
        broker_id: int = 0,
        cluster_id: str = "",
        incarnation_id: bytes = NO_ID,
        listeners: list[BrokerRegistrationRequestListener] = NEW,
        features: list[BrokerRegistrationRequestFeature] = NEW,
        rack: str | None = "",
        is_migrating_zk_broker: bool = False,
        log_dirs: list[bytes] = NEW,
        previous_broker_epoch: int = -1,
    ) -> None:
        self.broker_id = broker_id
        self.cluster_id = cluster_id
        self.incarnation_id = incarnation_id
        self.listeners = [] if listeners is NEW else listeners
        self.features = [] if features is NEW else features
        self.rack = rack
        self.is_migrating_zk_broker = is_migrating_zk_broker
        self.log_dirs = [] if log_dirs is NEW else log_dirs
        self.previous_broker_epoch = previous_broker_epoch


class BrokerRegistrationResponse(ProtocolMessage):
    __slots__ = ("broker_epoch", "error_code", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0, broker_epoch: int = -1) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.broker_epoch = broker_epoch
