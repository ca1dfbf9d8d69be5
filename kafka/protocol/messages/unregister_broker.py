"""The messages of UnregisterBroker. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import ProtocolMessage


class UnregisterBrokerRequest(ProtocolMessage):
    __slots__ = ("broker_id",)

    def __init__(self, broker_id: int = 0) -> None:
        self.broker_id = broker_id


class UnregisterBrokerResponse(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = "") -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
