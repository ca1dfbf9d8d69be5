"""The keys and values of records in Kafka's internal topics. `scripts/protocol-schemas` writes this file.

They are those of coordinators, control records, and what clients add to the records of groups. A field that a version
does not have keeps its default. Ids have 16 bytes.
"""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage


class AbortedTxn(ProtocolMessage):
    __slots__ = ("first_offset", "last_offset", "last_stable_offset", "producer_id")

    def __init__(
        self, producer_id: int = 0, first_offset: int = 0, last_offset: int = 0, last_stable_offset: int = 0
    ) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.last_stable_offset = last_stable_offset


class ConsumerGroupCurrentMemberAssignmentKey(ProtocolMessage):
    __slots__ = (
        "group_id",
        "member_id",
    )

    def __init__(self, group_id: str = "", member_id: str = "") -> None:
        self.group_id = group_id
        self.member_id = member_id


class ConsumerGroupCurrentMemberAssignmentValueTopicPartitions(ProtocolMessage):
    __slots__ = ("assignment_epochs", "partitions", "topic_id")

    def __init__(
        self, topic_id: bytes = NO_ID, partitions: list[int] = NEW, assignment_epochs: list[int] | None = NEW
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions
        self.assignment_epochs = [] if assignment_epochs is NEW else assignment_epochs


class ConsumerGroupCurrentMemberAssignmentValue(ProtocolMessage):
    __slots__ = (
        "assigned_partitions",
        "member_epoch",
        "partitions_pending_revocation",
        "previous_member_epoch",
        "state",
    )

    def __init__(
        self,
        member_epoch: int = 0,
        previous_member_epoch: int = 0,
        state: int = 0,
        assigned_partitions: list[ConsumerGroupCurrentMemberAssignmentValueTopicPartitions] = NEW,
        partitions_pending_revocation: list[ConsumerGroupCurrentMemberAssignmentValueTopicPartitions] = NEW,
    ) -> None:
        self.member_epoch = member_epoch
        self.previous_member_epoch = previous_member_epoch
        self.state = state
        self.assigned_partitions = [] if assigned_partitions is NEW else assigned_partitions
        self.partitions_pending_revocation = (
            [] if partitions_pending_revocation is NEW else partitions_pending_revocation
        )


class ConsumerGroupMemberMetadataKey(ProtocolMessage):
    __slots__ = (
        "group_id",
        "member_id",
    )

    def __init__(self, group_id: str = "", member_id: str = "") -> None:
        self.group_id = group_id
        self.member_id = member_id


class ClassicProtocol(ProtocolMessage):
    __slots__ = ("metadata", "name")

    def __init__(self, name: str = "", metadata: bytes = b"") -> None:
        self.name = name
        self.metadata = metadata


class ClassicMemberMetadata(ProtocolMessage):
    __slots__ = (
        "session_timeout_ms",
        "supported_protocols",
    )

    def __init__(self, session_timeout_ms: int = 0, supported_protocols: list[ClassicProtocol] = NEW) -> None:
        self.session_timeout_ms = session_timeout_ms
        self.supported_protocols = [] if supported_protocols is NEW else supported_protocols


class ConsumerGroupMemberMetadataValue(ProtocolMessage):
    __slots__ = (
        "classic_member_metadata",
        "client_host",
        "client_id",
        "instance_id",
        "rack_id",
        "rebalance_timeout_ms",
        "server_assignor",
        "subscribed_topic_names",
        "subscribed_topic_regex",
    )

    def __init__(
        self,
        instance_id: str | None = "",
        rack_id: str | None = "",
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] = NEW,
        subscribed_topic_regex: str | None = "",
        rebalance_timeout_ms: int = -1,
        server_assignor: str | None = "",
        classic_member_metadata: ClassicMemberMetadata | None = NEW,
    ) -> None:
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = [] if subscribed_topic_names is NEW else subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.server_assignor = server_assignor
        self.classic_member_metadata = (
            ClassicMemberMetadata() if classic_member_metadata is NEW else classic_member_metadata
        )


class ConsumerGroupMetadataKey(ProtocolMessage):
    __slots__ = ("group_id",)

    def __init__(self, group_id: str = "") -> None:
        self.group_id = group_id


class ConsumerGroupMetadataValue(ProtocolMessage):
    __slots__ = (
        "epoch",
        "metadata_hash",
    )

    def __init__(self, epoch: int = 0, metadata_hash: int = 0) -> None:
        self.epoch = epoch
        self.metadata_hash = metadata_hash


class ConsumerGroupPartitionMetadataKey(ProtocolMessage):
    __slots__ = ("group_id",)

    def __init__(self, group_id: str = "") -> None:
        self.group_id = group_id


class PartitionMetadata(ProtocolMessage):
    __slots__ = (
        "partition",
        "racks",
    )

    def __init__(self, partition: int = 0, racks: list[str] = NEW) -> None:
        self.partition = partition
        self.racks = [] if racks is NEW else racks


