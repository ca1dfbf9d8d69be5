"""The messages of ConsumerGroupDescribe. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage


class ConsumerGroupDescribeRequest(ProtocolMessage):
    __slots__ = (
        "group_ids",
        "include_authorized_operations",
    )

    def __init__(self, group_ids: list[str] = NEW, include_authorized_operations: bool = False) -> None:
        self.group_ids = [] if group_ids is NEW else group_ids
        self.include_authorized_operations = include_authorized_operations


class ConsumerGroupDescribeResponseTopicPartitions(ProtocolMessage):
    __slots__ = ("partitions", "topic_id", "topic_name")

    def __init__(self, topic_id: bytes = NO_ID, topic_name: str = "", partitions: list[int] = NEW) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions


class ConsumerGroupDescribeResponseAssignment(ProtocolMessage):
    __slots__ = ("topic_partitions",)

    def __init__(self, topic_partitions: list[ConsumerGroupDescribeResponseTopicPartitions] = NEW) -> None:
        self.topic_partitions = [] if topic_partitions is NEW else topic_partitions


class ConsumerGroupDescribeResponseMember(ProtocolMessage):
    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "member_epoch",
        "member_id",
        "member_type",
        "rack_id",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "target_assignment",
    )

    def __init__(
        self,
        member_id: str = "",
        instance_id: str | None = None,
        rack_id: str | None = None,
        member_epoch: int = 0,
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] = NEW,
        subscribed_topic_regex: str | None = None,
        assignment: ConsumerGroupDescribeResponseAssignment = NEW,
        target_assignment: ConsumerGroupDescribeResponseAssignment = NEW,
        member_type: int = -1,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.member_epoch = member_epoch
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = [] if subscribed_topic_names is NEW else subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.assignment = ConsumerGroupDescribeResponseAssignment() if assignment is NEW else assignment
        self.target_assignment = (
            ConsumerGroupDescribeResponseAssignment() if target_assignment is NEW else target_assignment
        )
        self.member_type = member_type


class ConsumerGroupDescribeResponseDescribedGroup(ProtocolMessage):
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
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        assignor_name: str = "",
        members: list[ConsumerGroupDescribeResponseMember] = NEW,
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.assignor_name = assignor_name
        self.members = [] if members is NEW else members
        self.authorized_operations = authorized_operations


class ConsumerGroupDescribeResponse(ProtocolMessage):
    __slots__ = ("groups", "throttle_time_ms")

    def __init__(
        self, throttle_time_ms: int = 0, groups: list[ConsumerGroupDescribeResponseDescribedGroup] = NEW
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is NEW else groups
