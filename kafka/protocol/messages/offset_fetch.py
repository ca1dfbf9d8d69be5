"""The messages of OffsetFetch. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage


class OffsetFetchRequestTopic(ProtocolMessage):
    __slots__ = (
        "name",
        "partition_indexes",
    )

    def __init__(self, name: str = "", partition_indexes: list[int] = NEW) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is NEW else partition_indexes


class OffsetFetchRequestTopics(ProtocolMessage):
    __slots__ = ("name", "partition_indexes", "topic_id")

    def __init__(self, name: str = "", topic_id: bytes = NO_ID, partition_indexes: list[int] = NEW) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_indexes = [] if partition_indexes is NEW else partition_indexes


class OffsetFetchRequestGroup(ProtocolMessage):
    __slots__ = ("group_id", "member_epoch", "member_id", "topics")

    def __init__(
        self,
        group_id: str = "",
        member_id: str | None = None,
        member_epoch: int = -1,
        topics: list[OffsetFetchRequestTopics] | None = NEW,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.topics = [] if topics is NEW else topics


class OffsetFetchRequest(ProtocolMessage):
    __slots__ = ("group_id", "groups", "require_stable", "topics")

    def __init__(
        self,
        group_id: str = "",
        topics: list[OffsetFetchRequestTopic] | None = NEW,
        groups: list[OffsetFetchRequestGroup] = NEW,
        require_stable: bool = False,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW else topics
        self.groups = [] if groups is NEW else groups
        self.require_stable = require_stable


class OffsetFetchResponsePartition(ProtocolMessage):
    __slots__ = ("committed_leader_epoch", "committed_offset", "error_code", "metadata", "partition_index")

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code


class OffsetFetchResponseTopic(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[OffsetFetchResponsePartition] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class OffsetFetchResponsePartitions(ProtocolMessage):
    __slots__ = ("committed_leader_epoch", "committed_offset", "error_code", "metadata", "partition_index")

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code


class OffsetFetchResponseTopics(ProtocolMessage):
    __slots__ = ("name", "partitions", "topic_id")

    def __init__(
        self, name: str = "", topic_id: bytes = NO_ID, partitions: list[OffsetFetchResponsePartitions] = NEW
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class OffsetFetchResponseGroup(ProtocolMessage):
    __slots__ = ("error_code", "group_id", "topics")

    def __init__(self, group_id: str = "", topics: list[OffsetFetchResponseTopics] = NEW, error_code: int = 0) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW else topics
        self.error_code = error_code


class OffsetFetchResponse(ProtocolMessage):
    __slots__ = ("error_code", "groups", "throttle_time_ms", "topics")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[OffsetFetchResponseTopic] = NEW,
        error_code: int = 0,
        groups: list[OffsetFetchResponseGroup] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW else topics
        self.error_code = error_code
        self.groups = [] if groups is NEW else groups
