"""DefaultPrincipalData. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.protocol.message import ProtocolMessage


class DefaultPrincipalData(ProtocolMessage):
    __slots__ = ("name", "token_authenticated", "type")

    def __init__(self, type: str = "", name: str = "", token_authenticated: bool = False) -> None:
        self.type = type
        self.name = name
        self.token_authenticated = token_authenticated
