"""SnapshotHeaderRecord. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.protocol.message import ProtocolMessage


class SnapshotHeaderRecord(ProtocolMessage):
    __slots__ = ("last_contained_log_timestamp", "version")

    def __init__(self, version: int = 0, last_contained_log_timestamp: int = 0) -> None:
        self.version = version
        self.last_contained_log_timestamp = last_contained_log_timestamp
