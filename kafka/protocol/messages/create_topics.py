"""The messages of CreateTopics. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage


class CreatableReplicaAssignment(ProtocolMessage):
    __slots__ = ("broker_ids", "partition_index")

    def __init__(self, partition_index: int = 0, broker_ids: list[int] = NEW) -> None:
        self.partition_index = partition_index
        self.broker_ids = [] if broker_ids is NEW else broker_ids


class CreatableTopicConfig(ProtocolMessage):
    __slots__ = (
        "name",
        "value",
    )

    def __init__(self, name: str = "", value: str | None = "") -> None:
        self.name = name
        self.value = value


class CreatableTopic(ProtocolMessage):
    __slots__ = ("assignments", "configs", "name", "num_partitions", "replication_factor")

    def __init__(
        self,
        name: str = "",
        num_partitions: int = 0,
        replication_factor: int = 0,
        assignments: list[CreatableReplicaAssignment] = NEW,
        configs: list[CreatableTopicConfig] = NEW,
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.assignments = [] if assignments is NEW else assignments
        self.configs = [] if configs is NEW else configs


class CreateTopicsRequest(ProtocolMessage):
    __slots__ = ("timeout_ms", "topics", "validate_only")

    def __init__(
        self, topics: list[CreatableTopic] = NEW, timeout_ms: int = 60000, validate_only: bool = False
    ) -> None:
        self.topics = [] if topics is NEW else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


class CreateableTopicConfig(ProtocolMessage):
    __slots__ = (
        "name",
        "value",
    )

    def __init__(self, name: str = "", value: str | None = "") -> None:
        self.name = name
        self.value = value


class CreatableTopicConfigs(ProtocolMessage):
    __slots__ = ("config_source", "is_sensitive", "name", "read_only", "value")

    def __init__(
        self,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive


class CreatableTopicResult(ProtocolMessage):
    __slots__ = (
        "configs",
        "error_code",
        "error_message",
        "name",
        "num_partitions",
        "replication_factor",
        "topic_config_error_code",
        "topic_id",
    )

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = NO_ID,
        error_code: int = 0,
        error_message: str | None = "",
        topic_config_error_code: int = 0,
        num_partitions: int = -1,
        replication_factor: int = -1,
        configs: list[CreatableTopicConfigs] | None = NEW,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message
        self.topic_config_error_code = topic_config_error_code
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.configs = [] if configs is NEW else configs


class CreateTopicsResponse(ProtocolMessage):
    __slots__ = (
        "throttle_time_ms",
        "topics",
    )

    def __init__(self, throttle_time_ms: int = 0, topics: list[CreatableTopicResult] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW else topics
