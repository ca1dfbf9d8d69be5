"""The messages of ExpireDelegationToken. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import ProtocolMessage


class ExpireDelegationTokenRequest(ProtocolMessage):
    __slots__ = ("expiry_time_period_ms", "hmac")

    def __init__(self, hmac: bytes = b"", expiry_time_period_ms: int = 0) -> None:
        self.hmac = hmac
        self.expiry_time_period_ms = expiry_time_period_ms


class ExpireDelegationTokenResponse(ProtocolMessage):
    __slots__ = (
        "error_code",
        "expiry_timestamp_ms",
        "throttle_time_ms",
    )

    def __init__(self, error_code: int = 0, expiry_timestamp_ms: int = 0, throttle_time_ms: int = 0) -> None:
        self.error_code = error_code
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.throttle_time_ms = throttle_time_ms
