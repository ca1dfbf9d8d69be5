"""The messages of StreamsGroupDescribe. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class StreamsGroupDescribeRequest(ProtocolMessage):
    __slots__ = (
        "group_ids",
        "include_authorized_operations",
        "include_topology_description",
    )

    def __init__(
        self,
        group_ids: list[str] = NEW,
        include_authorized_operations: bool = False,
        include_topology_description: bool = False,
    ) -> None:
        self.group_ids = [] if group_ids is NEW else group_ids
        self.include_authorized_operations = include_authorized_operations
        self.include_topology_description = include_topology_description


class StreamsGroupDescribeResponseKeyValue(ProtocolMessage):
    __slots__ = (
        "key",
        "value",
    )

    def __init__(self, key: str = "", value: str = "") -> None:
        self.key = key
        self.value = value


class StreamsGroupDescribeResponseTopicInfo(ProtocolMessage):
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
        topic_configs: list[StreamsGroupDescribeResponseKeyValue] = NEW,
    ) -> None:
        self.name = name
        self.partitions = partitions
        self.replication_factor = replication_factor
        self.topic_configs = [] if topic_configs is NEW else topic_configs


class StreamsGroupDescribeResponseSubtopology(ProtocolMessage):
    __slots__ = (
        "repartition_sink_topics",
        "repartition_source_topics",
        "source_topics",
        "state_changelog_topics",
        "subtopology_id",
    )

    def __init__(
        self,
        subtopology_id: str = "",
        source_topics: list[str] = NEW,
        repartition_sink_topics: list[str] = NEW,
        state_changelog_topics: list[StreamsGroupDescribeResponseTopicInfo] = NEW,
        repartition_source_topics: list[StreamsGroupDescribeResponseTopicInfo] = NEW,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics = [] if source_topics is NEW else source_topics
        self.repartition_sink_topics = [] if repartition_sink_topics is NEW else repartition_sink_topics
        self.state_changelog_topics = [] if state_changelog_topics is NEW else state_changelog_topics
        self.repartition_source_topics = [] if repartition_source_topics is NEW else repartition_source_topics


class StreamsGroupDescribeResponseTopology(ProtocolMessage):
    __slots__ = (
        "epoch",
        "subtopologies",
    )

    def __init__(
        self, epoch: int = 0, subtopologies: list[StreamsGroupDescribeResponseSubtopology] | None = None
    ) -> None:
        self.epoch = epoch
        self.subtopologies = subtopologies


class StreamsGroupDescribeResponseEndpoint(ProtocolMessage):
    __slots__ = (
        "host",
        "port",
    )

    def __init__(self, host: str = "", port: int = 0) -> None:
        self.host = host
        self.port = port


class StreamsGroupDescribeResponseTaskOffset(ProtocolMessage):
    __slots__ = ("offset", "partition", "subtopology_id")

    def __init__(self, subtopology_id: str = "", partition: int = 0, offset: int = 0) -> None:
        self.subtopology_id = subtopology_id
        self.partition = partition
        self.offset = offset


class StreamsGroupDescribeResponseTaskIds(ProtocolMessage):
    __slots__ = ("partitions", "subtopology_id")

    def __init__(self, subtopology_id: str = "", partitions: list[int] = NEW) -> None:
        self.subtopology_id = subtopology_id
        self.partitions = [] if partitions is NEW else partitions


class StreamsGroupDescribeResponseAssignment(ProtocolMessage):
    __slots__ = (
        "active_tasks",
        "standby_tasks",
        "warmup_tasks",
    )

    def __init__(
        self,
        active_tasks: list[StreamsGroupDescribeResponseTaskIds] = NEW,
        standby_tasks: list[StreamsGroupDescribeResponseTaskIds] = NEW,
        warmup_tasks: list[StreamsGroupDescribeResponseTaskIds] = NEW,
    ) -> None:
        self.active_tasks = [] if active_tasks is NEW else active_tasks
        self.standby_tasks = [] if standby_tasks is NEW else standby_tasks
        self.warmup_tasks = [] if warmup_tasks is NEW else warmup_tasks


class StreamsGroupDescribeResponseMember(ProtocolMessage):
    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "client_tags",
        "instance_id",
        "is_classic",
        "member_epoch",
        "member_id",
        "process_id",
        "rack_id",
        "target_assignment",
        "task_end_offsets",
        "task_offsets",
        "topology_epoch",
        "user_endpoint",
    )

    def __init__(
        self,
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        topology_epoch: int = 0,
        process_id: str = "",
        user_endpoint: StreamsGroupDescribeResponseEndpoint | None = None,
        client_tags: list[StreamsGroupDescribeResponseKeyValue] = NEW,
        task_offsets: list[StreamsGroupDescribeResponseTaskOffset] = NEW,
        task_end_offsets: list[StreamsGroupDescribeResponseTaskOffset] = NEW,
        assignment: StreamsGroupDescribeResponseAssignment = NEW,
        target_assignment: StreamsGroupDescribeResponseAssignment = NEW,
        is_classic: bool = False,
    ) -> None:
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.topology_epoch = topology_epoch
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags = [] if client_tags is NEW else client_tags
        self.task_offsets = [] if task_offsets is NEW else task_offsets
        self.task_end_offsets = [] if task_end_offsets is NEW else task_end_offsets
        self.assignment = StreamsGroupDescribeResponseAssignment() if assignment is NEW else assignment
        self.target_assignment = (
            StreamsGroupDescribeResponseAssignment() if target_assignment is NEW else target_assignment
        )
        self.is_classic = is_classic


class StreamsGroupDescribeResponseTopologyDescriptionNode(ProtocolMessage):
    __slots__ = ("name", "node_type", "sink_topic", "source_topics", "stores", "successors")

    def __init__(
        self,
        name: str = "",
        node_type: int = 0,
        source_topics: list[str] = NEW,
        sink_topic: str | None = None,
        stores: list[str] = NEW,
        successors: list[str] = NEW,
    ) -> None:
        self.name = name
        self.node_type = node_type
        self.source_topics = [] if source_topics is NEW else source_topics
        self.sink_topic = sink_topic
        self.stores = [] if stores is NEW else stores
        self.successors = [] if successors is NEW else successors


class StreamsGroupDescribeResponseTopologyDescriptionSubtopology(ProtocolMessage):
    __slots__ = ("nodes", "subtopology_id")

    def __init__(
        self, subtopology_id: str = "", nodes: list[StreamsGroupDescribeResponseTopologyDescriptionNode] = NEW
    ) -> None:
        self.subtopology_id = subtopology_id
        self.nodes = [] if nodes is NEW else nodes


class StreamsGroupDescribeResponseTopologyDescriptionGlobalStore(ProtocolMessage):
    __slots__ = ("processor", "source")

    def __init__(
        self,
        source: StreamsGroupDescribeResponseTopologyDescriptionNode = NEW,
        processor: StreamsGroupDescribeResponseTopologyDescriptionNode = NEW,
    ) -> None:
        self.source = StreamsGroupDescribeResponseTopologyDescriptionNode() if source is NEW else source
        self.processor = StreamsGroupDescribeResponseTopologyDescriptionNode() if processor is NEW else processor


class StreamsGroupDescribeResponseTopologyDescription(ProtocolMessage):
    __slots__ = ("global_stores", "subtopologies")

    def __init__(
        self,
        subtopologies: list[StreamsGroupDescribeResponseTopologyDescriptionSubtopology] = NEW,
        global_stores: list[StreamsGroupDescribeResponseTopologyDescriptionGlobalStore] = NEW,
    ) -> None:
        self.subtopologies = [] if subtopologies is NEW else subtopologies
        self.global_stores = [] if global_stores is NEW else global_stores


class StreamsGroupDescribeResponseDescribedGroup(ProtocolMessage):
    __slots__ = (
        "assignment_epoch",
        "assignor_name",
        "authorized_operations",
        "error_code",
        "error_message",
        "group_epoch",
        "group_id",
        "group_state",
        "members",
        "topology",
        "topology_description",
        "topology_description_status",
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        topology: StreamsGroupDescribeResponseTopology | None = None,
        members: list[StreamsGroupDescribeResponseMember] = NEW,
        authorized_operations: int = -2147483648,
        topology_description: StreamsGroupDescribeResponseTopologyDescription | None = None,
        topology_description_status: int = 0,
        assignor_name: str | None = None,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.topology = topology
        self.members = [] if members is NEW else members
        self.authorized_operations = authorized_operations
        self.topology_description = topology_description
        self.topology_description_status = topology_description_status
        self.assignor_name = assignor_name


class StreamsGroupDescribeResponse(ProtocolMessage):
    __slots__ = ("groups", "throttle_time_ms")

    def __init__(
        self, throttle_time_ms: int = 0, groups: list[StreamsGroupDescribeResponseDescribedGroup] = NEW
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is NEW else groups
