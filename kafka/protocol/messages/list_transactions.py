"""The messages of ListTransactions. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class ListTransactionsRequest(ProtocolMessage):
    __slots__ = ("duration_filter", "producer_id_filters", "state_filters", "transactional_id_pattern")

    def __init__(
        self,
        state_filters: list[str] = NEW,
        producer_id_filters: list[int] = NEW,
        duration_filter: int = -1,
        transactional_id_pattern: str | None = None,
    ) -> None:
        self.state_filters = [] if state_filters is NEW else state_filters
        self.producer_id_filters = [] if producer_id_filters is NEW else producer_id_filters
        self.duration_filter = duration_filter
        self.transactional_id_pattern = transactional_id_pattern


class ListTransactionsResponseTransactionState(ProtocolMessage):
    __slots__ = ("producer_id", "transaction_state", "transactional_id")

    def __init__(self, transactional_id: str = "", producer_id: int = 0, transaction_state: str = "") -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.transaction_state = transaction_state


class ListTransactionsResponse(ProtocolMessage):
    __slots__ = ("error_code", "throttle_time_ms", "transaction_states", "unknown_state_filters")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_state_filters: list[str] = NEW,
        transaction_states: list[ListTransactionsResponseTransactionState] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_state_filters = [] if unknown_state_filters is NEW else unknown_state_filters
        self.transaction_states = [] if transaction_states is NEW else transaction_states
