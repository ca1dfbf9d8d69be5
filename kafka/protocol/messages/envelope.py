"""The messages of Envelope. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import ProtocolMessage


class EnvelopeRequest(ProtocolMessage):
    __slots__ = ("client_host_address", "request_data", "request_principal")

    def __init__(
        self, request_data: bytes = b"", request_principal: bytes | None = b"", client_host_address: bytes = b""
    ) -> None:
        self.request_data = request_data
        self.request_principal = request_principal
        self.client_host_address = client_host_address


class EnvelopeResponse(ProtocolMessage):
    __slots__ = ("error_code", "response_data")

    def __init__(self, response_data: bytes | None = None, error_code: int = 0) -> None:
        self.response_data = response_data
        self.error_code = error_code
