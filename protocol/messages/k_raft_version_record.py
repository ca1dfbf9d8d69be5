"""KRaftVersionRecord. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.protocol.message import ProtocolMessage


class KRaftVersionRecord(ProtocolMessage):
    __slots__ = ("k_raft_version", "version")

    def __init__(self, version: int = 0, k_raft_version: int = 0) -> None:
        self.version = version
        self.k_raft_version = k_raft_version
