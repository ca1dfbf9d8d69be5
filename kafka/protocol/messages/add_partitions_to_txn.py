"""The messages of AddPartitionsToTxn. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class AddPartitionsToTxnTopic(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[int] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class AddPartitionsToTxnTransaction(ProtocolMessage):
    __slots__ = ("producer_epoch", "producer_id", "topics", "transactional_id", "verify_only")

    def __init__(
        self,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        verify_only: bool = False,
        topics: list[AddPartitionsToTxnTopic] = NEW,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.verify_only = verify_only
        self.topics = [] if topics is NEW else topics


class AddPartitionsToTxnRequest(ProtocolMessage):
    __slots__ = (
        "transactions",
        "v3_and_below_producer_epoch",
        "v3_and_below_producer_id",
        "v3_and_below_topics",
        "v3_and_below_transactional_id",
    )

    def __init__(
        self,
        transactions: list[AddPartitionsToTxnTransaction] = NEW,
        v3_and_below_transactional_id: str = "",
        v3_and_below_producer_id: int = 0,
        v3_and_below_producer_epoch: int = 0,
        v3_and_below_topics: list[AddPartitionsToTxnTopic] = NEW,
    ) -> None:
        self.transactions = [] if transactions is NEW else transactions
        self.v3_and_below_transactional_id = v3_and_below_transactional_id
        self.v3_and_below_producer_id = v3_and_below_producer_id
        self.v3_and_below_producer_epoch = v3_and_below_producer_epoch
        self.v3_and_below_topics = [] if v3_and_below_topics is NEW else v3_and_below_topics


class AddPartitionsToTxnPartitionResult(ProtocolMessage):
    __slots__ = ("partition_error_code", "partition_index")

    def __init__(self, partition_index: int = 0, partition_error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.partition_error_code = partition_error_code


class AddPartitionsToTxnTopicResult(ProtocolMessage):
    __slots__ = (
        "name",
        "results_by_partition",
    )

    def __init__(self, name: str = "", results_by_partition: list[AddPartitionsToTxnPartitionResult] = NEW) -> None:
        self.name = name
        self.results_by_partition = [] if results_by_partition is NEW else results_by_partition


class AddPartitionsToTxnResult(ProtocolMessage):
    __slots__ = ("topic_results", "transactional_id")

    def __init__(self, transactional_id: str = "", topic_results: list[AddPartitionsToTxnTopicResult] = NEW) -> None:
        self.transactional_id = transactional_id
        self.topic_results = [] if topic_results is NEW else topic_results


class AddPartitionsToTxnResponse(ProtocolMessage):
    __slots__ = ("error_code", "results_by_topic_v3_and_below", "results_by_transaction", "throttle_time_ms")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results_by_transaction: list[AddPartitionsToTxnResult] = NEW,
        results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results_by_transaction = [] if results_by_transaction is NEW else results_by_transaction
        self.results_by_topic_v3_and_below = (
            [] if results_by_topic_v3_and_below is NEW else results_by_topic_v3_and_below
        )
