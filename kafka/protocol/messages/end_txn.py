"""The messages of EndTxn. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import ProtocolMessage


class EndTxnRequest(ProtocolMessage):
    __slots__ = ("committed", "producer_epoch", "producer_id", "transactional_id")

    def __init__(
        self, transactional_id: str = "", producer_id: int = 0, producer_epoch: int = 0, committed: bool = False
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.committed = committed


class EndTxnResponse(ProtocolMessage):
    __slots__ = ("error_code", "producer_epoch", "producer_id", "throttle_time_ms")

    def __init__(
        self, throttle_time_ms: int = 0, error_code: int = 0, producer_id: int = -1, producer_epoch: int = -1
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
