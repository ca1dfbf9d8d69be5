"""The messages of AlterReplicaLogDirs. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class AlterReplicaLogDirTopic(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[int] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class AlterReplicaLogDir(ProtocolMessage):
    __slots__ = (
        "path",
        "topics",
    )

    def __init__(self, path: str = "", topics: list[AlterReplicaLogDirTopic] = NEW) -> None:
        self.path = path
        self.topics = [] if topics is NEW else topics


class AlterReplicaLogDirsRequest(ProtocolMessage):
    __slots__ = ("dirs",)

    def __init__(self, dirs: list[AlterReplicaLogDir] = NEW) -> None:
        self.dirs = [] if dirs is NEW else dirs


class AlterReplicaLogDirPartitionResult(ProtocolMessage):
    __slots__ = ("error_code", "partition_index")

    def __init__(self, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class AlterReplicaLogDirTopicResult(ProtocolMessage):
    __slots__ = ("partitions", "topic_name")

    def __init__(self, topic_name: str = "", partitions: list[AlterReplicaLogDirPartitionResult] = NEW) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions


class AlterReplicaLogDirsResponse(ProtocolMessage):
    __slots__ = ("results", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, results: list[AlterReplicaLogDirTopicResult] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is NEW else results
