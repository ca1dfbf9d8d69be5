"""The messages of SaslHandshake. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class SaslHandshakeRequest(ProtocolMessage):
    __slots__ = ("mechanism",)

    def __init__(self, mechanism: str = "") -> None:
        self.mechanism = mechanism


class SaslHandshakeResponse(ProtocolMessage):
    __slots__ = (
        "error_code",
        "mechanisms",
    )

    def __init__(self, error_code: int = 0, mechanisms: list[str] = NEW) -> None:
        self.error_code = error_code
        self.mechanisms = [] if mechanisms is NEW else mechanisms
