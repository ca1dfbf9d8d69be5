"""The messages of AssignReplicasToDirs. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage


class AssignReplicasToDirsRequestPartitionData(ProtocolMessage):
    __slots__ = ("partition_index",)

    def __init__(self, partition_index: int = 0) -> None:
        self.partition_index = partition_index


class AssignReplicasToDirsRequestTopicData(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(
        self, topic_id: bytes = NO_ID, partitions: list[AssignReplicasToDirsRequestPartitionData] = NEW
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class AssignReplicasToDirsRequestDirectoryData(ProtocolMessage):
    __slots__ = (
        "id",
        "topics",
    )

    def __init__(self, id: bytes = NO_ID, topics: list[AssignReplicasToDirsRequestTopicData] = NEW) -> None:
        self.id = id
        self.topics = [] if topics is NEW else topics


class AssignReplicasToDirsRequest(ProtocolMessage):
    __slots__ = ("broker_epoch", "broker_id", "directories")

    def __init__(
        self,
        broker_id: int = 0,
        broker_epoch: int = -1,
        directories: list[AssignReplicasToDirsRequestDirectoryData] = NEW,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.directories = [] if directories is NEW else directories


class AssignReplicasToDirsResponsePartitionData(ProtocolMessage):
    __slots__ = ("error_code", "partition_index")

    def __init__(self, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class AssignReplicasToDirsResponseTopicData(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(
        self, topic_id: bytes = NO_ID, partitions: list[AssignReplicasToDirsResponsePartitionData] = NEW
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class AssignReplicasToDirsResponseDirectoryData(ProtocolMessage):
    __slots__ = (
        "id",
        "topics",
    )

    def __init__(self, id: bytes = NO_ID, topics: list[AssignReplicasToDirsResponseTopicData] = NEW) -> None:
        self.id = id
        self.topics = [] if topics is NEW else topics


class AssignReplicasToDirsResponse(ProtocolMessage):
    __slots__ = ("directories", "error_code", "throttle_time_ms")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        directories: list[AssignReplicasToDirsResponseDirectoryData] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.directories = [] if directories is NEW else directories