class TopicMetadata(ProtocolMessage):
    __slots__ = ("num_partitions", "partition_metadata", "topic_id", "topic_name")

    def __init__(
        self,
        topic_id: bytes = NO_ID,
        topic_name: str = "",
        num_partitions: int = 0,
        partition_metadata: list[PartitionMetadata] = NEW,
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.num_partitions = num_partitions
        self.partition_metadata = [] if partition_metadata is NEW else partition_metadata


class ConsumerGroupPartitionMetadataValue(ProtocolMessage):
    __slots__ = ("topics",)

    def __init__(self, topics: list[TopicMetadata] = NEW) -> None:
        self.topics = [] if topics is NEW else topics


class ConsumerGroupRegularExpressionKey(ProtocolMessage):
    __slots__ = (
        "group_id",
        "regular_expression",
    )

    def __init__(self, group_id: str = "", regular_expression: str = "") -> None:
        self.group_id = group_id
        self.regular_expression = regular_expression


class ConsumerGroupRegularExpressionValue(ProtocolMessage):
    __slots__ = ("timestamp", "topics", "version")

    def __init__(self, topics: list[str] = NEW, version: int = 0, timestamp: int = 0) -> None:
        self.topics = [] if topics is NEW else topics
        self.version = version
        self.timestamp = timestamp


class ConsumerGroupTargetAssignmentMemberKey(ProtocolMessage):
    __slots__ = (
        "group_id",
        "member_id",
    )

    def __init__(self, group_id: str = "", member_id: str = "") -> None:
        self.group_id = group_id
        self.member_id = member_id


class ConsumerGroupTargetAssignmentMemberValueTopicPartition(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(self, topic_id: bytes = NO_ID, partitions: list[int] = NEW) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class ConsumerGroupTargetAssignmentMemberValue(ProtocolMessage):
    __slots__ = ("topic_partitions",)

    def __init__(self, topic_partitions: list[ConsumerGroupTargetAssignmentMemberValueTopicPartition] = NEW) -> None:
        self.topic_partitions = [] if topic_partitions is NEW else topic_partitions


class ConsumerGroupTargetAssignmentMetadataKey(ProtocolMessage):
    __slots__ = ("group_id",)

    def __init__(self, group_id: str = "") -> None:
        self.group_id = group_id


class ConsumerGroupTargetAssignmentMetadataValue(ProtocolMessage):
    __slots__ = (
        "assignment_epoch",
        "assignment_timestamp",
    )

    def __init__(self, assignment_epoch: int = 0, assignment_timestamp: int = 0) -> None:
        self.assignment_epoch = assignment_epoch
        self.assignment_timestamp = assignment_timestamp


class ConsumerProtocolAssignmentTopicPartition(ProtocolMessage):
    __slots__ = ("partitions", "topic")

    def __init__(self, topic: str = "", partitions: list[int] = NEW) -> None:
        self.topic = topic
        self.partitions = [] if partitions is NEW else partitions


class ConsumerProtocolAssignment(ProtocolMessage):
    __slots__ = (
        "assigned_partitions",
        "user_data",
    )

    def __init__(
        self, assigned_partitions: list[ConsumerProtocolAssignmentTopicPartition] = NEW, user_data: bytes | None = None
    ) -> None:
        self.assigned_partitions = [] if assigned_partitions is NEW else assigned_partitions
        self.user_data = user_data


class ConsumerProtocolSubscriptionTopicPartition(ProtocolMessage):
    __slots__ = ("partitions", "topic")

    def __init__(self, topic: str = "", partitions: list[int] = NEW) -> None:
        self.topic = topic
        self.partitions = [] if partitions is NEW else partitions


class ConsumerProtocolSubscription(ProtocolMessage):
    __slots__ = ("generation_id", "owned_partitions", "rack_id", "topics", "user_data")

    def __init__(
        self,
        topics: list[str] = NEW,
        user_data: bytes | None = None,
        owned_partitions: list[ConsumerProtocolSubscriptionTopicPartition] = NEW,
        generation_id: int = -1,
        rack_id: str | None = None,
    ) -> None:
        self.topics = [] if topics is NEW else topics
        self.user_data = user_data
        self.owned_partitions = [] if owned_partitions is NEW else owned_partitions
        self.generation_id = generation_id
        self.rack_id = rack_id


class ControlRecordTypeSchema(ProtocolMessage):
    __slots__ = ("type",)

    def __init__(self, type: int = 0) -> None:
        self.type = type


class DefaultPrincipalData(ProtocolMessage):
    __slots__ = ("name", "token_authenticated", "type")

    def __init__(self, type: str = "", name: str = "", token_authenticated: bool = False) -> None:
        self.type = type
        self.name = name
        self.token_authenticated = token_authenticated


class EndTxnMarker(ProtocolMessage):
    __slots__ = ("coordinator_epoch",)

    def __init__(self, coordinator_epoch: int = 0) -> None:
        self.coordinator_epoch = coordinator_epoch


class GroupMetadataKey(ProtocolMessage):
    __slots__ = ("group",)

    def __init__(self, group: str = "") -> None:
        self.group = group


class MemberMetadata(ProtocolMessage):
    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "member_id",
        "rebalance_timeout",
        "session_timeout",
        "subscription",
    )

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        rebalance_timeout: int = -1,
        session_timeout: int = 0,
        subscription: bytes = b"",
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout = rebalance_timeout
        self.session_timeout = session_timeout
        self.subscription = subscription
        self.assignment = assignment


class GroupMetadataValue(ProtocolMessage):
    __slots__ = ("current_state_timestamp", "generation", "leader", "members", "protocol", "protocol_type")

    def __init__(
        self,
        protocol_type: str = "",
        generation: int = 0,
        protocol: str | None = "",
        leader: str | None = "",
        current_state_timestamp: int = -1,
        members: list[MemberMetadata] = NEW,
    ) -> None:
        self.protocol_type = protocol_type
        self.generation = generation
        self.protocol = protocol
        self.leader = leader
        self.current_state_timestamp = current_state_timestamp
        self.members = [] if members is NEW else members


class KRaftVersionRecord(ProtocolMessage):
    __slots__ = ("k_raft_version", "version")

    def __init__(self, version: int = 0, k_raft_version: int = 0) -> None:
        self.version = version
        self.k_raft_version = k_raft_version


class LeaderChangeMessageVoter(ProtocolMessage):
    __slots__ = ("voter_directory_id", "voter_id")

    def __init__(self, voter_id: int = 0, voter_directory_id: bytes = NO_ID) -> None:
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id


class LeaderChangeMessage(ProtocolMessage):
    __slots__ = ("granting_voters", "leader_id", "version", "voters")

    def __init__(
        self,
        version: int = 0,
        leader_id: int = 0,
        voters: list[LeaderChangeMessageVoter] = NEW,
        granting_voters: list[LeaderChangeMessageVoter] = NEW,
    ) -> None:
        self.version = version
        self.leader_id = leader_id
        self.voters = [] if voters is NEW else voters
        self.granting_voters = [] if granting_voters is NEW else granting_voters


class LegacyOffsetCommitKey(ProtocolMessage):
    __slots__ = ("group", "partition", "topic")

    def __init__(self, group: str = "", topic: str = "", partition: int = 0) -> None:
        self.group = group
        self.topic = topic
        self.partition = partition


class LegacyOffsetCommitValue(ProtocolMessage):
    __slots__ = ("commit_timestamp", "metadata", "offset")

    def __init__(self, offset: int = 0, metadata: str = "", commit_timestamp: int = 0) -> None:
        self.offset = offset
        self.metadata = metadata
        self.commit_timestamp = commit_timestamp


class OffsetCommitKey(ProtocolMessage):
    __slots__ = ("group", "partition", "topic")

    def __init__(self, group: str = "", topic: str = "", partition: int = 0) -> None:
        self.group = group
        self.topic = topic
        self.partition = partition


class OffsetCommitValue(ProtocolMessage):
    __slots__ = ("commit_timestamp", "expire_timestamp", "leader_epoch", "metadata", "offset", "topic_id")

    def __init__(
        self,
        offset: int = 0,
        leader_epoch: int = -1,
        metadata: str = "",
        commit_timestamp: int = 0,
        expire_timestamp: int = -1,
        topic_id: bytes = NO_ID,
    ) -> None:
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.metadata = metadata
        self.commit_timestamp = commit_timestamp
        self.expire_timestamp = expire_timestamp
        self.topic_id = topic_id


class RemoteLogSegmentMetadataRecordTopicIdPartitionEntry(ProtocolMessage):
    __slots__ = ("id", "name", "partition")

    def __init__(self, name: str = "", id: bytes = NO_ID, partition: int = 0) -> None:
        self.name = name
        self.id = id
        self.partition = partition


class RemoteLogSegmentMetadataRecordRemoteLogSegmentIdEntry(ProtocolMessage):
    __slots__ = ("id", "topic_id_partition")

    def __init__(
        self, topic_id_partition: RemoteLogSegmentMetadataRecordTopicIdPartitionEntry = NEW, id: bytes = NO_ID
    ) -> None:
        self.topic_id_partition = (
            RemoteLogSegmentMetadataRecordTopicIdPartitionEntry() if topic_id_partition is NEW else topic_id_partition
        )
        self.id = id


class RemoteLogSegmentMetadataRecordSegmentLeaderEpochEntry(ProtocolMessage):
    __slots__ = (
        "leader_epoch",
        "offset",
    )

    def __init__(self, leader_epoch: int = 0, offset: int = 0) -> None:
        self.leader_epoch = leader_epoch
        self.offset = offset


class RemoteLogSegmentMetadataRecord(ProtocolMessage):
    __slots__ = (
        "broker_id",
        "custom_metadata",
        "end_offset",
        "event_timestamp_ms",
        "max_timestamp_ms",
        "remote_log_segment_id",
        "remote_log_segment_state",
        "segment_leader_epochs",
        "segment_size_in_bytes",
        "start_offset",
        "txn_index_empty",
    )

    def __init__(
        self,
        remote_log_segment_id: RemoteLogSegmentMetadataRecordRemoteLogSegmentIdEntry = NEW,
        start_offset: int = 0,
        end_offset: int = 0,
        broker_id: int = 0,
        max_timestamp_ms: int = 0,
        event_timestamp_ms: int = 0,
        segment_leader_epochs: list[RemoteLogSegmentMetadataRecordSegmentLeaderEpochEntry] = NEW,
        segment_size_in_bytes: int = 0,
        custom_metadata: bytes | None = None,
        remote_log_segment_state: int = 0,
        txn_index_empty: bool = False,
    ) -> None:
        self.remote_log_segment_id = (
            RemoteLogSegmentMetadataRecordRemoteLogSegmentIdEntry()
            if remote_log_segment_id is NEW
            else remote_log_segment_id
        )
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.broker_id = broker_id
        self.max_timestamp_ms = max_timestamp_ms
        self.event_timestamp_ms = event_timestamp_ms
        self.segment_leader_epochs = [] if segment_leader_epochs is NEW else segment_leader_epochs
        self.segment_size_in_bytes = segment_size_in_bytes
        self.custom_metadata = custom_metadata
        self.remote_log_segment_state = remote_log_segment_state
        self.txn_index_empty = txn_index_empty


class RemoteLogSegmentMetadataSnapshotRecordSegmentLeaderEpochEntry(ProtocolMessage):
    __slots__ = (
        "leader_epoch",
        "offset",
    )

    def __init__(self, leader_epoch: int = 0, offset: int = 0) -> None:
        self.leader_epoch = leader_epoch
        self.offset = offset


class RemoteLogSegmentMetadataSnapshotRecord(ProtocolMessage):
    __slots__ = (
        "broker_id",
        "custom_metadata",
        "end_offset",
        "event_timestamp_ms",
        "max_timestamp_ms",
        "remote_log_segment_state",
        "segment_id",
        "segment_leader_epochs",
        "segment_size_in_bytes",
        "start_offset",
        "txn_index_empty",
    )

    def __init__(
        self,
        segment_id: bytes = NO_ID,
        start_offset: int = 0,
        end_offset: int = 0,
        broker_id: int = 0,
        max_timestamp_ms: int = 0,
        event_timestamp_ms: int = 0,
        segment_leader_epochs: list[RemoteLogSegmentMetadataSnapshotRecordSegmentLeaderEpochEntry] = NEW,
        segment_size_in_bytes: int = 0,
        custom_metadata: bytes | None = None,
        remote_log_segment_state: int = 0,
        txn_index_empty: bool = False,
    ) -> None:
        self.segment_id = segment_id
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.broker_id = broker_id
        self.max_timestamp_ms = max_timestamp_ms
        self.event_timestamp_ms = event_timestamp_ms
        self.segment_leader_epochs = [] if segment_leader_epochs is NEW else segment_leader_epochs
        self.segment_size_in_bytes = segment_size_in_bytes
        self.custom_metadata = custom_metadata
        self.remote_log_segment_state = remote_log_segment_state
        self.txn_index_empty = txn_index_empty


class RemoteLogSegmentMetadataUpdateRecordTopicIdPartitionEntry(ProtocolMessage):
    __slots__ = ("id", "name", "partition")

    def __init__(self, name: str = "", id: bytes = NO_ID, partition: int = 0) -> None:
        self.name = name
        self.id = id
        self.partition = partition


class RemoteLogSegmentMetadataUpdateRecordRemoteLogSegmentIdEntry(ProtocolMessage):
    __slots__ = ("id", "topic_id_partition")

    def __init__(
        self, topic_id_partition: RemoteLogSegmentMetadataUpdateRecordTopicIdPartitionEntry = NEW, id: bytes = NO_ID
    ) -> None:
        self.topic_id_partition = (
            RemoteLogSegmentMetadataUpdateRecordTopicIdPartitionEntry()
            if topic_id_partition is NEW
            else topic_id_partition
        )
        self.id = id


class RemoteLogSegmentMetadataUpdateRecord(ProtocolMessage):
    __slots__ = (
        "broker_id",
        "custom_metadata",
        "event_timestamp_ms",
        "remote_log_segment_id",
        "remote_log_segment_state",
    )

    def __init__(
        self,
        remote_log_segment_id: RemoteLogSegmentMetadataUpdateRecordRemoteLogSegmentIdEntry = NEW,
        broker_id: int = 0,
        event_timestamp_ms: int = 0,
        custom_metadata: bytes | None = None,
        remote_log_segment_state: int = 0,
    ) -> None:
        self.remote_log_segment_id = (
            RemoteLogSegmentMetadataUpdateRecordRemoteLogSegmentIdEntry()
            if remote_log_segment_id is NEW
            else remote_log_segment_id
        )
        self.broker_id = broker_id
        self.event_timestamp_ms = event_timestamp_ms
        self.custom_metadata = custom_metadata
        self.remote_log_segment_state = remote_log_segment_state


class RemotePartitionDeleteMetadataRecordTopicIdPartitionEntry(ProtocolMessage):
    __slots__ = ("id", "name", "partition")

    def __init__(self, name: str = "", id: bytes = NO_ID, partition: int = 0) -> None:
        self.name = name
        self.id = id
        self.partition = partition


class RemotePartitionDeleteMetadataRecord(ProtocolMessage):
    __slots__ = ("broker_id", "event_timestamp_ms", "remote_partition_delete_state", "topic_id_partition")

    def __init__(
        self,
        topic_id_partition: RemotePartitionDeleteMetadataRecordTopicIdPartitionEntry = NEW,
        broker_id: int = 0,
        event_timestamp_ms: int = 0,
        remote_partition_delete_state: int = 0,
    ) -> None:
        self.topic_id_partition = (
            RemotePartitionDeleteMetadataRecordTopicIdPartitionEntry()
            if topic_id_partition is NEW
            else topic_id_partition
        )
        self.broker_id = broker_id
        self.event_timestamp_ms = event_timestamp_ms
        self.remote_partition_delete_state = remote_partition_delete_state


class ShareGroupCurrentMemberAssignmentKey(ProtocolMessage):
    __slots__ = (
        "group_id",
        "member_id",
    )

    def __init__(self, group_id: str = "", member_id: str = "") -> None:
        self.group_id = group_id
        self.member_id = member_id


class ShareGroupCurrentMemberAssignmentValueTopicPartitions(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(self, topic_id: bytes = NO_ID, partitions: list[int] = NEW) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class ShareGroupCurrentMemberAssignmentValue(ProtocolMessage):
    __slots__ = ("assigned_partitions", "member_epoch", "previous_member_epoch", "state")

    def __init__(
        self,
        member_epoch: int = 0,
        previous_member_epoch: int = 0,
        state: int = 0,
        assigned_partitions: list[ShareGroupCurrentMemberAssignmentValueTopicPartitions] = NEW,
    ) -> None:
        self.member_epoch = member_epoch
        self.previous_member_epoch = previous_member_epoch
        self.state = state
        self.assigned_partitions = [] if assigned_partitions is NEW else assigned_partitions


class ShareGroupMemberMetadataKey(ProtocolMessage):
    __slots__ = (
        "group_id",
        "member_id",
    )

    def __init__(self, group_id: str = "", member_id: str = "") -> None:
        self.group_id = group_id
        self.member_id = member_id


class ShareGroupMemberMetadataValue(ProtocolMessage):
    __slots__ = ("client_host", "client_id", "rack_id", "subscribed_topic_names")

    def __init__(
        self,
        rack_id: str | None = "",
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] = NEW,
    ) -> None:
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = [] if subscribed_topic_names is NEW else subscribed_topic_names


class ShareGroupMetadataKey(ProtocolMessage):
    __slots__ = ("group_id",)

    def __init__(self, group_id: str = "") -> None:
        self.group_id = group_id


class ShareGroupMetadataValue(ProtocolMessage):
    __slots__ = (
        "epoch",
        "metadata_hash",
    )

    def __init__(self, epoch: int = 0, metadata_hash: int = 0) -> None:
        self.epoch = epoch
        self.metadata_hash = metadata_hash


class ShareGroupStatePartitionMetadataKey(ProtocolMessage):
    __slots__ = ("group_id",)

    def __init__(self, group_id: str = "") -> None:
        self.group_id = group_id


class TopicPartitionsInfo(ProtocolMessage):
    __slots__ = ("partitions", "topic_id", "topic_name")

    def __init__(self, topic_id: bytes = NO_ID, topic_name: str = "", partitions: list[int] = NEW) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions


class ShareGroupStatePartitionMetadataValueTopicInfo(ProtocolMessage):
    __slots__ = (
        "topic_id",
        "topic_name",
    )

    def __init__(self, topic_id: bytes = NO_ID, topic_name: str = "") -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name


class ShareGroupStatePartitionMetadataValue(ProtocolMessage):
    __slots__ = ("deleting_topics", "initialized_topics", "initializing_topics")

    def __init__(
        self,
        initializing_topics: list[TopicPartitionsInfo] = NEW,
        initialized_topics: list[TopicPartitionsInfo] = NEW,
        deleting_topics: list[ShareGroupStatePartitionMetadataValueTopicInfo] = NEW,
    ) -> None:
        self.initializing_topics = [] if initializing_topics is NEW else initializing_topics
        self.initialized_topics = [] if initialized_topics is NEW else initialized_topics
        self.deleting_topics = [] if deleting_topics is NEW else deleting_topics


class ShareGroupTargetAssignmentMemberKey(ProtocolMessage):
    __slots__ = (
        "group_id",
        "member_id",
    )

    def __init__(self, group_id: str = "", member_id: str = "") -> None:
        self.group_id = group_id
        self.member_id = member_id


class ShareGroupTargetAssignmentMemberValueTopicPartition(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(self, topic_id: bytes = NO_ID, partitions: list[int] = NEW) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class ShareGroupTargetAssignmentMemberValue(ProtocolMessage):
    __slots__ = ("topic_partitions",)

    def __init__(self, topic_partitions: list[ShareGroupTargetAssignmentMemberValueTopicPartition] = NEW) -> None:
        self.topic_partitions = [] if topic_partitions is NEW else topic_partitions


class ShareGroupTargetAssignmentMetadataKey(ProtocolMessage):
    __slots__ = ("group_id",)

    def __init__(self, group_id: str = "") -> None:
        self.group_id = group_id


class ShareGroupTargetAssignmentMetadataValue(ProtocolMessage):
    __slots__ = (
        "assignment_epoch",
        "assignment_timestamp",
    )

    def __init__(self, assignment_epoch: int = 0, assignment_timestamp: int = 0) -> None:
        self.assignment_epoch = assignment_epoch
        self.assignment_timestamp = assignment_timestamp


class ShareSnapshotKey(ProtocolMessage):
    __slots__ = ("group_id", "partition", "topic_id")

    def __init__(self, group_id: str = "", topic_id: bytes = NO_ID, partition: int = 0) -> None:
        self.group_id = group_id
        self.topic_id = topic_id
        self.partition = partition


class ShareSnapshotValueStateBatch(ProtocolMessage):
    __slots__ = ("delivery_count", "delivery_state", "first_offset", "last_offset")

    def __init__(
        self, first_offset: int = 0, last_offset: int = 0, delivery_state: int = 0, delivery_count: int = 0
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_state = delivery_state
        self.delivery_count = delivery_count


class ShareSnapshotValue(ProtocolMessage):
    __slots__ = (
        "create_timestamp",
        "delivery_complete_count",
        "leader_epoch",
        "snapshot_epoch",
        "start_offset",
        "state_batches",
        "state_epoch",
        "write_timestamp",
    )

    def __init__(
        self,
        snapshot_epoch: int = 0,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        delivery_complete_count: int = -1,
        create_timestamp: int = 0,
        write_timestamp: int = 0,
        state_batches: list[ShareSnapshotValueStateBatch] = NEW,
    ) -> None:
        self.snapshot_epoch = snapshot_epoch
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.delivery_complete_count = delivery_complete_count
        self.create_timestamp = create_timestamp
        self.write_timestamp = write_timestamp
        self.state_batches = [] if state_batches is NEW else state_batches


class ShareUpdateKey(ProtocolMessage):
    __slots__ = ("group_id", "partition", "topic_id")

    def __init__(self, group_id: str = "", topic_id: bytes = NO_ID, partition: int = 0) -> None:
        self.group_id = group_id
        self.topic_id = topic_id
        self.partition = partition


class ShareUpdateValueStateBatch(ProtocolMessage):
    __slots__ = ("delivery_count", "delivery_state", "first_offset", "last_offset")

    def __init__(
        self, first_offset: int = 0, last_offset: int = 0, delivery_state: int = 0, delivery_count: int = 0
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_state = delivery_state
        self.delivery_count = delivery_count


class ShareUpdateValue(ProtocolMessage):
    __slots__ = ("delivery_complete_count", "leader_epoch", "snapshot_epoch", "start_offset", "state_batches")

    def __init__(
        self,
        snapshot_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        delivery_complete_count: int = -1,
        state_batches: list[ShareUpdateValueStateBatch] = NEW,
    ) -> None:
        self.snapshot_epoch = snapshot_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.delivery_complete_count = delivery_complete_count
        self.state_batches = [] if state_batches is NEW else state_batches


class SnapshotFooterRecord(ProtocolMessage):
    __slots__ = ("version",)

    def __init__(self, version: int = 0) -> None:
        self.version = version


class SnapshotHeaderRecord(ProtocolMessage):
    __slots__ = ("last_contained_log_timestamp", "version")

    def __init__(self, version: int = 0, last_contained_log_timestamp: int = 0) -> None:
        self.version = version
        self.last_contained_log_timestamp = last_contained_log_timestamp


class StreamsGroupCurrentMemberAssignmentKey(ProtocolMessage):
    __slots__ = (
        "group_id",
        "member_id",
    )

    def __init__(self, group_id: str = "", member_id: str = "") -> None:
        self.group_id = group_id
        self.member_id = member_id


class StreamsGroupCurrentMemberAssignmentValueTaskIds(ProtocolMessage):
    __slots__ = ("assignment_epochs", "partitions", "subtopology_id")

    def __init__(
        self, subtopology_id: str = "", partitions: list[int] = NEW, assignment_epochs: list[int] | None = NEW
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partitions = [] if partitions is NEW else partitions
        self.assignment_epochs = [] if assignment_epochs is NEW else assignment_epochs


class StreamsGroupCurrentMemberAssignmentValue(ProtocolMessage):
    __slots__ = (
        "active_tasks",
        "active_tasks_pending_revocation",
        "member_epoch",
        "previous_member_epoch",
        "standby_tasks",
        "standby_tasks_pending_revocation",
        "state",
        "warmup_tasks",
        "warmup_tasks_pending_revocation",
    )

    def __init__(
        self,
        member_epoch: int = 0,
        previous_member_epoch: int = 0,
        state: int = 0,
        active_tasks: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = NEW,
        standby_tasks: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = NEW,
        warmup_tasks: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = NEW,
        active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = NEW,
        standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = NEW,
        warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = NEW,
    ) -> None:
        self.member_epoch = member_epoch
        self.previous_member_epoch = previous_member_epoch
        self.state = state
        self.active_tasks = [] if active_tasks is NEW else active_tasks
        self.standby_tasks = [] if standby_tasks is NEW else standby_tasks
        self.warmup_tasks = [] if warmup_tasks is NEW else warmup_tasks
        self.active_tasks_pending_revocation = (
            [] if active_tasks_pending_revocation is NEW else active_tasks_pending_revocation
        )
        self.standby_tasks_pending_revocation = (
            [] if standby_tasks_pending_revocation is NEW else standby_tasks_pending_revocation
        )
        self.warmup_tasks_pending_revocation = (
            [] if warmup_tasks_pending_revocation is NEW else warmup_tasks_pending_revocation
        )


class StreamsGroupMemberMetadataKey(ProtocolMessage):
    __slots__ = (
        "group_id",
        "member_id",
    )

    def __init__(self, group_id: str = "", member_id: str = "") -> None:
        self.group_id = group_id
        self.member_id = member_id


class StreamsGroupMemberMetadataValueEndpoint(ProtocolMessage):
    __slots__ = (
        "host",
        "port",
    )

    def __init__(self, host: str = "", port: int = 0) -> None:
        self.host = host
        self.port = port


class StreamsGroupMemberMetadataValueKeyValue(ProtocolMessage):
    __slots__ = (
        "key",
        "value",
    )

    def __init__(self, key: str = "", value: str = "") -> None:
        self.key = key
        self.value = value


class StreamsGroupMemberMetadataValue(ProtocolMessage):
    __slots__ = (
        "client_host",
        "client_id",
        "client_tags",
        "instance_id",
        "process_id",
        "rack_id",
        "rebalance_timeout_ms",
        "topology_epoch",
        "user_endpoint",
    )

    def __init__(
        self,
        instance_id: str | None = "",
        rack_id: str | None = "",
        client_id: str = "",
        client_host: str = "",
        rebalance_timeout_ms: int = -1,
        topology_epoch: int = 0,
        process_id: str = "",
        user_endpoint: StreamsGroupMemberMetadataValueEndpoint | None = None,
        client_tags: list[StreamsGroupMemberMetadataValueKeyValue] = NEW,
    ) -> None:
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.topology_epoch = topology_epoch
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags = [] if client_tags is NEW else client_tags


class StreamsGroupMetadataKey(ProtocolMessage):
    __slots__ = ("group_id",)

    def __init__(self, group_id: str = "") -> None:
        self.group_id = group_id


class LastAssignmentConfig(ProtocolMessage):
    __slots__ = (
        "key",
        "value",
    )

    def __init__(self, key: str = "", value: str = "") -> None:
        self.key = key
        self.value = value


class StreamsGroupMetadataValue(ProtocolMessage):
    __slots__ = (
        "epoch",
        "failed_description_topology_epoch",
        "last_assignment_configs",
        "metadata_hash",
        "stored_description_topology_epoch",
        "validated_topology_epoch",
    )

    def __init__(
        self,
        epoch: int = 0,
        metadata_hash: int = 0,
        validated_topology_epoch: int = -1,
        last_assignment_configs: list[LastAssignmentConfig] | None = NEW,
        stored_description_topology_epoch: int = -1,
        failed_description_topology_epoch: int = -1,
    ) -> None:
        self.epoch = epoch
        self.metadata_hash = metadata_hash
        self.validated_topology_epoch = validated_topology_epoch
        self.last_assignment_configs = [] if last_assignment_configs is NEW else last_assignment_configs
        self.stored_description_topology_epoch = stored_description_topology_epoch
        self.failed_description_topology_epoch = failed_description_topology_epoch


class StreamsGroupTargetAssignmentMemberKey(ProtocolMessage):
    __slots__ = (
        "group_id",
        "member_id",
    )

    def __init__(self, group_id: str = "", member_id: str = "") -> None:
        self.group_id = group_id
        self.member_id = member_id


class StreamsGroupTargetAssignmentMemberValueTaskIds(ProtocolMessage):
    __slots__ = ("partitions", "subtopology_id")

    def __init__(self, subtopology_id: str = "", partitions: list[int] = NEW) -> None:
        self.subtopology_id = subtopology_id
        self.partitions = [] if partitions is NEW else partitions


class StreamsGroupTargetAssignmentMemberValue(ProtocolMessage):
    __slots__ = (
        "active_tasks",
        "standby_tasks",
        "warmup_tasks",
    )

    def __init__(
        self,
        active_tasks: list[StreamsGroupTargetAssignmentMemberValueTaskIds] = NEW,
        standby_tasks: list[StreamsGroupTargetAssignmentMemberValueTaskIds] = NEW,
        warmup_tasks: list[StreamsGroupTargetAssignmentMemberValueTaskIds] = NEW,
    ) -> None:
        self.active_tasks = [] if active_tasks is NEW else active_tasks
        self.standby_tasks = [] if standby_tasks is NEW else standby_tasks
        self.warmup_tasks = [] if warmup_tasks is NEW else warmup_tasks


class StreamsGroupTargetAssignmentMetadataKey(ProtocolMessage):
    __slots__ = ("group_id",)

    def __init__(self, group_id: str = "") -> None:
        self.group_id = group_id


class StreamsGroupTargetAssignmentMetadataValue(ProtocolMessage):
    __slots__ = (
        "assignment_epoch",
        "assignment_timestamp",
    )

    def __init__(self, assignment_epoch: int = 0, assignment_timestamp: int = 0) -> None:
        self.assignment_epoch = assignment_epoch
        self.assignment_timestamp = assignment_timestamp


class StreamsGroupTopologyKey(ProtocolMessage):
    __slots__ = ("group_id",)

    def __init__(self, group_id: str = "") -> None:
        self.group_id = group_id


class TopicConfig(ProtocolMessage):
    __slots__ = (
        "key",
        "value",
    )

    def __init__(self, key: str = "", value: str = "") -> None:
        self.key = key
        self.value = value


class StreamsGroupTopologyValueTopicInfo(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
        "replication_factor",
        "topic_configs",
    )

    def __init__(
        self, name: str = "", partitions: int = 0, replication_factor: int = 0, topic_configs: list[TopicConfig] = NEW
    ) -> None:
        self.name = name
        self.partitions = partitions
        self.replication_factor = replication_factor
        self.topic_configs = [] if topic_configs is NEW else topic_configs


class StreamsGroupTopologyValueCopartitionGroup(ProtocolMessage):
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


class StreamsGroupTopologyValueSubtopology(ProtocolMessage):
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
        state_changelog_topics: list[StreamsGroupTopologyValueTopicInfo] = NEW,
        repartition_sink_topics: list[str] = NEW,
        repartition_source_topics: list[StreamsGroupTopologyValueTopicInfo] = NEW,
        copartition_groups: list[StreamsGroupTopologyValueCopartitionGroup] = NEW,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics = [] if source_topics is NEW else source_topics
        self.source_topic_regex = [] if source_topic_regex is NEW else source_topic_regex
        self.state_changelog_topics = [] if state_changelog_topics is NEW else state_changelog_topics
        self.repartition_sink_topics = [] if repartition_sink_topics is NEW else repartition_sink_topics
        self.repartition_source_topics = [] if repartition_source_topics is NEW else repartition_source_topics
        self.copartition_groups = [] if copartition_groups is NEW else copartition_groups


class StreamsGroupTopologyValue(ProtocolMessage):
    __slots__ = (
        "epoch",
        "subtopologies",
    )

    def __init__(self, epoch: int = 0, subtopologies: list[StreamsGroupTopologyValueSubtopology] = NEW) -> None:
        self.epoch = epoch
        self.subtopologies = [] if subtopologies is NEW else subtopologies


class TransactionLogKey(ProtocolMessage):
    __slots__ = ("transactional_id",)

    def __init__(self, transactional_id: str = "") -> None:
        self.transactional_id = transactional_id


class PartitionsSchema(ProtocolMessage):
    __slots__ = ("partition_ids", "topic")

    def __init__(self, topic: str = "", partition_ids: list[int] = NEW) -> None:
        self.topic = topic
        self.partition_ids = [] if partition_ids is NEW else partition_ids


class TransactionLogValue(ProtocolMessage):
    __slots__ = (
        "client_transaction_version",
        "next_producer_epoch",
        "next_producer_id",
        "previous_producer_id",
        "producer_epoch",
        "producer_id",
        "transaction_last_update_timestamp_ms",
        "transaction_partitions",
        "transaction_start_timestamp_ms",
        "transaction_status",
        "transaction_timeout_ms",
    )

    def __init__(
        self,
        producer_id: int = 0,
        previous_producer_id: int = -1,
        next_producer_id: int = -1,
        producer_epoch: int = 0,
        next_producer_epoch: int = -1,
        transaction_timeout_ms: int = 0,
        transaction_status: int = 0,
        transaction_partitions: list[PartitionsSchema] | None = NEW,
        transaction_last_update_timestamp_ms: int = 0,
        transaction_start_timestamp_ms: int = 0,
        client_transaction_version: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.previous_producer_id = previous_producer_id
        self.next_producer_id = next_producer_id
        self.producer_epoch = producer_epoch
        self.next_producer_epoch = next_producer_epoch
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_status = transaction_status
        self.transaction_partitions = [] if transaction_partitions is NEW else transaction_partitions
        self.transaction_last_update_timestamp_ms = transaction_last_update_timestamp_ms
        self.transaction_start_timestamp_ms = transaction_start_timestamp_ms
        self.client_transaction_version = client_transaction_version


class VotersRecordEndpoint(ProtocolMessage):
    __slots__ = ("host", "name", "port")

    def __init__(self, name: str = "", host: str = "", port: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port


class VotersRecordKRaftVersionFeature(ProtocolMessage):
    __slots__ = ("max_supported_version", "min_supported_version")

    def __init__(self, min_supported_version: int = 0, max_supported_version: int = 0) -> None:
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


class VotersRecordVoter(ProtocolMessage):
    __slots__ = ("endpoints", "k_raft_version_feature", "voter_directory_id", "voter_id")

    def __init__(
        self,
        voter_id: int = 0,
        voter_directory_id: bytes = NO_ID,
        endpoints: list[VotersRecordEndpoint] = NEW,
        k_raft_version_feature: VotersRecordKRaftVersionFeature = NEW,
    ) -> None:
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.endpoints = [] if endpoints is NEW else endpoints
        self.k_raft_version_feature = (
            VotersRecordKRaftVersionFeature() if k_raft_version_feature is NEW else k_raft_version_feature
        )


class VotersRecord(ProtocolMessage):
    __slots__ = (
        "version",
        "voters",
    )

    def __init__(self, version: int = 0, voters: list[VotersRecordVoter] = NEW) -> None:
        self.version = version
        self.voters = [] if voters is NEW else voters
