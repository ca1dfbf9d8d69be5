"""The messages of DescribeTransactions. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class DescribeTransactionsRequest(ProtocolMessage):
    __slots__ = ("transactional_ids",)

    def __init__(self, transactional_ids: list[str] = NEW) -> None:
        self.transactional_ids = [] if transactional_ids is NEW else transactional_ids


class DescribeTransactionsResponseTopicData(ProtocolMessage):
    __slots__ = ("partitions", "topic")

    def __init__(self, topic: str = "", partitions: list[int] = NEW) -> None:
        self.topic = topic
        self.partitions = [] if partitions is NEW else partitions


class DescribeTransactionsResponseTransactionState(ProtocolMessage):
    __slots__ = (
        "error_code",
        "producer_epoch",
        "producer_id",
        "topics",
        "transaction_start_time_ms",
        "transaction_state",
        "transaction_timeout_ms",
        "transactional_id",
    )

    def __init__(
        self,
        error_code: int = 0,
        transactional_id: str = "",
        transaction_state: str = "",
        transaction_timeout_ms: int = 0,
        transaction_start_time_ms: int = 0,
        producer_id: int = 0,
        producer_epoch: int = 0,
        topics: list[DescribeTransactionsResponseTopicData] = NEW,
    ) -> None:
        self.error_code = error_code
        self.transactional_id = transactional_id
        self.transaction_state = transaction_state
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_start_time_ms = transaction_start_time_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.topics = [] if topics is NEW else topics


class DescribeTransactionsResponse(ProtocolMessage):
    __slots__ = (
        "throttle_time_ms",
        "transaction_states",
    )

    def __init__(
        self, throttle_time_ms: int = 0, transaction_states: list[DescribeTransactionsResponseTransactionState] = NEW
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.transaction_states = [] if transaction_states is NEW else transaction_states
