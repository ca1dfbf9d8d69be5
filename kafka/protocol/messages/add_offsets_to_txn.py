"""The messages of AddOffsetsToTxn. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import ProtocolMessage


class AddOffsetsToTxnRequest(ProtocolMessage):
    __slots__ = ("group_id", "producer_epoch", "producer_id", "transactional_id")

    def __init__(
        self, transactional_id: str = "", producer_id: int = 0, producer_epoch: int = 0, group_id: str = ""
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.group_id = group_id


class AddOffsetsToTxnResponse(ProtocolMessage):
    __slots__ = ("error_code", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
