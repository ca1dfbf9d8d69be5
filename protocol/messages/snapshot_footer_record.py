"""SnapshotFooterRecord. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.protocol.message import ProtocolMessage


class SnapshotFooterRecord(ProtocolMessage):
    __slots__ = ("version",)

    def __init__(self, version: int = 0) -> None:
        self.version = version
