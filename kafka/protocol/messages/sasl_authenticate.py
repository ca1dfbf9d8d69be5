"""The messages of SaslAuthenticate. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import ProtocolMessage


class SaslAuthenticateRequest(ProtocolMessage):
    __slots__ = ("auth_bytes",)

    def __init__(self, auth_bytes: bytes = b"") -> None:
        self.auth_bytes = auth_bytes


class SaslAuthenticateResponse(ProtocolMessage):
    __slots__ = ("auth_bytes", "error_code", "error_message", "session_lifetime_ms")

    def __init__(
        self, error_code: int = 0, error_message: str | None = "", auth_bytes: bytes = b"", session_lifetime_ms: int = 0
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.auth_bytes = auth_bytes
        self.session_lifetime_ms = session_lifetime_ms
