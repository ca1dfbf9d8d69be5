"""The messages of DescribeShareGroupOffsets. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage


class DescribeShareGroupOffsetsRequestTopic(ProtocolMessage):
    __slots__ = ("partitions", "topic_name")

    def __init__(self, topic_name: str = "", partitions: list[int] = NEW) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions


class DescribeShareGroupOffsetsRequestGroup(ProtocolMessage):
    __slots__ = (
        "group_id",
        "topics",
    )

    def __init__(self, group_id: str = "", topics: list[DescribeShareGroupOffsetsRequestTopic] | None = NEW) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW else topics


class DescribeShareGroupOffsetsRequest(ProtocolMessage):
    __slots__ = ("groups",)

    def __init__(self, groups: list[DescribeShareGroupOffsetsRequestGroup] = NEW) -> None:
        self.groups = [] if groups is NEW else groups


class DescribeShareGroupOffsetsResponsePartition(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "lag", "leader_epoch", "partition_index", "start_offset")

    def __init__(
        self,
        partition_index: int = 0,
        start_offset: int = 0,
        leader_epoch: int = 0,
        lag: int = -1,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.start_offset = start_offset
        self.leader_epoch = leader_epoch
        self.lag = lag
        self.error_code = error_code
        self.error_message = error_message


class DescribeShareGroupOffsetsResponseTopic(ProtocolMessage):
    __slots__ = ("partitions", "topic_id", "topic_name")

    def __init__(
        self,
        topic_name: str = "",
        topic_id: bytes = NO_ID,
        partitions: list[DescribeShareGroupOffsetsResponsePartition] = NEW,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class DescribeShareGroupOffsetsResponseGroup(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "group_id", "topics")

    def __init__(
        self,
        group_id: str = "",
        topics: list[DescribeShareGroupOffsetsResponseTopic] = NEW,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW else topics
        self.error_code = error_code
        self.error_message = error_message


class DescribeShareGroupOffsetsResponse(ProtocolMessage):
    __slots__ = ("groups", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, groups: list[DescribeShareGroupOffsetsResponseGroup] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is NEW else groups
