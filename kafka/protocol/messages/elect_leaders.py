"""The messages of ElectLeaders. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class ElectLeadersRequestTopicPartitions(ProtocolMessage):
    __slots__ = ("partitions", "topic")

    def __init__(self, topic: str = "", partitions: list[int] = NEW) -> None:
        self.topic = topic
        self.partitions = [] if partitions is NEW else partitions


class ElectLeadersRequest(ProtocolMessage):
    __slots__ = ("election_type", "timeout_ms", "topic_partitions")

    def __init__(
        self,
        election_type: int = 0,
        topic_partitions: list[ElectLeadersRequestTopicPartitions] | None = NEW,
        timeout_ms: int = 60000,
    ) -> None:
        self.election_type = election_type
        self.topic_partitions = [] if topic_partitions is NEW else topic_partitions
        self.timeout_ms = timeout_ms


class ElectLeadersResponsePartitionResult(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "partition_id")

    def __init__(self, partition_id: int = 0, error_code: int = 0, error_message: str | None = "") -> None:
        self.partition_id = partition_id
        self.error_code = error_code
        self.error_message = error_message


class ReplicaElectionResult(ProtocolMessage):
    __slots__ = ("partition_result", "topic")

    def __init__(self, topic: str = "", partition_result: list[ElectLeadersResponsePartitionResult] = NEW) -> None:
        self.topic = topic
        self.partition_result = [] if partition_result is NEW else partition_result


class ElectLeadersResponse(ProtocolMessage):
    __slots__ = ("error_code", "replica_election_results", "throttle_time_ms")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        replica_election_results: list[ReplicaElectionResult] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.replica_election_results = [] if replica_election_results is NEW else replica_election_results
