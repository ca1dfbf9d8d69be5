"""ResponseHeader. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import ProtocolMessage


class ResponseHeader(ProtocolMessage):
    __slots__ = ("correlation_id",)

    def __init__(self, correlation_id: int = 0) -> None:
        self.correlation_id = correlation_id
