"""The messages of WriteTxnMarkers. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class WritableTxnMarkerTopic(ProtocolMessage):
    __slots__ = (
        "name",
        "partition_indexes",
    )

    def __init__(self, name: str = "", partition_indexes: list[int] = NEW) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is NEW else partition_indexes


class WritableTxnMarker(ProtocolMessage):
    __slots__ = (
        "coordinator_epoch",
        "producer_epoch",
        "producer_id",
        "topics",
        "transaction_result",
        "transaction_version",
    )

    def __init__(
        self,
        producer_id: int = 0,
        producer_epoch: int = 0,
        transaction_result: bool = False,
        topics: list[WritableTxnMarkerTopic] = NEW,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.transaction_result = transaction_result
        self.topics = [] if topics is NEW else topics
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version


class WriteTxnMarkersRequest(ProtocolMessage):
    __slots__ = ("markers",)

    def __init__(self, markers: list[WritableTxnMarker] = NEW) -> None:
        self.markers = [] if markers is NEW else markers


class WritableTxnMarkerPartitionResult(ProtocolMessage):
    __slots__ = ("error_code", "partition_index")

    def __init__(self, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class WritableTxnMarkerTopicResult(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[WritableTxnMarkerPartitionResult] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class WritableTxnMarkerResult(ProtocolMessage):
    __slots__ = (
        "producer_id",
        "topics",
    )

    def __init__(self, producer_id: int = 0, topics: list[WritableTxnMarkerTopicResult] = NEW) -> None:
        self.producer_id = producer_id
        self.topics = [] if topics is NEW else topics


class WriteTxnMarkersResponse(ProtocolMessage):
    __slots__ = ("markers",)

    def __init__(self, markers: list[WritableTxnMarkerResult] = NEW) -> None:
        self.markers = [] if markers is NEW else markers
