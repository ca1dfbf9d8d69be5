"""EndTxnMarker. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.protocol.message import ProtocolMessage


class EndTxnMarker(ProtocolMessage):
    __slots__ = ("coordinator_epoch",)

    def __init__(self, coordinator_epoch: int = 0) -> None:
        self.coordinator_epoch = coordinator_epoch
