"""The messages of StreamsGroupHeartbeat. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class StreamsGroupHeartbeatRequestKeyValue(ProtocolMessage):
    __slots__ = (
        "key",
        "value",
    )

    def __init__(self, key: str = "", value: str = "") -> None:
        self.key = key
        self.value = value


class StreamsGroupHeartbeatRequestTopicInfo(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
        "replication_factor",
        "topic_configs",
    )

    def __init__(
        self,
        name: str = "",
        partitions: int = 0,
        replication_factor: int = 0,
        topic_configs: list[StreamsGroupHeartbeatRequestKeyValue] = NEW,
    ) -> None:
        self.name = name
        self.partitions = partitions
        self.replication_factor = replication_factor
        self.topic_configs = [] if topic_configs is NEW else topic_configs


class StreamsGroupHeartbeatRequestCopartitionGroup(ProtocolMessage):
    __slots__ = ("repartition_source_topics", "source_topic_regex", "source_topics")

    def __init__(
        self,
        source_topics: list[int] = NEW,
        source_topic_regex: list[int] = NEW,
        repartition_source_topics: list[int] = NEW,
    ) -> None:
        self.source_topics = [] if source_topics is NEW else source_topics
        self.source_topic_regex = [] if source_topic_regex is NEW else source_topic_regex
        self.repartition_source_topics = [] if repartition_source_topics is NEW else repartition_source_topics


class StreamsGroupHeartbeatRequestSubtopology(ProtocolMessage):
    __slots__ = (
        "copartition_groups",
        "repartition_sink_topics",
        "repartition_source_topics",
        "source_topic_regex",
        "source_topics",
        "state_changelog_topics",
        "subtopology_id",
    )

    def __init__(
        self,
        subtopology_id: str = "",
        source_topics: list[str] = NEW,
        source_topic_regex: list[str] = NEW,
        state_changelog_topics: list[StreamsGroupHeartbeatRequestTopicInfo] = NEW,
        repartition_sink_topics: list[str] = NEW,
        repartition_source_topics: list[StreamsGroupHeartbeatRequestTopicInfo] = NEW,
        copartition_groups: list[StreamsGroupHeartbeatRequestCopartitionGroup] = NEW,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics = [] if source_topics is NEW else source_topics
        self.source_topic_regex = [] if source_topic_regex is NEW else source_topic_regex
        self.state_changelog_topics = [] if state_changelog_topics is NEW else state_changelog_topics
        self.repartition_sink_topics = [] if repartition_sink_topics is NEW else repartition_sink_topics
        self.repartition_source_topics = [] if repartition_source_topics is NEW else repartition_source_topics
        self.copartition_groups = [] if copartition_groups is NEW else copartition_groups


class StreamsGroupHeartbeatRequestTopology(ProtocolMessage):
    __slots__ = (
        "epoch",
        "subtopologies",
    )

    def __init__(self, epoch: int = 0, subtopologies: list[StreamsGroupHeartbeatRequestSubtopology] = NEW) -> None:
        self.epoch = epoch
        self.subtopologies = [] if subtopologies is NEW else subtopologies


class StreamsGroupHeartbeatRequestTaskIds(ProtocolMessage):
    __slots__ = ("partitions", "subtopology_id")

    def __init__(self, subtopology_id: str = "", partitions: list[int] = NEW) -> None:
        self.subtopology_id = subtopology_id
        self.partitions = [] if partitions is NEW else partitions


class StreamsGroupHeartbeatRequestEndpoint(ProtocolMessage):
    __slots__ = (
        "host",
        "port",
    )

    def __init__(self, host: str = "", port: int = 0) -> None:
        self.host = host
        self.port = port


class StreamsGroupHeartbeatRequestTaskOffset(ProtocolMessage):
    __slots__ = ("offset", "partition", "subtopology_id")

    def __init__(self, subtopology_id: str = "", partition: int = 0, offset: int = 0) -> None:
        self.subtopology_id = subtopology_id
        self.partition = partition
        self.offset = offset


class StreamsGroupHeartbeatRequest(ProtocolMessage):
    __slots__ = (
        "active_tasks",
        "client_tags",
        "endpoint_information_epoch",
        "group_id",
        "instance_id",
        "member_epoch",
        "member_id",
        "process_id",
        "rack_id",
        "rebalance_timeout_ms",
        "shutdown_application",
        "standby_tasks",
        "task_end_offsets",
        "task_offsets",
        "topology",
        "user_endpoint",
        "warmup_tasks",
    )

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        endpoint_information_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        topology: StreamsGroupHeartbeatRequestTopology | None = None,
        active_tasks: list[StreamsGroupHeartbeatRequestTaskIds] | None = None,
        standby_tasks: list[StreamsGroupHeartbeatRequestTaskIds] | None = None,
        warmup_tasks: list[StreamsGroupHeartbeatRequestTaskIds] | None = None,
        process_id: str | None = None,
        user_endpoint: StreamsGroupHeartbeatRequestEndpoint | None = None,
        client_tags: list[StreamsGroupHeartbeatRequestKeyValue] | None = None,
        task_offsets: list[StreamsGroupHeartbeatRequestTaskOffset] | None = None,
        task_end_offsets: list[StreamsGroupHeartbeatRequestTaskOffset] | None = None,
        shutdown_application: bool = False,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.endpoint_information_epoch = endpoint_information_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.topology = topology
        self.active_tasks = active_tasks
        self.standby_tasks = standby_tasks
        self.warmup_tasks = warmup_tasks
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags = client_tags
        self.task_offsets = task_offsets
        self.task_end_offsets = task_end_offsets
        self.shutdown_application = shutdown_application


class Status(ProtocolMessage):
    __slots__ = (
        "status_code",
        "status_detail",
    )

    def __init__(self, status_code: int = 0, status_detail: str = "") -> None:
        self.status_code = status_code
        self.status_detail = status_detail


class StreamsGroupHeartbeatResponseTaskIds(ProtocolMessage):
    __slots__ = ("partitions", "subtopology_id")

    def __init__(self, subtopology_id: str = "", partitions: list[int] = NEW) -> None:
        self.subtopology_id = subtopology_id
        self.partitions = [] if partitions is NEW else partitions


class StreamsGroupHeartbeatResponseEndpoint(ProtocolMessage):
    __slots__ = (
        "host",
        "port",
    )

    def __init__(self, host: str = "", port: int = 0) -> None:
        self.host = host
        self.port = port


class StreamsGroupHeartbeatResponseTopicPartition(ProtocolMessage):
    __slots__ = ("partitions", "topic")

    def __init__(self, topic: str = "", partitions: list[int] = NEW) -> None:
        self.topic = topic
        self.partitions = [] if partitions is NEW else partitions


class EndpointToPartitions(ProtocolMessage):
    __slots__ = ("active_partitions", "standby_partitions", "user_endpoint")

    def __init__(
        self,
        user_endpoint: StreamsGroupHeartbeatResponseEndpoint = NEW,
        active_partitions: list[StreamsGroupHeartbeatResponseTopicPartition] = NEW,
        standby_partitions: list[StreamsGroupHeartbeatResponseTopicPartition] = NEW,
    ) -> None:
        self.user_endpoint = StreamsGroupHeartbeatResponseEndpoint() if user_endpoint is NEW else user_endpoint
        self.active_partitions = [] if active_partitions is NEW else active_partitions
        self.standby_partitions = [] if standby_partitions is NEW else standby_partitions


class StreamsGroupHeartbeatResponse(ProtocolMessage):
    __slots__ = (
        "acceptable_recovery_lag",
        "acceptable_recovery_lag_legacy",
        "active_tasks",
        "endpoint_information_epoch",
        "error_code",
        "error_message",
        "heartbeat_interval_ms",
        "member_epoch",
        "member_id",
        "partitions_by_user_endpoint",
        "standby_tasks",
        "status",
        "task_offset_interval_ms",
        "throttle_time_ms",
        "topology_description_required",
        "warmup_tasks",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str = "",
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        acceptable_recovery_lag_legacy: int = 0,
        task_offset_interval_ms: int = 0,
        acceptable_recovery_lag: int = -1,
        status: list[Status] | None = NEW,
        active_tasks: list[StreamsGroupHeartbeatResponseTaskIds] | None = None,
        standby_tasks: list[StreamsGroupHeartbeatResponseTaskIds] | None = None,
        warmup_tasks: list[StreamsGroupHeartbeatResponseTaskIds] | None = None,
        topology_description_required: bool = False,
        endpoint_information_epoch: int = 0,
        partitions_by_user_endpoint: list[EndpointToPartitions] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.acceptable_recovery_lag_legacy = acceptable_recovery_lag_legacy
        self.task_offset_interval_ms = task_offset_interval_ms
        self.acceptable_recovery_lag = acceptable_recovery_lag
        self.status = [] if status is NEW else status
        self.active_tasks = active_tasks
        self.standby_tasks = standby_tasks
        self.warmup_tasks = warmup_tasks
        self.topology_description_required = topology_description_required
        self.endpoint_information_epoch = endpoint_information_epoch
        self.partitions_by_user_endpoint = partitions_by_user_endpoint
