"""The messages of AllocateProducerIds. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import ProtocolMessage


class AllocateProducerIdsRequest(ProtocolMessage):
    __slots__ = ("broker_epoch", "broker_id")

    def __init__(self, broker_id: int = 0, broker_epoch: int = -1) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch


class AllocateProducerIdsResponse(ProtocolMessage):
    __slots__ = ("error_code", "producer_id_len", "producer_id_start", "throttle_time_ms")

    def __init__(
        self, throttle_time_ms: int = 0, error_code: int = 0, producer_id_start: int = 0, producer_id_len: int = 0
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id_start = producer_id_start
        self.producer_id_len = producer_id_len
