"""The messages of Produce. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage, Records


class PartitionProduceData(ProtocolMessage):
    __slots__ = (
        "index",
        "records",
    )

    def __init__(self, index: int = 0, records: Records | None = None) -> None:
        self.index = index
        self.records = records


class TopicProduceData(ProtocolMessage):
    __slots__ = ("name", "partition_data", "topic_id")

    def __init__(
        self, name: str = "", topic_id: bytes = NO_ID, partition_data: list[PartitionProduceData] = NEW
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_data = [] if partition_data is NEW else partition_data


class ProduceRequest(ProtocolMessage):
    __slots__ = ("acks", "timeout_ms", "topic_data", "transactional_id")

    def __init__(
        self,
        transactional_id: str | None = None,
        acks: int = 0,
        timeout_ms: int = 0,
        topic_data: list[TopicProduceData] = NEW,
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_data = [] if topic_data is NEW else topic_data


class BatchIndexAndErrorMessage(ProtocolMessage):
    __slots__ = (
        "batch_index",
        "batch_index_error_message",
    )

    def __init__(self, batch_index: int = 0, batch_index_error_message: str | None = None) -> None:
        self.batch_index = batch_index
        self.batch_index_error_message = batch_index_error_message


class ProduceResponseLeaderIdAndEpoch(ProtocolMessage):
    __slots__ = ("leader_epoch", "leader_id")

    def __init__(self, leader_id: int = -1, leader_epoch: int = -1) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class PartitionProduceResponse(ProtocolMessage):
    __slots__ = (
        "base_offset",
        "current_leader",
        "error_code",
        "error_message",
        "index",
        "log_append_time_ms",
        "log_start_offset",
        "record_errors",
    )

    def __init__(
        self,
        index: int = 0,
        error_code: int = 0,
        base_offset: int = 0,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        record_errors: list[BatchIndexAndErrorMessage] = NEW,
        error_message: str | None = None,
        current_leader: ProduceResponseLeaderIdAndEpoch = NEW,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors = [] if record_errors is NEW else record_errors
        self.error_message = error_message
        self.current_leader = ProduceResponseLeaderIdAndEpoch() if current_leader is NEW else current_leader


class TopicProduceResponse(ProtocolMessage):
    __slots__ = ("name", "partition_responses", "topic_id")

    def __init__(
        self, name: str = "", topic_id: bytes = NO_ID, partition_responses: list[PartitionProduceResponse] = NEW
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_responses = [] if partition_responses is NEW else partition_responses


class ProduceResponseNodeEndpoint(ProtocolMessage):
    __slots__ = ("host", "node_id", "port", "rack")

    def __init__(self, node_id: int = 0, host: str = "", port: int = 0, rack: str | None = None) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class ProduceResponse(ProtocolMessage):
    __slots__ = ("node_endpoints", "responses", "throttle_time_ms")

    def __init__(
        self,
        responses: list[TopicProduceResponse] = NEW,
        throttle_time_ms: int = 0,
        node_endpoints: list[ProduceResponseNodeEndpoint] = NEW,
    ) -> None:
        self.responses = [] if responses is NEW else responses
        self.throttle_time_ms = throttle_time_ms
        self.node_endpoints = [] if node_endpoints is NEW else node_endpoints
