"""The messages of PushTelemetry. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NO_ID, ProtocolMessage


class PushTelemetryRequest(ProtocolMessage):
    __slots__ = ("client_instance_id", "compression_type", "metrics", "subscription_id", "terminating")

    def __init__(
        self,
        client_instance_id: bytes = NO_ID,
        subscription_id: int = 0,
        terminating: bool = False,
        compression_type: int = 0,
        metrics: bytes = b"",
    ) -> None:
        self.client_instance_id = client_instance_id
        self.subscription_id = subscription_id
        self.terminating = terminating
        self.compression_type = compression_type
        self.metrics = metrics


class PushTelemetryResponse(ProtocolMessage):
    __slots__ = ("error_code", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
