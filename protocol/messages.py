"""The messages of Kafka's protocol and their structs. `scripts/protocol-schemas` writes this file.

A field that a version does not have keeps its default. Ids have 16 bytes. `records` are whole record batches.
"""

from __future__ import annotations

from typing import Any

from offsetfs.protocol.message import NEW, NO_ID, ProtocolMessage

Records = Any
"""A buffer with record batches; for writers also a range of a file: an object with its `size` in bytes."""


class AddOffsetsToTxnRequest(ProtocolMessage):
    __slots__ = ("group_id", "producer_epoch", "producer_id", "transactional_id")

    def __init__(
        self, transactional_id: str = "", producer_id: int = 0, producer_epoch: int = 0, group_id: str = ""
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.group_id = group_id


class AddOffsetsToTxnResponse(ProtocolMessage):
    __slots__ = ("error_code", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code


class AddPartitionsToTxnTopic(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[int] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class AddPartitionsToTxnTransaction(ProtocolMessage):
    __slots__ = ("producer_epoch", "producer_id", "topics", "transactional_id", "verify_only")

    def __init__(
        self,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        verify_only: bool = False,
        topics: list[AddPartitionsToTxnTopic] = NEW,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.verify_only = verify_only
        self.topics = [] if topics is NEW else topics


class AddPartitionsToTxnRequest(ProtocolMessage):
    __slots__ = (
        "transactions",
        "v3_and_below_producer_epoch",
        "v3_and_below_producer_id",
        "v3_and_below_topics",
        "v3_and_below_transactional_id",
    )

    def __init__(
        self,
        transactions: list[AddPartitionsToTxnTransaction] = NEW,
        v3_and_below_transactional_id: str = "",
        v3_and_below_producer_id: int = 0,
        v3_and_below_producer_epoch: int = 0,
        v3_and_below_topics: list[AddPartitionsToTxnTopic] = NEW,
    ) -> None:
        self.transactions = [] if transactions is NEW else transactions
        self.v3_and_below_transactional_id = v3_and_below_transactional_id
        self.v3_and_below_producer_id = v3_and_below_producer_id
        self.v3_and_below_producer_epoch = v3_and_below_producer_epoch
        self.v3_and_below_topics = [] if v3_and_below_topics is NEW else v3_and_below_topics


class AddPartitionsToTxnPartitionResult(ProtocolMessage):
    __slots__ = ("partition_error_code", "partition_index")

    def __init__(self, partition_index: int = 0, partition_error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.partition_error_code = partition_error_code


class AddPartitionsToTxnTopicResult(ProtocolMessage):
    __slots__ = (
        "name",
        "results_by_partition",
    )

    def __init__(self, name: str = "", results_by_partition: list[AddPartitionsToTxnPartitionResult] = NEW) -> None:
        self.name = name
        self.results_by_partition = [] if results_by_partition is NEW else results_by_partition


class AddPartitionsToTxnResult(ProtocolMessage):
    __slots__ = ("topic_results", "transactional_id")

    def __init__(self, transactional_id: str = "", topic_results: list[AddPartitionsToTxnTopicResult] = NEW) -> None:
        self.transactional_id = transactional_id
        self.topic_results = [] if topic_results is NEW else topic_results


class AddPartitionsToTxnResponse(ProtocolMessage):
    __slots__ = ("error_code", "results_by_topic_v3_and_below", "results_by_transaction", "throttle_time_ms")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results_by_transaction: list[AddPartitionsToTxnResult] = NEW,
        results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results_by_transaction = [] if results_by_transaction is NEW else results_by_transaction
        self.results_by_topic_v3_and_below = (
            [] if results_by_topic_v3_and_below is NEW else results_by_topic_v3_and_below
        )


class AddRaftVoterRequestListener(ProtocolMessage):
    __slots__ = ("host", "name", "port")

    def __init__(self, name: str = "", host: str = "", port: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port


class AddRaftVoterRequest(ProtocolMessage):
    __slots__ = ("cluster_id", "listeners", "timeout_ms", "voter_directory_id", "voter_id")

    def __init__(
        self,
        cluster_id: str | None = "",
        timeout_ms: int = 0,
        voter_id: int = 0,
        voter_directory_id: bytes = NO_ID,
        listeners: list[AddRaftVoterRequestListener] = NEW,
    ) -> None:
        self.cluster_id = cluster_id
        self.timeout_ms = timeout_ms
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.listeners = [] if listeners is NEW else listeners


class AddRaftVoterResponse(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = "") -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message


class AllocateProducerIdsRequest(ProtocolMessage):
    __slots__ = ("broker_epoch", "broker_id")

    def __init__(self, broker_id: int = 0, broker_epoch: int = -1) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch


class AllocateProducerIdsResponse(ProtocolMessage):
    __slots__ = ("error_code", "producer_id_len", "producer_id_start", "throttle_time_ms")

    def __init__(
        self, throttle_time_ms: int = 0, error_code: int = 0, producer_id_start: int = 0, producer_id_len: int = 0
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id_start = producer_id_start
        self.producer_id_len = producer_id_len


class AlterClientQuotasRequestEntityData(ProtocolMessage):
    __slots__ = ("entity_name", "entity_type")

    def __init__(self, entity_type: str = "", entity_name: str | None = "") -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class OpData(ProtocolMessage):
    __slots__ = ("key", "remove", "value")

    def __init__(self, key: str = "", value: float = 0.0, remove: bool = False) -> None:
        self.key = key
        self.value = value
        self.remove = remove


class AlterClientQuotasRequestEntryData(ProtocolMessage):
    __slots__ = (
        "entity",
        "ops",
    )

    def __init__(self, entity: list[AlterClientQuotasRequestEntityData] = NEW, ops: list[OpData] = NEW) -> None:
        self.entity = [] if entity is NEW else entity
        self.ops = [] if ops is NEW else ops


class AlterClientQuotasRequest(ProtocolMessage):
    __slots__ = (
        "entries",
        "validate_only",
    )

    def __init__(self, entries: list[AlterClientQuotasRequestEntryData] = NEW, validate_only: bool = False) -> None:
        self.entries = [] if entries is NEW else entries
        self.validate_only = validate_only


class AlterClientQuotasResponseEntityData(ProtocolMessage):
    __slots__ = ("entity_name", "entity_type")

    def __init__(self, entity_type: str = "", entity_name: str | None = "") -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class AlterClientQuotasResponseEntryData(ProtocolMessage):
    __slots__ = ("entity", "error_code", "error_message")

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        entity: list[AlterClientQuotasResponseEntityData] = NEW,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.entity = [] if entity is NEW else entity


class AlterClientQuotasResponse(ProtocolMessage):
    __slots__ = ("entries", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, entries: list[AlterClientQuotasResponseEntryData] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.entries = [] if entries is NEW else entries


class AlterConfigsRequestAlterableConfig(ProtocolMessage):
    __slots__ = (
        "name",
        "value",
    )

    def __init__(self, name: str = "", value: str | None = "") -> None:
        self.name = name
        self.value = value


class AlterConfigsRequestAlterConfigsResource(ProtocolMessage):
    __slots__ = ("configs", "resource_name", "resource_type")

    def __init__(
        self, resource_type: int = 0, resource_name: str = "", configs: list[AlterConfigsRequestAlterableConfig] = NEW
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = [] if configs is NEW else configs


class AlterConfigsRequest(ProtocolMessage):
    __slots__ = (
        "resources",
        "validate_only",
    )

    def __init__(
        self, resources: list[AlterConfigsRequestAlterConfigsResource] = NEW, validate_only: bool = False
    ) -> None:
        self.resources = [] if resources is NEW else resources
        self.validate_only = validate_only


class AlterConfigsResponseAlterConfigsResourceResponse(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "resource_name", "resource_type")

    def __init__(
        self, error_code: int = 0, error_message: str | None = "", resource_type: int = 0, resource_name: str = ""
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name


class AlterConfigsResponse(ProtocolMessage):
    __slots__ = ("responses", "throttle_time_ms")

    def __init__(
        self, throttle_time_ms: int = 0, responses: list[AlterConfigsResponseAlterConfigsResourceResponse] = NEW
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = [] if responses is NEW else responses


class ReassignablePartition(ProtocolMessage):
    __slots__ = (
        "partition_index",
        "replicas",
    )

    def __init__(self, partition_index: int = 0, replicas: list[int] | None = None) -> None:
        self.partition_index = partition_index
        self.replicas = replicas


class ReassignableTopic(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[ReassignablePartition] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class AlterPartitionReassignmentsRequest(ProtocolMessage):
    __slots__ = ("allow_replication_factor_change", "timeout_ms", "topics")

    def __init__(
        self,
        timeout_ms: int = 60000,
        allow_replication_factor_change: bool = True,
        topics: list[ReassignableTopic] = NEW,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.topics = [] if topics is NEW else topics


class ReassignablePartitionResponse(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "partition_index")

    def __init__(self, partition_index: int = 0, error_code: int = 0, error_message: str | None = "") -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message


class ReassignableTopicResponse(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[ReassignablePartitionResponse] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class AlterPartitionReassignmentsResponse(ProtocolMessage):
    __slots__ = ("allow_replication_factor_change", "error_code", "error_message", "responses", "throttle_time_ms")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        allow_replication_factor_change: bool = True,
        error_code: int = 0,
        error_message: str | None = "",
        responses: list[ReassignableTopicResponse] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.error_code = error_code
        self.error_message = error_message
        self.responses = [] if responses is NEW else responses


class BrokerState(ProtocolMessage):
    __slots__ = ("broker_epoch", "broker_id")

    def __init__(self, broker_id: int = 0, broker_epoch: int = -1) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch


class AlterPartitionRequestPartitionData(ProtocolMessage):
    __slots__ = (
        "leader_epoch",
        "leader_recovery_state",
        "new_isr",
        "new_isr_with_epochs",
        "partition_epoch",
        "partition_index",
    )

    def __init__(
        self,
        partition_index: int = 0,
        leader_epoch: int = 0,
        new_isr: list[int] = NEW,
        new_isr_with_epochs: list[BrokerState] = NEW,
        leader_recovery_state: int = 0,
        partition_epoch: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.leader_epoch = leader_epoch
        self.new_isr = [] if new_isr is NEW else new_isr
        self.new_isr_with_epochs = [] if new_isr_with_epochs is NEW else new_isr_with_epochs
        self.leader_recovery_state = leader_recovery_state
        self.partition_epoch = partition_epoch


class AlterPartitionRequestTopicData(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(self, topic_id: bytes = NO_ID, partitions: list[AlterPartitionRequestPartitionData] = NEW) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class AlterPartitionRequest(ProtocolMessage):
    __slots__ = ("broker_epoch", "broker_id", "topics")

    def __init__(
        self, broker_id: int = 0, broker_epoch: int = -1, topics: list[AlterPartitionRequestTopicData] = NEW
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.topics = [] if topics is NEW else topics


class AlterPartitionResponsePartitionData(ProtocolMessage):
    __slots__ = (
        "error_code",
        "isr",
        "leader_epoch",
        "leader_id",
        "leader_recovery_state",
        "partition_epoch",
        "partition_index",
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
        isr: list[int] = NEW,
        leader_recovery_state: int = 0,
        partition_epoch: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.isr = [] if isr is NEW else isr
        self.leader_recovery_state = leader_recovery_state
        self.partition_epoch = partition_epoch


class AlterPartitionResponseTopicData(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(self, topic_id: bytes = NO_ID, partitions: list[AlterPartitionResponsePartitionData] = NEW) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class AlterPartitionResponse(ProtocolMessage):
    __slots__ = ("error_code", "throttle_time_ms", "topics")

    def __init__(
        self, throttle_time_ms: int = 0, error_code: int = 0, topics: list[AlterPartitionResponseTopicData] = NEW
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.topics = [] if topics is NEW else topics


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


class AlterShareGroupOffsetsRequestPartition(ProtocolMessage):
    __slots__ = (
        "partition_index",
        "start_offset",
    )

    def __init__(self, partition_index: int = 0, start_offset: int = 0) -> None:
        self.partition_index = partition_index
        self.start_offset = start_offset


class AlterShareGroupOffsetsRequestTopic(ProtocolMessage):
    __slots__ = ("partitions", "topic_name")

    def __init__(self, topic_name: str = "", partitions: list[AlterShareGroupOffsetsRequestPartition] = NEW) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions


class AlterShareGroupOffsetsRequest(ProtocolMessage):
    __slots__ = (
        "group_id",
        "topics",
    )

    def __init__(self, group_id: str = "", topics: list[AlterShareGroupOffsetsRequestTopic] = NEW) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW else topics


class AlterShareGroupOffsetsResponsePartition(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "partition_index")

    def __init__(self, partition_index: int = 0, error_code: int = 0, error_message: str | None = None) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message


class AlterShareGroupOffsetsResponseTopic(ProtocolMessage):
    __slots__ = ("partitions", "topic_id", "topic_name")

    def __init__(
        self,
        topic_name: str = "",
        topic_id: bytes = NO_ID,
        partitions: list[AlterShareGroupOffsetsResponsePartition] = NEW,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class AlterShareGroupOffsetsResponse(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "responses", "throttle_time_ms")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[AlterShareGroupOffsetsResponseTopic] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.responses = [] if responses is NEW else responses


class ScramCredentialDeletion(ProtocolMessage):
    __slots__ = ("mechanism", "name")

    def __init__(self, name: str = "", mechanism: int = 0) -> None:
        self.name = name
        self.mechanism = mechanism


class ScramCredentialUpsertion(ProtocolMessage):
    __slots__ = ("iterations", "mechanism", "name", "salt", "salted_password")

    def __init__(
        self, name: str = "", mechanism: int = 0, iterations: int = 0, salt: bytes = b"", salted_password: bytes = b""
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.iterations = iterations
        self.salt = salt
        self.salted_password = salted_password


class AlterUserScramCredentialsRequest(ProtocolMessage):
    __slots__ = (
        "deletions",
        "upsertions",
    )

    def __init__(
        self, deletions: list[ScramCredentialDeletion] = NEW, upsertions: list[ScramCredentialUpsertion] = NEW
    ) -> None:
        self.deletions = [] if deletions is NEW else deletions
        self.upsertions = [] if upsertions is NEW else upsertions


class AlterUserScramCredentialsResult(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "user")

    def __init__(self, user: str = "", error_code: int = 0, error_message: str | None = "") -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message


class AlterUserScramCredentialsResponse(ProtocolMessage):
    __slots__ = ("results", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, results: list[AlterUserScramCredentialsResult] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is NEW else results


class ApiVersionsRequest(ProtocolMessage):
    __slots__ = (
        "client_software_name",
        "client_software_version",
    )

    def __init__(self, client_software_name: str = "", client_software_version: str = "") -> None:
        self.client_software_name = client_software_name
        self.client_software_version = client_software_version


class ApiVersion(ProtocolMessage):
    __slots__ = ("api_key", "max_version", "min_version")

    def __init__(self, api_key: int = 0, min_version: int = 0, max_version: int = 0) -> None:
        self.api_key = api_key
        self.min_version = min_version
        self.max_version = max_version


class SupportedFeatureKey(ProtocolMessage):
    __slots__ = ("max_version", "min_version", "name")

    def __init__(self, name: str = "", min_version: int = 0, max_version: int = 0) -> None:
        self.name = name
        self.min_version = min_version
        self.max_version = max_version


class FinalizedFeatureKey(ProtocolMessage):
    __slots__ = ("max_version_level", "min_version_level", "name")

    def __init__(self, name: str = "", max_version_level: int = 0, min_version_level: int = 0) -> None:
        self.name = name
        self.max_version_level = max_version_level
        self.min_version_level = min_version_level


class ApiVersionsResponse(ProtocolMessage):
    __slots__ = (
        "api_keys",
        "error_code",
        "finalized_features",
        "finalized_features_epoch",
        "supported_features",
        "throttle_time_ms",
        "zk_migration_ready",
    )

    def __init__(
        self,
        error_code: int = 0,
        api_keys: list[ApiVersion] = NEW,
        throttle_time_ms: int = 0,
        supported_features: list[SupportedFeatureKey] = NEW,
        finalized_features_epoch: int = -1,
        finalized_features: list[FinalizedFeatureKey] = NEW,
        zk_migration_ready: bool = False,
    ) -> None:
        self.error_code = error_code
        self.api_keys = [] if api_keys is NEW else api_keys
        self.throttle_time_ms = throttle_time_ms
        self.supported_features = [] if supported_features is NEW else supported_features
        self.finalized_features_epoch = finalized_features_epoch
        self.finalized_features = [] if finalized_features is NEW else finalized_features
        self.zk_migration_ready = zk_migration_ready


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


class BeginQuorumEpochRequestPartitionData(ProtocolMessage):
    __slots__ = ("leader_epoch", "leader_id", "partition_index", "voter_directory_id")

    def __init__(
        self, partition_index: int = 0, voter_directory_id: bytes = NO_ID, leader_id: int = 0, leader_epoch: int = 0
    ) -> None:
        self.partition_index = partition_index
        self.voter_directory_id = voter_directory_id
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class BeginQuorumEpochRequestTopicData(ProtocolMessage):
    __slots__ = ("partitions", "topic_name")

    def __init__(self, topic_name: str = "", partitions: list[BeginQuorumEpochRequestPartitionData] = NEW) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions


class BeginQuorumEpochRequestLeaderEndpoint(ProtocolMessage):
    __slots__ = ("host", "name", "port")

    def __init__(self, name: str = "", host: str = "", port: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port


class BeginQuorumEpochRequest(ProtocolMessage):
    __slots__ = ("cluster_id", "leader_endpoints", "topics", "voter_id")

    def __init__(
        self,
        cluster_id: str | None = None,
        voter_id: int = -1,
        topics: list[BeginQuorumEpochRequestTopicData] = NEW,
        leader_endpoints: list[BeginQuorumEpochRequestLeaderEndpoint] = NEW,
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.topics = [] if topics is NEW else topics
        self.leader_endpoints = [] if leader_endpoints is NEW else leader_endpoints


class BeginQuorumEpochResponsePartitionData(ProtocolMessage):
    __slots__ = ("error_code", "leader_epoch", "leader_id", "partition_index")

    def __init__(
        self, partition_index: int = 0, error_code: int = 0, leader_id: int = 0, leader_epoch: int = 0
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class BeginQuorumEpochResponseTopicData(ProtocolMessage):
    __slots__ = ("partitions", "topic_name")

    def __init__(self, topic_name: str = "", partitions: list[BeginQuorumEpochResponsePartitionData] = NEW) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions


class BeginQuorumEpochResponseNodeEndpoint(ProtocolMessage):
    __slots__ = ("host", "node_id", "port")

    def __init__(self, node_id: int = 0, host: str = "", port: int = 0) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port


class BeginQuorumEpochResponse(ProtocolMessage):
    __slots__ = ("error_code", "node_endpoints", "topics")

    def __init__(
        self,
        error_code: int = 0,
        topics: list[BeginQuorumEpochResponseTopicData] = NEW,
        node_endpoints: list[BeginQuorumEpochResponseNodeEndpoint] = NEW,
    ) -> None:
        self.error_code = error_code
        self.topics = [] if topics is NEW else topics
        self.node_endpoints = [] if node_endpoints is NEW else node_endpoints


class BrokerHeartbeatRequest(ProtocolMessage):
    __slots__ = (
        "broker_epoch",
        "broker_id",
        "current_metadata_offset",
        "offline_log_dirs",
        "want_fence",
        "want_shut_down",
    )

    def __init__(
        self,
        broker_id: int = 0,
        broker_epoch: int = -1,
        current_metadata_offset: int = 0,
        want_fence: bool = False,
        want_shut_down: bool = False,
        offline_log_dirs: list[bytes] = NEW,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.current_metadata_offset = current_metadata_offset
        self.want_fence = want_fence
        self.want_shut_down = want_shut_down
        self.offline_log_dirs = [] if offline_log_dirs is NEW else offline_log_dirs


class BrokerHeartbeatResponse(ProtocolMessage):
    __slots__ = ("error_code", "is_caught_up", "is_fenced", "should_shut_down", "throttle_time_ms")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        is_caught_up: bool = False,
        is_fenced: bool = True,
        should_shut_down: bool = False,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.is_caught_up = is_caught_up
        self.is_fenced = is_fenced
        self.should_shut_down = should_shut_down


class BrokerRegistrationRequestListener(ProtocolMessage):
    __slots__ = ("host", "name", "port", "security_protocol")

    def __init__(self, name: str = "", host: str = "", port: int = 0, security_protocol: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.security_protocol = security_protocol


class BrokerRegistrationRequestFeature(ProtocolMessage):
    __slots__ = ("max_supported_version", "min_supported_version", "name")

    def __init__(self, name: str = "", min_supported_version: int = 0, max_supported_version: int = 0) -> None:
        self.name = name
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


class BrokerRegistrationRequest(ProtocolMessage):
    __slots__ = (
        "broker_id",
        "cluster_id",
        "features",
        "incarnation_id",
        "is_migrating_zk_broker",
        "listeners",
        "log_dirs",
        "previous_broker_epoch",
        "rack",
    )

    def __init__(
        self,
        broker_id: int = 0,
        cluster_id: str = "",
        incarnation_id: bytes = NO_ID,
        listeners: list[BrokerRegistrationRequestListener] = NEW,
        features: list[BrokerRegistrationRequestFeature] = NEW,
        rack: str | None = "",
        is_migrating_zk_broker: bool = False,
        log_dirs: list[bytes] = NEW,
        previous_broker_epoch: int = -1,
    ) -> None:
        self.broker_id = broker_id
        self.cluster_id = cluster_id
        self.incarnation_id = incarnation_id
        self.listeners = [] if listeners is NEW else listeners
        self.features = [] if features is NEW else features
        self.rack = rack
        self.is_migrating_zk_broker = is_migrating_zk_broker
        self.log_dirs = [] if log_dirs is NEW else log_dirs
        self.previous_broker_epoch = previous_broker_epoch


class BrokerRegistrationResponse(ProtocolMessage):
    __slots__ = ("broker_epoch", "error_code", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0, broker_epoch: int = -1) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.broker_epoch = broker_epoch


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


class ConsumerGroupHeartbeatRequestTopicPartitions(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(self, topic_id: bytes = NO_ID, partitions: list[int] = NEW) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class ConsumerGroupHeartbeatRequest(ProtocolMessage):
    __slots__ = (
        "group_id",
        "instance_id",
        "member_epoch",
        "member_id",
        "rack_id",
        "rebalance_timeout_ms",
        "server_assignor",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "topic_partitions",
    )

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        subscribed_topic_names: list[str] | None = None,
        subscribed_topic_regex: str | None = None,
        server_assignor: str | None = None,
        topic_partitions: list[ConsumerGroupHeartbeatRequestTopicPartitions] | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.subscribed_topic_names = subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.server_assignor = server_assignor
        self.topic_partitions = topic_partitions


class ConsumerGroupHeartbeatResponseTopicPartitions(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(self, topic_id: bytes = NO_ID, partitions: list[int] = NEW) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class ConsumerGroupHeartbeatResponseAssignment(ProtocolMessage):
    __slots__ = ("topic_partitions",)

    def __init__(self, topic_partitions: list[ConsumerGroupHeartbeatResponseTopicPartitions] = NEW) -> None:
        self.topic_partitions = [] if topic_partitions is NEW else topic_partitions


class ConsumerGroupHeartbeatResponse(ProtocolMessage):
    __slots__ = (
        "assignment",
        "error_code",
        "error_message",
        "heartbeat_interval_ms",
        "member_epoch",
        "member_id",
        "throttle_time_ms",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str | None = None,
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        assignment: ConsumerGroupHeartbeatResponseAssignment | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.assignment = assignment


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


class ControllerRegistrationRequestListener(ProtocolMessage):
    __slots__ = ("host", "name", "port", "security_protocol")

    def __init__(self, name: str = "", host: str = "", port: int = 0, security_protocol: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.security_protocol = security_protocol


class ControllerRegistrationRequestFeature(ProtocolMessage):
    __slots__ = ("max_supported_version", "min_supported_version", "name")

    def __init__(self, name: str = "", min_supported_version: int = 0, max_supported_version: int = 0) -> None:
        self.name = name
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


class ControllerRegistrationRequest(ProtocolMessage):
    __slots__ = ("controller_id", "features", "incarnation_id", "listeners", "zk_migration_ready")

    def __init__(
        self,
        controller_id: int = 0,
        incarnation_id: bytes = NO_ID,
        zk_migration_ready: bool = False,
        listeners: list[ControllerRegistrationRequestListener] = NEW,
        features: list[ControllerRegistrationRequestFeature] = NEW,
    ) -> None:
        self.controller_id = controller_id
        self.incarnation_id = incarnation_id
        self.zk_migration_ready = zk_migration_ready
        self.listeners = [] if listeners is NEW else listeners
        self.features = [] if features is NEW else features


class ControllerRegistrationResponse(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = "") -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message


class AclCreation(ProtocolMessage):
    __slots__ = (
        "host",
        "operation",
        "permission_type",
        "principal",
        "resource_name",
        "resource_pattern_type",
        "resource_type",
    )

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        resource_pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.resource_pattern_type = resource_pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class CreateAclsRequest(ProtocolMessage):
    __slots__ = ("creations",)

    def __init__(self, creations: list[AclCreation] = NEW) -> None:
        self.creations = [] if creations is NEW else creations


class AclCreationResult(ProtocolMessage):
    __slots__ = (
        "error_code",
        "error_message",
    )

    def __init__(self, error_code: int = 0, error_message: str | None = "") -> None:
        self.error_code = error_code
        self.error_message = error_message


class CreateAclsResponse(ProtocolMessage):
    __slots__ = ("results", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, results: list[AclCreationResult] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is NEW else results


class CreatableRenewers(ProtocolMessage):
    __slots__ = ("principal_name", "principal_type")

    def __init__(self, principal_type: str = "", principal_name: str = "") -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name


class CreateDelegationTokenRequest(ProtocolMessage):
    __slots__ = ("max_lifetime_ms", "owner_principal_name", "owner_principal_type", "renewers")

    def __init__(
        self,
        owner_principal_type: str | None = "",
        owner_principal_name: str | None = "",
        renewers: list[CreatableRenewers] = NEW,
        max_lifetime_ms: int = 0,
    ) -> None:
        self.owner_principal_type = owner_principal_type
        self.owner_principal_name = owner_principal_name
        self.renewers = [] if renewers is NEW else renewers
        self.max_lifetime_ms = max_lifetime_ms


class CreateDelegationTokenResponse(ProtocolMessage):
    __slots__ = (
        "error_code",
        "expiry_timestamp_ms",
        "hmac",
        "issue_timestamp_ms",
        "max_timestamp_ms",
        "principal_name",
        "principal_type",
        "throttle_time_ms",
        "token_id",
        "token_requester_principal_name",
        "token_requester_principal_type",
    )

    def __init__(
        self,
        error_code: int = 0,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp_ms: int = 0,
        expiry_timestamp_ms: int = 0,
        max_timestamp_ms: int = 0,
        token_id: str = "",
        hmac: bytes = b"",
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.token_requester_principal_type = token_requester_principal_type
        self.token_requester_principal_name = token_requester_principal_name
        self.issue_timestamp_ms = issue_timestamp_ms
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.max_timestamp_ms = max_timestamp_ms
        self.token_id = token_id
        self.hmac = hmac
        self.throttle_time_ms = throttle_time_ms


class CreatePartitionsAssignment(ProtocolMessage):
    __slots__ = ("broker_ids",)

    def __init__(self, broker_ids: list[int] = NEW) -> None:
        self.broker_ids = [] if broker_ids is NEW else broker_ids


class CreatePartitionsTopic(ProtocolMessage):
    __slots__ = ("assignments", "count", "name")

    def __init__(
        self, name: str = "", count: int = 0, assignments: list[CreatePartitionsAssignment] | None = NEW
    ) -> None:
        self.name = name
        self.count = count
        self.assignments = [] if assignments is NEW else assignments


class CreatePartitionsRequest(ProtocolMessage):
    __slots__ = ("timeout_ms", "topics", "validate_only")

    def __init__(
        self, topics: list[CreatePartitionsTopic] = NEW, timeout_ms: int = 0, validate_only: bool = False
    ) -> None:
        self.topics = [] if topics is NEW else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


class CreatePartitionsTopicResult(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "name")

    def __init__(self, name: str = "", error_code: int = 0, error_message: str | None = None) -> None:
        self.name = name
        self.error_code = error_code
        self.error_message = error_message


class CreatePartitionsResponse(ProtocolMessage):
    __slots__ = ("results", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, results: list[CreatePartitionsTopicResult] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is NEW else results


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


class DefaultPrincipalData(ProtocolMessage):
    __slots__ = ("name", "token_authenticated", "type")

    def __init__(self, type: str = "", name: str = "", token_authenticated: bool = False) -> None:
        self.type = type
        self.name = name
        self.token_authenticated = token_authenticated


class DeleteAclsFilter(ProtocolMessage):
    __slots__ = (
        "host_filter",
        "operation",
        "pattern_type_filter",
        "permission_type",
        "principal_filter",
        "resource_name_filter",
        "resource_type_filter",
    )

    def __init__(
        self,
        resource_type_filter: int = 0,
        resource_name_filter: str | None = "",
        pattern_type_filter: int = 3,
        principal_filter: str | None = "",
        host_filter: str | None = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type_filter = resource_type_filter
        self.resource_name_filter = resource_name_filter
        self.pattern_type_filter = pattern_type_filter
        self.principal_filter = principal_filter
        self.host_filter = host_filter
        self.operation = operation
        self.permission_type = permission_type


class DeleteAclsRequest(ProtocolMessage):
    __slots__ = ("filters",)

    def __init__(self, filters: list[DeleteAclsFilter] = NEW) -> None:
        self.filters = [] if filters is NEW else filters


class DeleteAclsMatchingAcl(ProtocolMessage):
    __slots__ = (
        "error_code",
        "error_message",
        "host",
        "operation",
        "pattern_type",
        "permission_type",
        "principal",
        "resource_name",
        "resource_type",
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class DeleteAclsFilterResult(ProtocolMessage):
    __slots__ = (
        "error_code",
        "error_message",
        "matching_acls",
    )

    def __init__(
        self, error_code: int = 0, error_message: str | None = "", matching_acls: list[DeleteAclsMatchingAcl] = NEW
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.matching_acls = [] if matching_acls is NEW else matching_acls


class DeleteAclsResponse(ProtocolMessage):
    __slots__ = ("filter_results", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, filter_results: list[DeleteAclsFilterResult] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.filter_results = [] if filter_results is NEW else filter_results


class DeleteGroupsRequest(ProtocolMessage):
    __slots__ = ("groups_names",)

    def __init__(self, groups_names: list[str] = NEW) -> None:
        self.groups_names = [] if groups_names is NEW else groups_names


class DeletableGroupResult(ProtocolMessage):
    __slots__ = ("error_code", "group_id")

    def __init__(self, group_id: str = "", error_code: int = 0) -> None:
        self.group_id = group_id
        self.error_code = error_code


class DeleteGroupsResponse(ProtocolMessage):
    __slots__ = ("results", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, results: list[DeletableGroupResult] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is NEW else results


class DeleteRecordsPartition(ProtocolMessage):
    __slots__ = ("offset", "partition_index")

    def __init__(self, partition_index: int = 0, offset: int = 0) -> None:
        self.partition_index = partition_index
        self.offset = offset


class DeleteRecordsTopic(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[DeleteRecordsPartition] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class DeleteRecordsRequest(ProtocolMessage):
    __slots__ = ("timeout_ms", "topics")

    def __init__(self, topics: list[DeleteRecordsTopic] = NEW, timeout_ms: int = 0) -> None:
        self.topics = [] if topics is NEW else topics
        self.timeout_ms = timeout_ms


class DeleteRecordsPartitionResult(ProtocolMessage):
    __slots__ = ("error_code", "low_watermark", "partition_index")

    def __init__(self, partition_index: int = 0, low_watermark: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.low_watermark = low_watermark
        self.error_code = error_code


class DeleteRecordsTopicResult(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[DeleteRecordsPartitionResult] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class DeleteRecordsResponse(ProtocolMessage):
    __slots__ = (
        "throttle_time_ms",
        "topics",
    )

    def __init__(self, throttle_time_ms: int = 0, topics: list[DeleteRecordsTopicResult] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW else topics


class DeleteShareGroupOffsetsRequestTopic(ProtocolMessage):
    __slots__ = ("topic_name",)

    def __init__(self, topic_name: str = "") -> None:
        self.topic_name = topic_name


class DeleteShareGroupOffsetsRequest(ProtocolMessage):
    __slots__ = (
        "group_id",
        "topics",
    )

    def __init__(self, group_id: str = "", topics: list[DeleteShareGroupOffsetsRequestTopic] = NEW) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW else topics


class DeleteShareGroupOffsetsResponseTopic(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "topic_id", "topic_name")

    def __init__(
        self, topic_name: str = "", topic_id: bytes = NO_ID, error_code: int = 0, error_message: str | None = None
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message


class DeleteShareGroupOffsetsResponse(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "responses", "throttle_time_ms")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[DeleteShareGroupOffsetsResponseTopic] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.responses = [] if responses is NEW else responses


class DeleteShareGroupStateRequestPartitionData(ProtocolMessage):
    __slots__ = ("partition",)

    def __init__(self, partition: int = 0) -> None:
        self.partition = partition


class DeleteStateData(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(
        self, topic_id: bytes = NO_ID, partitions: list[DeleteShareGroupStateRequestPartitionData] = NEW
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class DeleteShareGroupStateRequest(ProtocolMessage):
    __slots__ = (
        "group_id",
        "topics",
    )

    def __init__(self, group_id: str = "", topics: list[DeleteStateData] = NEW) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW else topics


class DeleteShareGroupStateResponsePartitionResult(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "partition")

    def __init__(self, partition: int = 0, error_code: int = 0, error_message: str | None = None) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message


class DeleteStateResult(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(
        self, topic_id: bytes = NO_ID, partitions: list[DeleteShareGroupStateResponsePartitionResult] = NEW
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class DeleteShareGroupStateResponse(ProtocolMessage):
    __slots__ = ("results",)

    def __init__(self, results: list[DeleteStateResult] = NEW) -> None:
        self.results = [] if results is NEW else results


class DeleteTopicState(ProtocolMessage):
    __slots__ = (
        "name",
        "topic_id",
    )

    def __init__(self, name: str | None = None, topic_id: bytes = NO_ID) -> None:
        self.name = name
        self.topic_id = topic_id


class DeleteTopicsRequest(ProtocolMessage):
    __slots__ = ("timeout_ms", "topic_names", "topics")

    def __init__(self, topics: list[DeleteTopicState] = NEW, topic_names: list[str] = NEW, timeout_ms: int = 0) -> None:
        self.topics = [] if topics is NEW else topics
        self.topic_names = [] if topic_names is NEW else topic_names
        self.timeout_ms = timeout_ms


class DeletableTopicResult(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "name", "topic_id")

    def __init__(
        self, name: str | None = "", topic_id: bytes = NO_ID, error_code: int = 0, error_message: str | None = None
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message


class DeleteTopicsResponse(ProtocolMessage):
    __slots__ = ("responses", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, responses: list[DeletableTopicResult] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = [] if responses is NEW else responses


class DescribeAclsRequest(ProtocolMessage):
    __slots__ = (
        "host_filter",
        "operation",
        "pattern_type_filter",
        "permission_type",
        "principal_filter",
        "resource_name_filter",
        "resource_type_filter",
    )

    def __init__(
        self,
        resource_type_filter: int = 0,
        resource_name_filter: str | None = "",
        pattern_type_filter: int = 3,
        principal_filter: str | None = "",
        host_filter: str | None = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type_filter = resource_type_filter
        self.resource_name_filter = resource_name_filter
        self.pattern_type_filter = pattern_type_filter
        self.principal_filter = principal_filter
        self.host_filter = host_filter
        self.operation = operation
        self.permission_type = permission_type


class AclDescription(ProtocolMessage):
    __slots__ = ("host", "operation", "permission_type", "principal")

    def __init__(self, principal: str = "", host: str = "", operation: int = 0, permission_type: int = 0) -> None:
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class DescribeAclsResource(ProtocolMessage):
    __slots__ = ("acls", "pattern_type", "resource_name", "resource_type")

    def __init__(
        self, resource_type: int = 0, resource_name: str = "", pattern_type: int = 3, acls: list[AclDescription] = NEW
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.acls = [] if acls is NEW else acls


class DescribeAclsResponse(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "resources", "throttle_time_ms")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        resources: list[DescribeAclsResource] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.resources = [] if resources is NEW else resources


class ComponentData(ProtocolMessage):
    __slots__ = ("entity_type", "match", "match_type")

    def __init__(self, entity_type: str = "", match_type: int = 0, match: str | None = "") -> None:
        self.entity_type = entity_type
        self.match_type = match_type
        self.match = match


class DescribeClientQuotasRequest(ProtocolMessage):
    __slots__ = (
        "components",
        "strict",
    )

    def __init__(self, components: list[ComponentData] = NEW, strict: bool = False) -> None:
        self.components = [] if components is NEW else components
        self.strict = strict


class DescribeClientQuotasResponseEntityData(ProtocolMessage):
    __slots__ = ("entity_name", "entity_type")

    def __init__(self, entity_type: str = "", entity_name: str | None = "") -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class ValueData(ProtocolMessage):
    __slots__ = (
        "key",
        "value",
    )

    def __init__(self, key: str = "", value: float = 0.0) -> None:
        self.key = key
        self.value = value


class DescribeClientQuotasResponseEntryData(ProtocolMessage):
    __slots__ = (
        "entity",
        "values",
    )

    def __init__(
        self, entity: list[DescribeClientQuotasResponseEntityData] = NEW, values: list[ValueData] = NEW
    ) -> None:
        self.entity = [] if entity is NEW else entity
        self.values = [] if values is NEW else values


class DescribeClientQuotasResponse(ProtocolMessage):
    __slots__ = ("entries", "error_code", "error_message", "throttle_time_ms")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        entries: list[DescribeClientQuotasResponseEntryData] | None = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.entries = [] if entries is NEW else entries


class DescribeClusterRequest(ProtocolMessage):
    __slots__ = ("endpoint_type", "include_cluster_authorized_operations", "include_fenced_brokers")

    def __init__(
        self,
        include_cluster_authorized_operations: bool = False,
        endpoint_type: int = 1,
        include_fenced_brokers: bool = False,
    ) -> None:
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.endpoint_type = endpoint_type
        self.include_fenced_brokers = include_fenced_brokers


class DescribeClusterBroker(ProtocolMessage):
    __slots__ = ("broker_id", "host", "is_fenced", "port", "rack")

    def __init__(
        self, broker_id: int = 0, host: str = "", port: int = 0, rack: str | None = None, is_fenced: bool = False
    ) -> None:
        self.broker_id = broker_id
        self.host = host
        self.port = port
        self.rack = rack
        self.is_fenced = is_fenced


class DescribeClusterResponse(ProtocolMessage):
    __slots__ = (
        "brokers",
        "cluster_authorized_operations",
        "cluster_id",
        "controller_id",
        "endpoint_type",
        "error_code",
        "error_message",
        "throttle_time_ms",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        endpoint_type: int = 1,
        cluster_id: str = "",
        controller_id: int = -1,
        brokers: list[DescribeClusterBroker] = NEW,
        cluster_authorized_operations: int = -2147483648,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.endpoint_type = endpoint_type
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.brokers = [] if brokers is NEW else brokers
        self.cluster_authorized_operations = cluster_authorized_operations


class DescribeConfigsResource(ProtocolMessage):
    __slots__ = ("configuration_keys", "resource_name", "resource_type")

    def __init__(
        self, resource_type: int = 0, resource_name: str = "", configuration_keys: list[str] | None = NEW
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configuration_keys = [] if configuration_keys is NEW else configuration_keys


class DescribeConfigsRequest(ProtocolMessage):
    __slots__ = ("include_documentation", "include_synonyms", "resources")

    def __init__(
        self,
        resources: list[DescribeConfigsResource] = NEW,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> None:
        self.resources = [] if resources is NEW else resources
        self.include_synonyms = include_synonyms
        self.include_documentation = include_documentation


class DescribeConfigsSynonym(ProtocolMessage):
    __slots__ = ("name", "source", "value")

    def __init__(self, name: str = "", value: str | None = "", source: int = 0) -> None:
        self.name = name
        self.value = value
        self.source = source


class DescribeConfigsResourceResult(ProtocolMessage):
    __slots__ = (
        "config_source",
        "config_type",
        "documentation",
        "is_default",
        "is_sensitive",
        "name",
        "read_only",
        "synonyms",
        "value",
    )

    def __init__(
        self,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
        synonyms: list[DescribeConfigsSynonym] = NEW,
        config_type: int = 0,
        documentation: str | None = "",
        is_default: bool = False,
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive
        self.synonyms = [] if synonyms is NEW else synonyms
        self.config_type = config_type
        self.documentation = documentation
        self.is_default = is_default


class DescribeConfigsResult(ProtocolMessage):
    __slots__ = ("configs", "error_code", "error_message", "resource_name", "resource_type")

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        configs: list[DescribeConfigsResourceResult] = NEW,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = [] if configs is NEW else configs


class DescribeConfigsResponse(ProtocolMessage):
    __slots__ = ("results", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, results: list[DescribeConfigsResult] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is NEW else results


class DescribeDelegationTokenOwner(ProtocolMessage):
    __slots__ = ("principal_name", "principal_type")

    def __init__(self, principal_type: str = "", principal_name: str = "") -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name


class DescribeDelegationTokenRequest(ProtocolMessage):
    __slots__ = ("owners",)

    def __init__(self, owners: list[DescribeDelegationTokenOwner] | None = NEW) -> None:
        self.owners = [] if owners is NEW else owners


class DescribedDelegationTokenRenewer(ProtocolMessage):
    __slots__ = ("principal_name", "principal_type")

    def __init__(self, principal_type: str = "", principal_name: str = "") -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name


class DescribedDelegationToken(ProtocolMessage):
    __slots__ = (
        "expiry_timestamp",
        "hmac",
        "issue_timestamp",
        "max_timestamp",
        "principal_name",
        "principal_type",
        "renewers",
        "token_id",
        "token_requester_principal_name",
        "token_requester_principal_type",
    )

    def __init__(
        self,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp: int = 0,
        expiry_timestamp: int = 0,
        max_timestamp: int = 0,
        token_id: str = "",
        hmac: bytes = b"",
        renewers: list[DescribedDelegationTokenRenewer] = NEW,
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.token_requester_principal_type = token_requester_principal_type
        self.token_requester_principal_name = token_requester_principal_name
        self.issue_timestamp = issue_timestamp
        self.expiry_timestamp = expiry_timestamp
        self.max_timestamp = max_timestamp
        self.token_id = token_id
        self.hmac = hmac
        self.renewers = [] if renewers is NEW else renewers


class DescribeDelegationTokenResponse(ProtocolMessage):
    __slots__ = ("error_code", "throttle_time_ms", "tokens")

    def __init__(
        self, error_code: int = 0, tokens: list[DescribedDelegationToken] = NEW, throttle_time_ms: int = 0
    ) -> None:
        self.error_code = error_code
        self.tokens = [] if tokens is NEW else tokens
        self.throttle_time_ms = throttle_time_ms


class DescribeGroupsRequest(ProtocolMessage):
    __slots__ = (
        "groups",
        "include_authorized_operations",
    )

    def __init__(self, groups: list[str] = NEW, include_authorized_operations: bool = False) -> None:
        self.groups = [] if groups is NEW else groups
        self.include_authorized_operations = include_authorized_operations


class DescribedGroupMember(ProtocolMessage):
    __slots__ = ("client_host", "client_id", "group_instance_id", "member_assignment", "member_id", "member_metadata")

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        member_metadata: bytes = b"",
        member_assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.member_metadata = member_metadata
        self.member_assignment = member_assignment


class DescribeGroupsResponseDescribedGroup(ProtocolMessage):
    __slots__ = (
        "authorized_operations",
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "members",
        "protocol_data",
        "protocol_type",
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        protocol_type: str = "",
        protocol_data: str = "",
        members: list[DescribedGroupMember] = NEW,
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.protocol_type = protocol_type
        self.protocol_data = protocol_data
        self.members = [] if members is NEW else members
        self.authorized_operations = authorized_operations


class DescribeGroupsResponse(ProtocolMessage):
    __slots__ = ("groups", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, groups: list[DescribeGroupsResponseDescribedGroup] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is NEW else groups


class DescribableLogDirTopic(ProtocolMessage):
    __slots__ = ("partition_index", "partitions", "topic")

    def __init__(self, topic: str = "", partitions: list[int] = NEW, partition_index: list[int] = NEW) -> None:
        self.topic = topic
        self.partitions = [] if partitions is NEW else partitions
        self.partition_index = [] if partition_index is NEW else partition_index


class DescribeLogDirsRequest(ProtocolMessage):
    __slots__ = ("topics",)

    def __init__(self, topics: list[DescribableLogDirTopic] | None = NEW) -> None:
        self.topics = [] if topics is NEW else topics


class DescribeLogDirsPartition(ProtocolMessage):
    __slots__ = ("is_future_key", "offset_lag", "partition_index", "partition_size")

    def __init__(
        self, partition_index: int = 0, partition_size: int = 0, offset_lag: int = 0, is_future_key: bool = False
    ) -> None:
        self.partition_index = partition_index
        self.partition_size = partition_size
        self.offset_lag = offset_lag
        self.is_future_key = is_future_key


class DescribeLogDirsTopic(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[DescribeLogDirsPartition] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class DescribeLogDirsResult(ProtocolMessage):
    __slots__ = (
        "error_code",
        "log_dir",
        "topics",
        "total_bytes",
        "usable_bytes",
    )

    def __init__(
        self,
        error_code: int = 0,
        log_dir: str = "",
        topics: list[DescribeLogDirsTopic] = NEW,
        total_bytes: int = -1,
        usable_bytes: int = -1,
    ) -> None:
        self.error_code = error_code
        self.log_dir = log_dir
        self.topics = [] if topics is NEW else topics
        self.total_bytes = total_bytes
        self.usable_bytes = usable_bytes


class DescribeLogDirsResponse(ProtocolMessage):
    __slots__ = ("error_code", "results", "throttle_time_ms")

    def __init__(
        self, throttle_time_ms: int = 0, error_code: int = 0, results: list[DescribeLogDirsResult] = NEW
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results = [] if results is NEW else results


class DescribeProducersRequestTopicRequest(ProtocolMessage):
    __slots__ = (
        "name",
        "partition_indexes",
    )

    def __init__(self, name: str = "", partition_indexes: list[int] = NEW) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is NEW else partition_indexes


class DescribeProducersRequest(ProtocolMessage):
    __slots__ = ("topics",)

    def __init__(self, topics: list[DescribeProducersRequestTopicRequest] = NEW) -> None:
        self.topics = [] if topics is NEW else topics


class ProducerState(ProtocolMessage):
    __slots__ = (
        "coordinator_epoch",
        "current_txn_start_offset",
        "last_sequence",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self,
        producer_id: int = 0,
        producer_epoch: int = 0,
        last_sequence: int = -1,
        last_timestamp: int = -1,
        coordinator_epoch: int = 0,
        current_txn_start_offset: int = -1,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.last_sequence = last_sequence
        self.last_timestamp = last_timestamp
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_start_offset = current_txn_start_offset


class PartitionResponse(ProtocolMessage):
    __slots__ = ("active_producers", "error_code", "error_message", "partition_index")

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        active_producers: list[ProducerState] = NEW,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.active_producers = [] if active_producers is NEW else active_producers


class TopicResponse(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[PartitionResponse] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class DescribeProducersResponse(ProtocolMessage):
    __slots__ = (
        "throttle_time_ms",
        "topics",
    )

    def __init__(self, throttle_time_ms: int = 0, topics: list[TopicResponse] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW else topics


class DescribeQuorumRequestPartitionData(ProtocolMessage):
    __slots__ = ("partition_index",)

    def __init__(self, partition_index: int = 0) -> None:
        self.partition_index = partition_index


class DescribeQuorumRequestTopicData(ProtocolMessage):
    __slots__ = ("partitions", "topic_name")

    def __init__(self, topic_name: str = "", partitions: list[DescribeQuorumRequestPartitionData] = NEW) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions


class DescribeQuorumRequest(ProtocolMessage):
    __slots__ = ("topics",)

    def __init__(self, topics: list[DescribeQuorumRequestTopicData] = NEW) -> None:
        self.topics = [] if topics is NEW else topics


class DescribeQuorumResponseReplicaState(ProtocolMessage):
    __slots__ = (
        "last_caught_up_timestamp",
        "last_fetch_timestamp",
        "log_end_offset",
        "replica_directory_id",
        "replica_id",
    )

    def __init__(
        self,
        replica_id: int = 0,
        replica_directory_id: bytes = NO_ID,
        log_end_offset: int = 0,
        last_fetch_timestamp: int = -1,
        last_caught_up_timestamp: int = -1,
    ) -> None:
        self.replica_id = replica_id
        self.replica_directory_id = replica_directory_id
        self.log_end_offset = log_end_offset
        self.last_fetch_timestamp = last_fetch_timestamp
        self.last_caught_up_timestamp = last_caught_up_timestamp


class DescribeQuorumResponsePartitionData(ProtocolMessage):
    __slots__ = (
        "current_voters",
        "error_code",
        "error_message",
        "high_watermark",
        "leader_epoch",
        "leader_id",
        "observers",
        "partition_index",
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        leader_id: int = 0,
        leader_epoch: int = 0,
        high_watermark: int = 0,
        current_voters: list[DescribeQuorumResponseReplicaState] = NEW,
        observers: list[DescribeQuorumResponseReplicaState] = NEW,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.high_watermark = high_watermark
        self.current_voters = [] if current_voters is NEW else current_voters
        self.observers = [] if observers is NEW else observers


class DescribeQuorumResponseTopicData(ProtocolMessage):
    __slots__ = ("partitions", "topic_name")

    def __init__(self, topic_name: str = "", partitions: list[DescribeQuorumResponsePartitionData] = NEW) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions


class DescribeQuorumResponseListener(ProtocolMessage):
    __slots__ = ("host", "name", "port")

    def __init__(self, name: str = "", host: str = "", port: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port


class Node(ProtocolMessage):
    __slots__ = ("listeners", "node_id")

    def __init__(self, node_id: int = 0, listeners: list[DescribeQuorumResponseListener] = NEW) -> None:
        self.node_id = node_id
        self.listeners = [] if listeners is NEW else listeners


class DescribeQuorumResponse(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "nodes", "topics")

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        topics: list[DescribeQuorumResponseTopicData] = NEW,
        nodes: list[Node] = NEW,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.topics = [] if topics is NEW else topics
        self.nodes = [] if nodes is NEW else nodes


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
    __slots__ = ("error_code", "error_message", "leader_epoch", "partition_index", "start_offset")

    def __init__(
        self,
        partition_index: int = 0,
        start_offset: int = 0,
        leader_epoch: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.start_offset = start_offset
        self.leader_epoch = leader_epoch
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


class DescribeTopicPartitionsRequestTopicRequest(ProtocolMessage):
    __slots__ = ("name",)

    def __init__(self, name: str = "") -> None:
        self.name = name


class DescribeTopicPartitionsRequestCursor(ProtocolMessage):
    __slots__ = ("partition_index", "topic_name")

    def __init__(self, topic_name: str = "", partition_index: int = 0) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index


class DescribeTopicPartitionsRequest(ProtocolMessage):
    __slots__ = ("cursor", "response_partition_limit", "topics")

    def __init__(
        self,
        topics: list[DescribeTopicPartitionsRequestTopicRequest] = NEW,
        response_partition_limit: int = 2000,
        cursor: DescribeTopicPartitionsRequestCursor | None = None,
    ) -> None:
        self.topics = [] if topics is NEW else topics
        self.response_partition_limit = response_partition_limit
        self.cursor = cursor


class DescribeTopicPartitionsResponsePartition(ProtocolMessage):
    __slots__ = (
        "eligible_leader_replicas",
        "error_code",
        "isr_nodes",
        "last_known_elr",
        "leader_epoch",
        "leader_id",
        "offline_replicas",
        "partition_index",
        "replica_nodes",
    )

    def __init__(
        self,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: list[int] = NEW,
        isr_nodes: list[int] = NEW,
        eligible_leader_replicas: list[int] | None = None,
        last_known_elr: list[int] | None = None,
        offline_replicas: list[int] = NEW,
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes = [] if replica_nodes is NEW else replica_nodes
        self.isr_nodes = [] if isr_nodes is NEW else isr_nodes
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr
        self.offline_replicas = [] if offline_replicas is NEW else offline_replicas


class DescribeTopicPartitionsResponseTopic(ProtocolMessage):
    __slots__ = ("error_code", "is_internal", "name", "partitions", "topic_authorized_operations", "topic_id")

    def __init__(
        self,
        error_code: int = 0,
        name: str | None = "",
        topic_id: bytes = NO_ID,
        is_internal: bool = False,
        partitions: list[DescribeTopicPartitionsResponsePartition] = NEW,
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = [] if partitions is NEW else partitions
        self.topic_authorized_operations = topic_authorized_operations


class DescribeTopicPartitionsResponseCursor(ProtocolMessage):
    __slots__ = ("partition_index", "topic_name")

    def __init__(self, topic_name: str = "", partition_index: int = 0) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index


class DescribeTopicPartitionsResponse(ProtocolMessage):
    __slots__ = ("next_cursor", "throttle_time_ms", "topics")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[DescribeTopicPartitionsResponseTopic] = NEW,
        next_cursor: DescribeTopicPartitionsResponseCursor | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW else topics
        self.next_cursor = next_cursor


class DescribeTransactionsRequest(ProtocolMessage):
    __slots__ = ("transactional_ids",)

    def __init__(self, transactional_ids: list[str] = NEW) -> None:
        self.transactional_ids = [] if transactional_ids is NEW else transactional_ids


class DescribeTransactionsResponseTopicData(ProtocolMessage):
    __slots__ = ("partitions", "topic")

    def __init__(self, topic: str = "", partitions: list[int] = NEW) -> None:
        self.topic = topic
        self.partitions = [] if partitions is NEW else partitions


class DescribeTransactionsResponseTransactionState(ProtocolMessage):
    __slots__ = (
        "error_code",
        "producer_epoch",
        "producer_id",
        "topics",
        "transaction_start_time_ms",
        "transaction_state",
        "transaction_timeout_ms",
        "transactional_id",
    )

    def __init__(
        self,
        error_code: int = 0,
        transactional_id: str = "",
        transaction_state: str = "",
        transaction_timeout_ms: int = 0,
        transaction_start_time_ms: int = 0,
        producer_id: int = 0,
        producer_epoch: int = 0,
        topics: list[DescribeTransactionsResponseTopicData] = NEW,
    ) -> None:
        self.error_code = error_code
        self.transactional_id = transactional_id
        self.transaction_state = transaction_state
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_start_time_ms = transaction_start_time_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.topics = [] if topics is NEW else topics


class DescribeTransactionsResponse(ProtocolMessage):
    __slots__ = (
        "throttle_time_ms",
        "transaction_states",
    )

    def __init__(
        self, throttle_time_ms: int = 0, transaction_states: list[DescribeTransactionsResponseTransactionState] = NEW
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.transaction_states = [] if transaction_states is NEW else transaction_states


class UserName(ProtocolMessage):
    __slots__ = ("name",)

    def __init__(self, name: str = "") -> None:
        self.name = name


class DescribeUserScramCredentialsRequest(ProtocolMessage):
    __slots__ = ("users",)

    def __init__(self, users: list[UserName] | None = NEW) -> None:
        self.users = [] if users is NEW else users


class CredentialInfo(ProtocolMessage):
    __slots__ = ("iterations", "mechanism")

    def __init__(self, mechanism: int = 0, iterations: int = 0) -> None:
        self.mechanism = mechanism
        self.iterations = iterations


class DescribeUserScramCredentialsResult(ProtocolMessage):
    __slots__ = ("credential_infos", "error_code", "error_message", "user")

    def __init__(
        self,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = "",
        credential_infos: list[CredentialInfo] = NEW,
    ) -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message
        self.credential_infos = [] if credential_infos is NEW else credential_infos


class DescribeUserScramCredentialsResponse(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "results", "throttle_time_ms")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: list[DescribeUserScramCredentialsResult] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = [] if results is NEW else results


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


class ReplicaInfo(ProtocolMessage):
    __slots__ = ("candidate_directory_id", "candidate_id")

    def __init__(self, candidate_id: int = 0, candidate_directory_id: bytes = NO_ID) -> None:
        self.candidate_id = candidate_id
        self.candidate_directory_id = candidate_directory_id


class EndQuorumEpochRequestPartitionData(ProtocolMessage):
    __slots__ = ("leader_epoch", "leader_id", "partition_index", "preferred_candidates", "preferred_successors")

    def __init__(
        self,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
        preferred_successors: list[int] = NEW,
        preferred_candidates: list[ReplicaInfo] = NEW,
    ) -> None:
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.preferred_successors = [] if preferred_successors is NEW else preferred_successors
        self.preferred_candidates = [] if preferred_candidates is NEW else preferred_candidates


class EndQuorumEpochRequestTopicData(ProtocolMessage):
    __slots__ = ("partitions", "topic_name")

    def __init__(self, topic_name: str = "", partitions: list[EndQuorumEpochRequestPartitionData] = NEW) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions


class EndQuorumEpochRequestLeaderEndpoint(ProtocolMessage):
    __slots__ = ("host", "name", "port")

    def __init__(self, name: str = "", host: str = "", port: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port


class EndQuorumEpochRequest(ProtocolMessage):
    __slots__ = ("cluster_id", "leader_endpoints", "topics")

    def __init__(
        self,
        cluster_id: str | None = None,
        topics: list[EndQuorumEpochRequestTopicData] = NEW,
        leader_endpoints: list[EndQuorumEpochRequestLeaderEndpoint] = NEW,
    ) -> None:
        self.cluster_id = cluster_id
        self.topics = [] if topics is NEW else topics
        self.leader_endpoints = [] if leader_endpoints is NEW else leader_endpoints


class EndQuorumEpochResponsePartitionData(ProtocolMessage):
    __slots__ = ("error_code", "leader_epoch", "leader_id", "partition_index")

    def __init__(
        self, partition_index: int = 0, error_code: int = 0, leader_id: int = 0, leader_epoch: int = 0
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class EndQuorumEpochResponseTopicData(ProtocolMessage):
    __slots__ = ("partitions", "topic_name")

    def __init__(self, topic_name: str = "", partitions: list[EndQuorumEpochResponsePartitionData] = NEW) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions


class EndQuorumEpochResponseNodeEndpoint(ProtocolMessage):
    __slots__ = ("host", "node_id", "port")

    def __init__(self, node_id: int = 0, host: str = "", port: int = 0) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port


class EndQuorumEpochResponse(ProtocolMessage):
    __slots__ = ("error_code", "node_endpoints", "topics")

    def __init__(
        self,
        error_code: int = 0,
        topics: list[EndQuorumEpochResponseTopicData] = NEW,
        node_endpoints: list[EndQuorumEpochResponseNodeEndpoint] = NEW,
    ) -> None:
        self.error_code = error_code
        self.topics = [] if topics is NEW else topics
        self.node_endpoints = [] if node_endpoints is NEW else node_endpoints


class EndTxnMarker(ProtocolMessage):
    __slots__ = ("coordinator_epoch",)

    def __init__(self, coordinator_epoch: int = 0) -> None:
        self.coordinator_epoch = coordinator_epoch


class EndTxnRequest(ProtocolMessage):
    __slots__ = ("committed", "producer_epoch", "producer_id", "transactional_id")

    def __init__(
        self, transactional_id: str = "", producer_id: int = 0, producer_epoch: int = 0, committed: bool = False
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.committed = committed


class EndTxnResponse(ProtocolMessage):
    __slots__ = ("error_code", "producer_epoch", "producer_id", "throttle_time_ms")

    def __init__(
        self, throttle_time_ms: int = 0, error_code: int = 0, producer_id: int = -1, producer_epoch: int = -1
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch


class EnvelopeRequest(ProtocolMessage):
    __slots__ = ("client_host_address", "request_data", "request_principal")

    def __init__(
        self, request_data: bytes = b"", request_principal: bytes | None = b"", client_host_address: bytes = b""
    ) -> None:
        self.request_data = request_data
        self.request_principal = request_principal
        self.client_host_address = client_host_address


class EnvelopeResponse(ProtocolMessage):
    __slots__ = ("error_code", "response_data")

    def __init__(self, response_data: bytes | None = None, error_code: int = 0) -> None:
        self.response_data = response_data
        self.error_code = error_code


class ExpireDelegationTokenRequest(ProtocolMessage):
    __slots__ = ("expiry_time_period_ms", "hmac")

    def __init__(self, hmac: bytes = b"", expiry_time_period_ms: int = 0) -> None:
        self.hmac = hmac
        self.expiry_time_period_ms = expiry_time_period_ms


class ExpireDelegationTokenResponse(ProtocolMessage):
    __slots__ = (
        "error_code",
        "expiry_timestamp_ms",
        "throttle_time_ms",
    )

    def __init__(self, error_code: int = 0, expiry_timestamp_ms: int = 0, throttle_time_ms: int = 0) -> None:
        self.error_code = error_code
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.throttle_time_ms = throttle_time_ms


class FetchRequestReplicaState(ProtocolMessage):
    __slots__ = ("replica_epoch", "replica_id")

    def __init__(self, replica_id: int = -1, replica_epoch: int = -1) -> None:
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch


class FetchRequestFetchPartition(ProtocolMessage):
    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "last_fetched_epoch",
        "log_start_offset",
        "partition",
        "partition_max_bytes",
        "replica_directory_id",
    )

    def __init__(
        self,
        partition: int = 0,
        current_leader_epoch: int = -1,
        fetch_offset: int = 0,
        last_fetched_epoch: int = -1,
        log_start_offset: int = -1,
        partition_max_bytes: int = 0,
        replica_directory_id: bytes = NO_ID,
        high_watermark: int = 9223372036854775807,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.partition_max_bytes = partition_max_bytes
        self.replica_directory_id = replica_directory_id
        self.high_watermark = high_watermark


class FetchRequestFetchTopic(ProtocolMessage):
    __slots__ = ("partitions", "topic", "topic_id")

    def __init__(
        self, topic: str = "", topic_id: bytes = NO_ID, partitions: list[FetchRequestFetchPartition] = NEW
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class FetchRequestForgottenTopic(ProtocolMessage):
    __slots__ = ("partitions", "topic", "topic_id")

    def __init__(self, topic: str = "", topic_id: bytes = NO_ID, partitions: list[int] = NEW) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class FetchRequest(ProtocolMessage):
    __slots__ = (
        "cluster_id",
        "forgotten_topics_data",
        "isolation_level",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "rack_id",
        "replica_id",
        "replica_state",
        "session_epoch",
        "session_id",
        "topics",
    )

    def __init__(
        self,
        cluster_id: str | None = None,
        replica_id: int = -1,
        replica_state: FetchRequestReplicaState = NEW,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        isolation_level: int = 0,
        session_id: int = 0,
        session_epoch: int = -1,
        topics: list[FetchRequestFetchTopic] = NEW,
        forgotten_topics_data: list[FetchRequestForgottenTopic] = NEW,
        rack_id: str = "",
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.replica_state = FetchRequestReplicaState() if replica_state is NEW else replica_state
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics = [] if topics is NEW else topics
        self.forgotten_topics_data = [] if forgotten_topics_data is NEW else forgotten_topics_data
        self.rack_id = rack_id


class FetchResponseEpochEndOffset(ProtocolMessage):
    __slots__ = ("end_offset", "epoch")

    def __init__(self, epoch: int = -1, end_offset: int = -1) -> None:
        self.epoch = epoch
        self.end_offset = end_offset


class FetchResponseLeaderIdAndEpoch(ProtocolMessage):
    __slots__ = ("leader_epoch", "leader_id")

    def __init__(self, leader_id: int = -1, leader_epoch: int = -1) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class FetchResponseSnapshotId(ProtocolMessage):
    __slots__ = (
        "end_offset",
        "epoch",
    )

    def __init__(self, end_offset: int = -1, epoch: int = -1) -> None:
        self.end_offset = end_offset
        self.epoch = epoch


class AbortedTransaction(ProtocolMessage):
    __slots__ = ("first_offset", "producer_id")

    def __init__(self, producer_id: int = 0, first_offset: int = 0) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset


class FetchResponsePartitionData(ProtocolMessage):
    __slots__ = (
        "aborted_transactions",
        "current_leader",
        "diverging_epoch",
        "error_code",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "partition_index",
        "preferred_read_replica",
        "records",
        "snapshot_id",
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        high_watermark: int = 0,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        diverging_epoch: FetchResponseEpochEndOffset = NEW,
        current_leader: FetchResponseLeaderIdAndEpoch = NEW,
        snapshot_id: FetchResponseSnapshotId = NEW,
        aborted_transactions: list[AbortedTransaction] | None = NEW,
        preferred_read_replica: int = -1,
        records: Records | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.diverging_epoch = FetchResponseEpochEndOffset() if diverging_epoch is NEW else diverging_epoch
        self.current_leader = FetchResponseLeaderIdAndEpoch() if current_leader is NEW else current_leader
        self.snapshot_id = FetchResponseSnapshotId() if snapshot_id is NEW else snapshot_id
        self.aborted_transactions = [] if aborted_transactions is NEW else aborted_transactions
        self.preferred_read_replica = preferred_read_replica
        self.records = records


class FetchableTopicResponse(ProtocolMessage):
    __slots__ = ("partition_responses", "partitions", "topic", "topic_id")

    def __init__(
        self,
        topic: str = "",
        topic_id: bytes = NO_ID,
        partitions: list[FetchResponsePartitionData] = NEW,
        partition_responses: list[FetchablePartitionResponse] = NEW,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions
        self.partition_responses = [] if partition_responses is NEW else partition_responses


class FetchResponseNodeEndpoint(ProtocolMessage):
    __slots__ = ("host", "node_id", "port", "rack")

    def __init__(self, node_id: int = 0, host: str = "", port: int = 0, rack: str | None = None) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class FetchResponse(ProtocolMessage):
    __slots__ = ("error_code", "node_endpoints", "responses", "session_id", "throttle_time_ms")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        session_id: int = 0,
        responses: list[FetchableTopicResponse] = NEW,
        node_endpoints: list[FetchResponseNodeEndpoint] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.session_id = session_id
        self.responses = [] if responses is NEW else responses
        self.node_endpoints = [] if node_endpoints is NEW else node_endpoints


class FetchablePartitionResponse(ProtocolMessage):
    __slots__ = (
        "aborted_transactions",
        "current_leader",
        "diverging_epoch",
        "error_code",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "partition",
        "preferred_read_replica",
        "record_set",
        "snapshot_id",
    )

    def __init__(
        self,
        partition: int = 0,
        error_code: int = 0,
        high_watermark: int = 0,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        diverging_epoch: FetchResponseEpochEndOffset = NEW,
        current_leader: FetchResponseLeaderIdAndEpoch = NEW,
        snapshot_id: FetchResponseSnapshotId = NEW,
        aborted_transactions: list[AbortedTransaction] | None = NEW,
        preferred_read_replica: int = -1,
        record_set: Records | None = None,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.diverging_epoch = FetchResponseEpochEndOffset() if diverging_epoch is NEW else diverging_epoch
        self.current_leader = FetchResponseLeaderIdAndEpoch() if current_leader is NEW else current_leader
        self.snapshot_id = FetchResponseSnapshotId() if snapshot_id is NEW else snapshot_id
        self.aborted_transactions = [] if aborted_transactions is NEW else aborted_transactions
        self.preferred_read_replica = preferred_read_replica
        self.record_set = record_set


class FetchSnapshotRequestSnapshotId(ProtocolMessage):
    __slots__ = (
        "end_offset",
        "epoch",
    )

    def __init__(self, end_offset: int = 0, epoch: int = 0) -> None:
        self.end_offset = end_offset
        self.epoch = epoch


class FetchSnapshotRequestPartitionSnapshot(ProtocolMessage):
    __slots__ = ("current_leader_epoch", "partition", "position", "replica_directory_id", "snapshot_id")

    def __init__(
        self,
        partition: int = 0,
        current_leader_epoch: int = 0,
        snapshot_id: FetchSnapshotRequestSnapshotId = NEW,
        position: int = 0,
        replica_directory_id: bytes = NO_ID,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.snapshot_id = FetchSnapshotRequestSnapshotId() if snapshot_id is NEW else snapshot_id
        self.position = position
        self.replica_directory_id = replica_directory_id


class FetchSnapshotRequestTopicSnapshot(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[FetchSnapshotRequestPartitionSnapshot] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class FetchSnapshotRequest(ProtocolMessage):
    __slots__ = ("cluster_id", "max_bytes", "replica_id", "topics")

    def __init__(
        self,
        cluster_id: str | None = None,
        replica_id: int = -1,
        max_bytes: int = 2147483647,
        topics: list[FetchSnapshotRequestTopicSnapshot] = NEW,
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.max_bytes = max_bytes
        self.topics = [] if topics is NEW else topics


class FetchSnapshotResponseSnapshotId(ProtocolMessage):
    __slots__ = (
        "end_offset",
        "epoch",
    )

    def __init__(self, end_offset: int = 0, epoch: int = 0) -> None:
        self.end_offset = end_offset
        self.epoch = epoch


class FetchSnapshotResponseLeaderIdAndEpoch(ProtocolMessage):
    __slots__ = ("leader_epoch", "leader_id")

    def __init__(self, leader_id: int = 0, leader_epoch: int = 0) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class FetchSnapshotResponsePartitionSnapshot(ProtocolMessage):
    __slots__ = ("current_leader", "error_code", "index", "position", "size", "snapshot_id", "unaligned_records")

    def __init__(
        self,
        index: int = 0,
        error_code: int = 0,
        snapshot_id: FetchSnapshotResponseSnapshotId = NEW,
        current_leader: FetchSnapshotResponseLeaderIdAndEpoch = NEW,
        size: int = 0,
        position: int = 0,
        unaligned_records: Records | None = None,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.snapshot_id = FetchSnapshotResponseSnapshotId() if snapshot_id is NEW else snapshot_id
        self.current_leader = FetchSnapshotResponseLeaderIdAndEpoch() if current_leader is NEW else current_leader
        self.size = size
        self.position = position
        self.unaligned_records = unaligned_records


class FetchSnapshotResponseTopicSnapshot(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[FetchSnapshotResponsePartitionSnapshot] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class FetchSnapshotResponseNodeEndpoint(ProtocolMessage):
    __slots__ = ("host", "node_id", "port")

    def __init__(self, node_id: int = 0, host: str = "", port: int = 0) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port


class FetchSnapshotResponse(ProtocolMessage):
    __slots__ = ("error_code", "node_endpoints", "throttle_time_ms", "topics")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        topics: list[FetchSnapshotResponseTopicSnapshot] = NEW,
        node_endpoints: list[FetchSnapshotResponseNodeEndpoint] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.topics = [] if topics is NEW else topics
        self.node_endpoints = [] if node_endpoints is NEW else node_endpoints


class FindCoordinatorRequest(ProtocolMessage):
    __slots__ = ("coordinator_keys", "key", "key_type")

    def __init__(self, key: str = "", key_type: int = 0, coordinator_keys: list[str] = NEW) -> None:
        self.key = key
        self.key_type = key_type
        self.coordinator_keys = [] if coordinator_keys is NEW else coordinator_keys


class Coordinator(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "host", "key", "node_id", "port")

    def __init__(
        self,
        key: str = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.key = key
        self.node_id = node_id
        self.host = host
        self.port = port
        self.error_code = error_code
        self.error_message = error_message


class FindCoordinatorResponse(ProtocolMessage):
    __slots__ = ("coordinators", "error_code", "error_message", "host", "node_id", "port", "throttle_time_ms")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        coordinators: list[Coordinator] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.node_id = node_id
        self.host = host
        self.port = port
        self.coordinators = [] if coordinators is NEW else coordinators


class GetTelemetrySubscriptionsRequest(ProtocolMessage):
    __slots__ = ("client_instance_id",)

    def __init__(self, client_instance_id: bytes = NO_ID) -> None:
        self.client_instance_id = client_instance_id


class GetTelemetrySubscriptionsResponse(ProtocolMessage):
    __slots__ = (
        "accepted_compression_types",
        "client_instance_id",
        "delta_temporality",
        "error_code",
        "push_interval_ms",
        "requested_metrics",
        "subscription_id",
        "telemetry_max_bytes",
        "throttle_time_ms",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        client_instance_id: bytes = NO_ID,
        subscription_id: int = 0,
        accepted_compression_types: list[int] = NEW,
        push_interval_ms: int = 0,
        telemetry_max_bytes: int = 0,
        delta_temporality: bool = False,
        requested_metrics: list[str] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.client_instance_id = client_instance_id
        self.subscription_id = subscription_id
        self.accepted_compression_types = [] if accepted_compression_types is NEW else accepted_compression_types
        self.push_interval_ms = push_interval_ms
        self.telemetry_max_bytes = telemetry_max_bytes
        self.delta_temporality = delta_temporality
        self.requested_metrics = [] if requested_metrics is NEW else requested_metrics


class HeartbeatRequest(ProtocolMessage):
    __slots__ = ("generation_id", "group_id", "group_instance_id", "member_id")

    def __init__(
        self, group_id: str = "", generation_id: int = 0, member_id: str = "", group_instance_id: str | None = None
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id


class HeartbeatResponse(ProtocolMessage):
    __slots__ = ("error_code", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code


class IncrementalAlterConfigsRequestAlterableConfig(ProtocolMessage):
    __slots__ = ("config_operation", "name", "value")

    def __init__(self, name: str = "", config_operation: int = 0, value: str | None = "") -> None:
        self.name = name
        self.config_operation = config_operation
        self.value = value


class IncrementalAlterConfigsRequestAlterConfigsResource(ProtocolMessage):
    __slots__ = ("configs", "resource_name", "resource_type")

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        configs: list[IncrementalAlterConfigsRequestAlterableConfig] = NEW,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = [] if configs is NEW else configs


class IncrementalAlterConfigsRequest(ProtocolMessage):
    __slots__ = (
        "resources",
        "validate_only",
    )

    def __init__(
        self, resources: list[IncrementalAlterConfigsRequestAlterConfigsResource] = NEW, validate_only: bool = False
    ) -> None:
        self.resources = [] if resources is NEW else resources
        self.validate_only = validate_only


class IncrementalAlterConfigsResponseAlterConfigsResourceResponse(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "resource_name", "resource_type")

    def __init__(
        self, error_code: int = 0, error_message: str | None = "", resource_type: int = 0, resource_name: str = ""
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name


class IncrementalAlterConfigsResponse(ProtocolMessage):
    __slots__ = ("responses", "throttle_time_ms")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        responses: list[IncrementalAlterConfigsResponseAlterConfigsResourceResponse] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = [] if responses is NEW else responses


class InitProducerIdRequest(ProtocolMessage):
    __slots__ = (
        "enable2_pc",
        "keep_prepared_txn",
        "producer_epoch",
        "producer_id",
        "transaction_timeout_ms",
        "transactional_id",
    )

    def __init__(
        self,
        transactional_id: str | None = "",
        transaction_timeout_ms: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        enable2_pc: bool = False,
        keep_prepared_txn: bool = False,
    ) -> None:
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.enable2_pc = enable2_pc
        self.keep_prepared_txn = keep_prepared_txn


class InitProducerIdResponse(ProtocolMessage):
    __slots__ = (
        "error_code",
        "ongoing_txn_producer_epoch",
        "ongoing_txn_producer_id",
        "producer_epoch",
        "producer_id",
        "throttle_time_ms",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = 0,
        ongoing_txn_producer_id: int = -1,
        ongoing_txn_producer_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.ongoing_txn_producer_id = ongoing_txn_producer_id
        self.ongoing_txn_producer_epoch = ongoing_txn_producer_epoch


class InitializeShareGroupStateRequestPartitionData(ProtocolMessage):
    __slots__ = ("partition", "start_offset", "state_epoch")

    def __init__(self, partition: int = 0, state_epoch: int = 0, start_offset: int = 0) -> None:
        self.partition = partition
        self.state_epoch = state_epoch
        self.start_offset = start_offset


class InitializeStateData(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(
        self, topic_id: bytes = NO_ID, partitions: list[InitializeShareGroupStateRequestPartitionData] = NEW
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class InitializeShareGroupStateRequest(ProtocolMessage):
    __slots__ = (
        "group_id",
        "topics",
    )

    def __init__(self, group_id: str = "", topics: list[InitializeStateData] = NEW) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW else topics


class InitializeShareGroupStateResponsePartitionResult(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "partition")

    def __init__(self, partition: int = 0, error_code: int = 0, error_message: str | None = None) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message


class InitializeStateResult(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(
        self, topic_id: bytes = NO_ID, partitions: list[InitializeShareGroupStateResponsePartitionResult] = NEW
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class InitializeShareGroupStateResponse(ProtocolMessage):
    __slots__ = ("results",)

    def __init__(self, results: list[InitializeStateResult] = NEW) -> None:
        self.results = [] if results is NEW else results


class JoinGroupRequestProtocol(ProtocolMessage):
    __slots__ = ("metadata", "name")

    def __init__(self, name: str = "", metadata: bytes = b"") -> None:
        self.name = name
        self.metadata = metadata


class JoinGroupRequest(ProtocolMessage):
    __slots__ = (
        "group_id",
        "group_instance_id",
        "member_id",
        "protocol_type",
        "protocols",
        "reason",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        group_id: str = "",
        session_timeout_ms: int = 0,
        rebalance_timeout_ms: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str = "",
        protocols: list[JoinGroupRequestProtocol] = NEW,
        reason: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocols = [] if protocols is NEW else protocols
        self.reason = reason


class JoinGroupResponseMember(ProtocolMessage):
    __slots__ = ("group_instance_id", "member_id", "metadata")

    def __init__(self, member_id: str = "", group_instance_id: str | None = None, metadata: bytes = b"") -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.metadata = metadata


class JoinGroupResponse(ProtocolMessage):
    __slots__ = (
        "error_code",
        "generation_id",
        "leader",
        "member_id",
        "members",
        "protocol_name",
        "protocol_type",
        "skip_assignment",
        "throttle_time_ms",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        generation_id: int = -1,
        protocol_type: str | None = None,
        protocol_name: str | None = "",
        leader: str = "",
        skip_assignment: bool = False,
        member_id: str = "",
        members: list[JoinGroupResponseMember] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.generation_id = generation_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader = leader
        self.skip_assignment = skip_assignment
        self.member_id = member_id
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


class MemberIdentity(ProtocolMessage):
    __slots__ = ("group_instance_id", "member_id", "reason")

    def __init__(self, member_id: str = "", group_instance_id: str | None = None, reason: str | None = None) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.reason = reason


class LeaveGroupRequest(ProtocolMessage):
    __slots__ = (
        "group_id",
        "member_id",
        "members",
    )

    def __init__(self, group_id: str = "", member_id: str = "", members: list[MemberIdentity] = NEW) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.members = [] if members is NEW else members


class MemberResponse(ProtocolMessage):
    __slots__ = ("error_code", "group_instance_id", "member_id")

    def __init__(self, member_id: str = "", group_instance_id: str | None = "", error_code: int = 0) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.error_code = error_code


class LeaveGroupResponse(ProtocolMessage):
    __slots__ = ("error_code", "members", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0, members: list[MemberResponse] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.members = [] if members is NEW else members


class ListConfigResourcesRequest(ProtocolMessage):
    __slots__ = ("resource_types",)

    def __init__(self, resource_types: list[int] = NEW) -> None:
        self.resource_types = [] if resource_types is NEW else resource_types


class ConfigResource(ProtocolMessage):
    __slots__ = (
        "resource_name",
        "resource_type",
    )

    def __init__(self, resource_name: str = "", resource_type: int = 16) -> None:
        self.resource_name = resource_name
        self.resource_type = resource_type


class ListConfigResourcesResponse(ProtocolMessage):
    __slots__ = ("config_resources", "error_code", "throttle_time_ms")

    def __init__(
        self, throttle_time_ms: int = 0, error_code: int = 0, config_resources: list[ConfigResource] = NEW
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.config_resources = [] if config_resources is NEW else config_resources


class ListGroupsRequest(ProtocolMessage):
    __slots__ = (
        "states_filter",
        "types_filter",
    )

    def __init__(self, states_filter: list[str] = NEW, types_filter: list[str] = NEW) -> None:
        self.states_filter = [] if states_filter is NEW else states_filter
        self.types_filter = [] if types_filter is NEW else types_filter


class ListedGroup(ProtocolMessage):
    __slots__ = ("group_id", "group_state", "group_type", "protocol_type")

    def __init__(
        self, group_id: str = "", protocol_type: str = "", group_state: str = "", group_type: str = ""
    ) -> None:
        self.group_id = group_id
        self.protocol_type = protocol_type
        self.group_state = group_state
        self.group_type = group_type


class ListGroupsResponse(ProtocolMessage):
    __slots__ = ("error_code", "groups", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0, groups: list[ListedGroup] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.groups = [] if groups is NEW else groups


class ListOffsetsPartition(ProtocolMessage):
    __slots__ = ("current_leader_epoch", "max_num_offsets", "partition_index", "timestamp")

    def __init__(
        self, partition_index: int = 0, current_leader_epoch: int = -1, timestamp: int = 0, max_num_offsets: int = 1
    ) -> None:
        self.partition_index = partition_index
        self.current_leader_epoch = current_leader_epoch
        self.timestamp = timestamp
        self.max_num_offsets = max_num_offsets


class ListOffsetsTopic(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[ListOffsetsPartition] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class ListOffsetsRequest(ProtocolMessage):
    __slots__ = ("isolation_level", "replica_id", "timeout_ms", "topics")

    def __init__(
        self, replica_id: int = 0, isolation_level: int = 0, topics: list[ListOffsetsTopic] = NEW, timeout_ms: int = 0
    ) -> None:
        self.replica_id = replica_id
        self.isolation_level = isolation_level
        self.topics = [] if topics is NEW else topics
        self.timeout_ms = timeout_ms


class ListOffsetsPartitionResponse(ProtocolMessage):
    __slots__ = ("error_code", "leader_epoch", "offset", "old_style_offsets", "partition_index", "timestamp")

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        timestamp: int = -1,
        offset: int = -1,
        leader_epoch: int = -1,
        old_style_offsets: list[int] = NEW,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.timestamp = timestamp
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.old_style_offsets = [] if old_style_offsets is NEW else old_style_offsets


class ListOffsetsTopicResponse(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[ListOffsetsPartitionResponse] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class ListOffsetsResponse(ProtocolMessage):
    __slots__ = (
        "throttle_time_ms",
        "topics",
    )

    def __init__(self, throttle_time_ms: int = 0, topics: list[ListOffsetsTopicResponse] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW else topics


class ListPartitionReassignmentsTopics(ProtocolMessage):
    __slots__ = (
        "name",
        "partition_indexes",
    )

    def __init__(self, name: str = "", partition_indexes: list[int] = NEW) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is NEW else partition_indexes


class ListPartitionReassignmentsRequest(ProtocolMessage):
    __slots__ = (
        "timeout_ms",
        "topics",
    )

    def __init__(self, timeout_ms: int = 60000, topics: list[ListPartitionReassignmentsTopics] | None = None) -> None:
        self.timeout_ms = timeout_ms
        self.topics = topics


class OngoingPartitionReassignment(ProtocolMessage):
    __slots__ = ("adding_replicas", "partition_index", "removing_replicas", "replicas")

    def __init__(
        self,
        partition_index: int = 0,
        replicas: list[int] = NEW,
        adding_replicas: list[int] = NEW,
        removing_replicas: list[int] = NEW,
    ) -> None:
        self.partition_index = partition_index
        self.replicas = [] if replicas is NEW else replicas
        self.adding_replicas = [] if adding_replicas is NEW else adding_replicas
        self.removing_replicas = [] if removing_replicas is NEW else removing_replicas


class OngoingTopicReassignment(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[OngoingPartitionReassignment] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class ListPartitionReassignmentsResponse(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "throttle_time_ms", "topics")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        topics: list[OngoingTopicReassignment] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.topics = [] if topics is NEW else topics


class ListTransactionsRequest(ProtocolMessage):
    __slots__ = ("duration_filter", "producer_id_filters", "state_filters", "transactional_id_pattern")

    def __init__(
        self,
        state_filters: list[str] = NEW,
        producer_id_filters: list[int] = NEW,
        duration_filter: int = -1,
        transactional_id_pattern: str | None = None,
    ) -> None:
        self.state_filters = [] if state_filters is NEW else state_filters
        self.producer_id_filters = [] if producer_id_filters is NEW else producer_id_filters
        self.duration_filter = duration_filter
        self.transactional_id_pattern = transactional_id_pattern


class ListTransactionsResponseTransactionState(ProtocolMessage):
    __slots__ = ("producer_id", "transaction_state", "transactional_id")

    def __init__(self, transactional_id: str = "", producer_id: int = 0, transaction_state: str = "") -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.transaction_state = transaction_state


class ListTransactionsResponse(ProtocolMessage):
    __slots__ = ("error_code", "throttle_time_ms", "transaction_states", "unknown_state_filters")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_state_filters: list[str] = NEW,
        transaction_states: list[ListTransactionsResponseTransactionState] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_state_filters = [] if unknown_state_filters is NEW else unknown_state_filters
        self.transaction_states = [] if transaction_states is NEW else transaction_states


class MetadataRequestTopic(ProtocolMessage):
    __slots__ = ("name", "topic_id")

    def __init__(self, topic_id: bytes = NO_ID, name: str | None = "") -> None:
        self.topic_id = topic_id
        self.name = name


class MetadataRequest(ProtocolMessage):
    __slots__ = (
        "allow_auto_topic_creation",
        "include_cluster_authorized_operations",
        "include_topic_authorized_operations",
        "topics",
    )

    def __init__(
        self,
        topics: list[MetadataRequestTopic] | None = NEW,
        allow_auto_topic_creation: bool = True,
        include_cluster_authorized_operations: bool = False,
        include_topic_authorized_operations: bool = False,
    ) -> None:
        self.topics = [] if topics is NEW else topics
        self.allow_auto_topic_creation = allow_auto_topic_creation
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.include_topic_authorized_operations = include_topic_authorized_operations


class MetadataResponseBroker(ProtocolMessage):
    __slots__ = ("host", "node_id", "port", "rack")

    def __init__(self, node_id: int = 0, host: str = "", port: int = 0, rack: str | None = None) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class MetadataResponsePartition(ProtocolMessage):
    __slots__ = (
        "error_code",
        "isr_nodes",
        "leader_epoch",
        "leader_id",
        "offline_replicas",
        "partition_index",
        "replica_nodes",
    )

    def __init__(
        self,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: list[int] = NEW,
        isr_nodes: list[int] = NEW,
        offline_replicas: list[int] = NEW,
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes = [] if replica_nodes is NEW else replica_nodes
        self.isr_nodes = [] if isr_nodes is NEW else isr_nodes
        self.offline_replicas = [] if offline_replicas is NEW else offline_replicas


class MetadataResponseTopic(ProtocolMessage):
    __slots__ = ("error_code", "is_internal", "name", "partitions", "topic_authorized_operations", "topic_id")

    def __init__(
        self,
        error_code: int = 0,
        name: str | None = "",
        topic_id: bytes = NO_ID,
        is_internal: bool = False,
        partitions: list[MetadataResponsePartition] = NEW,
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = [] if partitions is NEW else partitions
        self.topic_authorized_operations = topic_authorized_operations


class MetadataResponse(ProtocolMessage):
    __slots__ = (
        "brokers",
        "cluster_authorized_operations",
        "cluster_id",
        "controller_id",
        "error_code",
        "throttle_time_ms",
        "topics",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        brokers: list[MetadataResponseBroker] = NEW,
        cluster_id: str | None = None,
        controller_id: int = -1,
        topics: list[MetadataResponseTopic] = NEW,
        cluster_authorized_operations: int = -2147483648,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.brokers = [] if brokers is NEW else brokers
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.topics = [] if topics is NEW else topics
        self.cluster_authorized_operations = cluster_authorized_operations
        self.error_code = error_code


class OffsetCommitRequestPartition(ProtocolMessage):
    __slots__ = (
        "commit_timestamp",
        "committed_leader_epoch",
        "committed_metadata",
        "committed_offset",
        "partition_index",
    )

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        committed_metadata: str | None = "",
        commit_timestamp: int = -1,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.committed_metadata = committed_metadata
        self.commit_timestamp = commit_timestamp


class OffsetCommitRequestTopic(ProtocolMessage):
    __slots__ = ("name", "partitions", "topic_id")

    def __init__(
        self, name: str = "", topic_id: bytes = NO_ID, partitions: list[OffsetCommitRequestPartition] = NEW
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class OffsetCommitRequest(ProtocolMessage):
    __slots__ = (
        "generation_id",
        "generation_id_or_member_epoch",
        "group_id",
        "group_instance_id",
        "member_id",
        "retention_time_ms",
        "topics",
    )

    def __init__(
        self,
        group_id: str = "",
        generation_id_or_member_epoch: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        retention_time_ms: int = -1,
        topics: list[OffsetCommitRequestTopic] = NEW,
        generation_id: int = -1,
    ) -> None:
        self.group_id = group_id
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.retention_time_ms = retention_time_ms
        self.topics = [] if topics is NEW else topics
        self.generation_id = generation_id


class OffsetCommitResponsePartition(ProtocolMessage):
    __slots__ = ("error_code", "partition_index")

    def __init__(self, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class OffsetCommitResponseTopic(ProtocolMessage):
    __slots__ = ("name", "partitions", "topic_id")

    def __init__(
        self, name: str = "", topic_id: bytes = NO_ID, partitions: list[OffsetCommitResponsePartition] = NEW
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class OffsetCommitResponse(ProtocolMessage):
    __slots__ = (
        "throttle_time_ms",
        "topics",
    )

    def __init__(self, throttle_time_ms: int = 0, topics: list[OffsetCommitResponseTopic] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW else topics


class OffsetDeleteRequestPartition(ProtocolMessage):
    __slots__ = ("partition_index",)

    def __init__(self, partition_index: int = 0) -> None:
        self.partition_index = partition_index


class OffsetDeleteRequestTopic(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[OffsetDeleteRequestPartition] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class OffsetDeleteRequest(ProtocolMessage):
    __slots__ = (
        "group_id",
        "topics",
    )

    def __init__(self, group_id: str = "", topics: list[OffsetDeleteRequestTopic] = NEW) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW else topics


class OffsetDeleteResponsePartition(ProtocolMessage):
    __slots__ = ("error_code", "partition_index")

    def __init__(self, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class OffsetDeleteResponseTopic(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[OffsetDeleteResponsePartition] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class OffsetDeleteResponse(ProtocolMessage):
    __slots__ = (
        "error_code",
        "throttle_time_ms",
        "topics",
    )

    def __init__(
        self, error_code: int = 0, throttle_time_ms: int = 0, topics: list[OffsetDeleteResponseTopic] = NEW
    ) -> None:
        self.error_code = error_code
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW else topics


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


class OffsetForLeaderPartition(ProtocolMessage):
    __slots__ = ("current_leader_epoch", "leader_epoch", "partition")

    def __init__(self, partition: int = 0, current_leader_epoch: int = -1, leader_epoch: int = 0) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.leader_epoch = leader_epoch


class OffsetForLeaderTopic(ProtocolMessage):
    __slots__ = ("partitions", "topic")

    def __init__(self, topic: str = "", partitions: list[OffsetForLeaderPartition] = NEW) -> None:
        self.topic = topic
        self.partitions = [] if partitions is NEW else partitions


class OffsetForLeaderEpochRequest(ProtocolMessage):
    __slots__ = (
        "replica_id",
        "topics",
    )

    def __init__(self, replica_id: int = -2, topics: list[OffsetForLeaderTopic] = NEW) -> None:
        self.replica_id = replica_id
        self.topics = [] if topics is NEW else topics


class OffsetForLeaderEpochResponseEpochEndOffset(ProtocolMessage):
    __slots__ = ("end_offset", "error_code", "leader_epoch", "partition")

    def __init__(self, error_code: int = 0, partition: int = 0, leader_epoch: int = -1, end_offset: int = -1) -> None:
        self.error_code = error_code
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.end_offset = end_offset


class OffsetForLeaderTopicResult(ProtocolMessage):
    __slots__ = ("partitions", "topic")

    def __init__(self, topic: str = "", partitions: list[OffsetForLeaderEpochResponseEpochEndOffset] = NEW) -> None:
        self.topic = topic
        self.partitions = [] if partitions is NEW else partitions


class OffsetForLeaderEpochResponse(ProtocolMessage):
    __slots__ = (
        "throttle_time_ms",
        "topics",
    )

    def __init__(self, throttle_time_ms: int = 0, topics: list[OffsetForLeaderTopicResult] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW else topics


class PartitionProduceData(ProtocolMessage):
    __slots__ = (
        "index",
        "records",
    )

    def __init__(self, index: int = 0, records: Records | None = None) -> None:
        self.index = index
        self.records = records


class TopicProduceData(ProtocolMessage):
    __slots__ = ("name", "partition_data", "topic_id")

    def __init__(
        self, name: str = "", topic_id: bytes = NO_ID, partition_data: list[PartitionProduceData] = NEW
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_data = [] if partition_data is NEW else partition_data


class ProduceRequest(ProtocolMessage):
    __slots__ = ("acks", "timeout_ms", "topic_data", "transactional_id")

    def __init__(
        self,
        transactional_id: str | None = None,
        acks: int = 0,
        timeout_ms: int = 0,
        topic_data: list[TopicProduceData] = NEW,
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_data = [] if topic_data is NEW else topic_data


class BatchIndexAndErrorMessage(ProtocolMessage):
    __slots__ = (
        "batch_index",
        "batch_index_error_message",
    )

    def __init__(self, batch_index: int = 0, batch_index_error_message: str | None = None) -> None:
        self.batch_index = batch_index
        self.batch_index_error_message = batch_index_error_message


class ProduceResponseLeaderIdAndEpoch(ProtocolMessage):
    __slots__ = ("leader_epoch", "leader_id")

    def __init__(self, leader_id: int = -1, leader_epoch: int = -1) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class PartitionProduceResponse(ProtocolMessage):
    __slots__ = (
        "base_offset",
        "current_leader",
        "error_code",
        "error_message",
        "index",
        "log_append_time_ms",
        "log_start_offset",
        "record_errors",
    )

    def __init__(
        self,
        index: int = 0,
        error_code: int = 0,
        base_offset: int = 0,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        record_errors: list[BatchIndexAndErrorMessage] = NEW,
        error_message: str | None = None,
        current_leader: ProduceResponseLeaderIdAndEpoch = NEW,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors = [] if record_errors is NEW else record_errors
        self.error_message = error_message
        self.current_leader = ProduceResponseLeaderIdAndEpoch() if current_leader is NEW else current_leader


class TopicProduceResponse(ProtocolMessage):
    __slots__ = ("name", "partition_responses", "topic_id")

    def __init__(
        self, name: str = "", topic_id: bytes = NO_ID, partition_responses: list[PartitionProduceResponse] = NEW
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_responses = [] if partition_responses is NEW else partition_responses


class ProduceResponseNodeEndpoint(ProtocolMessage):
    __slots__ = ("host", "node_id", "port", "rack")

    def __init__(self, node_id: int = 0, host: str = "", port: int = 0, rack: str | None = None) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class ProduceResponse(ProtocolMessage):
    __slots__ = ("node_endpoints", "responses", "throttle_time_ms")

    def __init__(
        self,
        responses: list[TopicProduceResponse] = NEW,
        throttle_time_ms: int = 0,
        node_endpoints: list[ProduceResponseNodeEndpoint] = NEW,
    ) -> None:
        self.responses = [] if responses is NEW else responses
        self.throttle_time_ms = throttle_time_ms
        self.node_endpoints = [] if node_endpoints is NEW else node_endpoints


class PushTelemetryRequest(ProtocolMessage):
    __slots__ = ("client_instance_id", "compression_type", "metrics", "subscription_id", "terminating")

    def __init__(
        self,
        client_instance_id: bytes = NO_ID,
        subscription_id: int = 0,
        terminating: bool = False,
        compression_type: int = 0,
        metrics: bytes = b"",
    ) -> None:
        self.client_instance_id = client_instance_id
        self.subscription_id = subscription_id
        self.terminating = terminating
        self.compression_type = compression_type
        self.metrics = metrics


class PushTelemetryResponse(ProtocolMessage):
    __slots__ = ("error_code", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code


class ReadShareGroupStateRequestPartitionData(ProtocolMessage):
    __slots__ = ("leader_epoch", "partition")

    def __init__(self, partition: int = 0, leader_epoch: int = 0) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch


class ReadStateData(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(
        self, topic_id: bytes = NO_ID, partitions: list[ReadShareGroupStateRequestPartitionData] = NEW
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class ReadShareGroupStateRequest(ProtocolMessage):
    __slots__ = (
        "group_id",
        "topics",
    )

    def __init__(self, group_id: str = "", topics: list[ReadStateData] = NEW) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW else topics


class ReadShareGroupStateResponseStateBatch(ProtocolMessage):
    __slots__ = ("delivery_count", "delivery_state", "first_offset", "last_offset")

    def __init__(
        self, first_offset: int = 0, last_offset: int = 0, delivery_state: int = 0, delivery_count: int = 0
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_state = delivery_state
        self.delivery_count = delivery_count


class ReadShareGroupStateResponsePartitionResult(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "partition", "start_offset", "state_batches", "state_epoch")

    def __init__(
        self,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        state_epoch: int = 0,
        start_offset: int = 0,
        state_batches: list[ReadShareGroupStateResponseStateBatch] = NEW,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message
        self.state_epoch = state_epoch
        self.start_offset = start_offset
        self.state_batches = [] if state_batches is NEW else state_batches


class ReadStateResult(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(
        self, topic_id: bytes = NO_ID, partitions: list[ReadShareGroupStateResponsePartitionResult] = NEW
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class ReadShareGroupStateResponse(ProtocolMessage):
    __slots__ = ("results",)

    def __init__(self, results: list[ReadStateResult] = NEW) -> None:
        self.results = [] if results is NEW else results


class ReadShareGroupStateSummaryRequestPartitionData(ProtocolMessage):
    __slots__ = ("leader_epoch", "partition")

    def __init__(self, partition: int = 0, leader_epoch: int = 0) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch


class ReadStateSummaryData(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(
        self, topic_id: bytes = NO_ID, partitions: list[ReadShareGroupStateSummaryRequestPartitionData] = NEW
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class ReadShareGroupStateSummaryRequest(ProtocolMessage):
    __slots__ = (
        "group_id",
        "topics",
    )

    def __init__(self, group_id: str = "", topics: list[ReadStateSummaryData] = NEW) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW else topics


class ReadShareGroupStateSummaryResponsePartitionResult(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "leader_epoch", "partition", "start_offset", "state_epoch")

    def __init__(
        self,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset


class ReadStateSummaryResult(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(
        self, topic_id: bytes = NO_ID, partitions: list[ReadShareGroupStateSummaryResponsePartitionResult] = NEW
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class ReadShareGroupStateSummaryResponse(ProtocolMessage):
    __slots__ = ("results",)

    def __init__(self, results: list[ReadStateSummaryResult] = NEW) -> None:
        self.results = [] if results is NEW else results


class RemoveRaftVoterRequest(ProtocolMessage):
    __slots__ = ("cluster_id", "voter_directory_id", "voter_id")

    def __init__(self, cluster_id: str | None = "", voter_id: int = 0, voter_directory_id: bytes = NO_ID) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id


class RemoveRaftVoterResponse(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = "") -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message


class RenewDelegationTokenRequest(ProtocolMessage):
    __slots__ = (
        "hmac",
        "renew_period_ms",
    )

    def __init__(self, hmac: bytes = b"", renew_period_ms: int = 0) -> None:
        self.hmac = hmac
        self.renew_period_ms = renew_period_ms


class RenewDelegationTokenResponse(ProtocolMessage):
    __slots__ = (
        "error_code",
        "expiry_timestamp_ms",
        "throttle_time_ms",
    )

    def __init__(self, error_code: int = 0, expiry_timestamp_ms: int = 0, throttle_time_ms: int = 0) -> None:
        self.error_code = error_code
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.throttle_time_ms = throttle_time_ms


class RequestHeader(ProtocolMessage):
    __slots__ = ("client_id", "correlation_id", "request_api_key", "request_api_version")

    def __init__(
        self,
        request_api_key: int = 0,
        request_api_version: int = 0,
        correlation_id: int = 0,
        client_id: str | None = "",
    ) -> None:
        self.request_api_key = request_api_key
        self.request_api_version = request_api_version
        self.correlation_id = correlation_id
        self.client_id = client_id


class ResponseHeader(ProtocolMessage):
    __slots__ = ("correlation_id",)

    def __init__(self, correlation_id: int = 0) -> None:
        self.correlation_id = correlation_id


class SaslAuthenticateRequest(ProtocolMessage):
    __slots__ = ("auth_bytes",)

    def __init__(self, auth_bytes: bytes = b"") -> None:
        self.auth_bytes = auth_bytes


class SaslAuthenticateResponse(ProtocolMessage):
    __slots__ = ("auth_bytes", "error_code", "error_message", "session_lifetime_ms")

    def __init__(
        self, error_code: int = 0, error_message: str | None = "", auth_bytes: bytes = b"", session_lifetime_ms: int = 0
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.auth_bytes = auth_bytes
        self.session_lifetime_ms = session_lifetime_ms


class SaslHandshakeRequest(ProtocolMessage):
    __slots__ = ("mechanism",)

    def __init__(self, mechanism: str = "") -> None:
        self.mechanism = mechanism


class SaslHandshakeResponse(ProtocolMessage):
    __slots__ = (
        "error_code",
        "mechanisms",
    )

    def __init__(self, error_code: int = 0, mechanisms: list[str] = NEW) -> None:
        self.error_code = error_code
        self.mechanisms = [] if mechanisms is NEW else mechanisms


class ShareAcknowledgeRequestAcknowledgementBatch(ProtocolMessage):
    __slots__ = ("acknowledge_types", "first_offset", "last_offset")

    def __init__(self, first_offset: int = 0, last_offset: int = 0, acknowledge_types: list[int] = NEW) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.acknowledge_types = [] if acknowledge_types is NEW else acknowledge_types


class AcknowledgePartition(ProtocolMessage):
    __slots__ = ("acknowledgement_batches", "partition_index")

    def __init__(
        self, partition_index: int = 0, acknowledgement_batches: list[ShareAcknowledgeRequestAcknowledgementBatch] = NEW
    ) -> None:
        self.partition_index = partition_index
        self.acknowledgement_batches = [] if acknowledgement_batches is NEW else acknowledgement_batches


class AcknowledgeTopic(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(self, topic_id: bytes = NO_ID, partitions: list[AcknowledgePartition] = NEW) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class ShareAcknowledgeRequest(ProtocolMessage):
    __slots__ = (
        "group_id",
        "member_id",
        "share_session_epoch",
        "topics",
    )

    def __init__(
        self,
        group_id: str | None = None,
        member_id: str | None = "",
        share_session_epoch: int = 0,
        topics: list[AcknowledgeTopic] = NEW,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.topics = [] if topics is NEW else topics


class ShareAcknowledgeResponseLeaderIdAndEpoch(ProtocolMessage):
    __slots__ = ("leader_epoch", "leader_id")

    def __init__(self, leader_id: int = 0, leader_epoch: int = 0) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class ShareAcknowledgeResponsePartitionData(ProtocolMessage):
    __slots__ = ("current_leader", "error_code", "error_message", "partition_index")

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        current_leader: ShareAcknowledgeResponseLeaderIdAndEpoch = NEW,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.current_leader = ShareAcknowledgeResponseLeaderIdAndEpoch() if current_leader is NEW else current_leader


class ShareAcknowledgeTopicResponse(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(self, topic_id: bytes = NO_ID, partitions: list[ShareAcknowledgeResponsePartitionData] = NEW) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class ShareAcknowledgeResponseNodeEndpoint(ProtocolMessage):
    __slots__ = ("host", "node_id", "port", "rack")

    def __init__(self, node_id: int = 0, host: str = "", port: int = 0, rack: str | None = None) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class ShareAcknowledgeResponse(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "node_endpoints", "responses", "throttle_time_ms")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[ShareAcknowledgeTopicResponse] = NEW,
        node_endpoints: list[ShareAcknowledgeResponseNodeEndpoint] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.responses = [] if responses is NEW else responses
        self.node_endpoints = [] if node_endpoints is NEW else node_endpoints


class ShareFetchRequestAcknowledgementBatch(ProtocolMessage):
    __slots__ = ("acknowledge_types", "first_offset", "last_offset")

    def __init__(self, first_offset: int = 0, last_offset: int = 0, acknowledge_types: list[int] = NEW) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.acknowledge_types = [] if acknowledge_types is NEW else acknowledge_types


class ShareFetchRequestFetchPartition(ProtocolMessage):
    __slots__ = ("acknowledgement_batches", "partition_index", "partition_max_bytes")

    def __init__(
        self,
        partition_index: int = 0,
        partition_max_bytes: int = 0,
        acknowledgement_batches: list[ShareFetchRequestAcknowledgementBatch] = NEW,
    ) -> None:
        self.partition_index = partition_index
        self.partition_max_bytes = partition_max_bytes
        self.acknowledgement_batches = [] if acknowledgement_batches is NEW else acknowledgement_batches


class ShareFetchRequestFetchTopic(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(self, topic_id: bytes = NO_ID, partitions: list[ShareFetchRequestFetchPartition] = NEW) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class ShareFetchRequestForgottenTopic(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(self, topic_id: bytes = NO_ID, partitions: list[int] = NEW) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class ShareFetchRequest(ProtocolMessage):
    __slots__ = (
        "batch_size",
        "forgotten_topics_data",
        "group_id",
        "max_bytes",
        "max_records",
        "max_wait_ms",
        "member_id",
        "min_bytes",
        "share_session_epoch",
        "topics",
    )

    def __init__(
        self,
        group_id: str | None = None,
        member_id: str | None = "",
        share_session_epoch: int = 0,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        max_records: int = 0,
        batch_size: int = 0,
        topics: list[ShareFetchRequestFetchTopic] = NEW,
        forgotten_topics_data: list[ShareFetchRequestForgottenTopic] = NEW,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.max_records = max_records
        self.batch_size = batch_size
        self.topics = [] if topics is NEW else topics
        self.forgotten_topics_data = [] if forgotten_topics_data is NEW else forgotten_topics_data


class ShareFetchResponseLeaderIdAndEpoch(ProtocolMessage):
    __slots__ = ("leader_epoch", "leader_id")

    def __init__(self, leader_id: int = 0, leader_epoch: int = 0) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class AcquiredRecords(ProtocolMessage):
    __slots__ = ("delivery_count", "first_offset", "last_offset")

    def __init__(self, first_offset: int = 0, last_offset: int = 0, delivery_count: int = 0) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_count = delivery_count


class ShareFetchResponsePartitionData(ProtocolMessage):
    __slots__ = (
        "acknowledge_error_code",
        "acknowledge_error_message",
        "acquired_records",
        "current_leader",
        "error_code",
        "error_message",
        "partition_index",
        "records",
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acknowledge_error_code: int = 0,
        acknowledge_error_message: str | None = None,
        current_leader: ShareFetchResponseLeaderIdAndEpoch = NEW,
        records: Records | None = None,
        acquired_records: list[AcquiredRecords] = NEW,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.acknowledge_error_code = acknowledge_error_code
        self.acknowledge_error_message = acknowledge_error_message
        self.current_leader = ShareFetchResponseLeaderIdAndEpoch() if current_leader is NEW else current_leader
        self.records = records
        self.acquired_records = [] if acquired_records is NEW else acquired_records


class ShareFetchableTopicResponse(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(self, topic_id: bytes = NO_ID, partitions: list[ShareFetchResponsePartitionData] = NEW) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class ShareFetchResponseNodeEndpoint(ProtocolMessage):
    __slots__ = ("host", "node_id", "port", "rack")

    def __init__(self, node_id: int = 0, host: str = "", port: int = 0, rack: str | None = None) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class ShareFetchResponse(ProtocolMessage):
    __slots__ = (
        "acquisition_lock_timeout_ms",
        "error_code",
        "error_message",
        "node_endpoints",
        "responses",
        "throttle_time_ms",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acquisition_lock_timeout_ms: int = 0,
        responses: list[ShareFetchableTopicResponse] = NEW,
        node_endpoints: list[ShareFetchResponseNodeEndpoint] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.acquisition_lock_timeout_ms = acquisition_lock_timeout_ms
        self.responses = [] if responses is NEW else responses
        self.node_endpoints = [] if node_endpoints is NEW else node_endpoints


class ShareGroupDescribeRequest(ProtocolMessage):
    __slots__ = (
        "group_ids",
        "include_authorized_operations",
    )

    def __init__(self, group_ids: list[str] = NEW, include_authorized_operations: bool = False) -> None:
        self.group_ids = [] if group_ids is NEW else group_ids
        self.include_authorized_operations = include_authorized_operations


class ShareGroupDescribeResponseTopicPartitions(ProtocolMessage):
    __slots__ = ("partitions", "topic_id", "topic_name")

    def __init__(self, topic_id: bytes = NO_ID, topic_name: str = "", partitions: list[int] = NEW) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions


class ShareGroupDescribeResponseAssignment(ProtocolMessage):
    __slots__ = ("topic_partitions",)

    def __init__(self, topic_partitions: list[ShareGroupDescribeResponseTopicPartitions] = NEW) -> None:
        self.topic_partitions = [] if topic_partitions is NEW else topic_partitions


class ShareGroupDescribeResponseMember(ProtocolMessage):
    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "member_epoch",
        "member_id",
        "rack_id",
        "subscribed_topic_names",
    )

    def __init__(
        self,
        member_id: str = "",
        rack_id: str | None = None,
        member_epoch: int = 0,
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] = NEW,
        assignment: ShareGroupDescribeResponseAssignment = NEW,
    ) -> None:
        self.member_id = member_id
        self.rack_id = rack_id
        self.member_epoch = member_epoch
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = [] if subscribed_topic_names is NEW else subscribed_topic_names
        self.assignment = ShareGroupDescribeResponseAssignment() if assignment is NEW else assignment


class ShareGroupDescribeResponseDescribedGroup(ProtocolMessage):
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
        members: list[ShareGroupDescribeResponseMember] = NEW,
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


class ShareGroupDescribeResponse(ProtocolMessage):
    __slots__ = ("groups", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, groups: list[ShareGroupDescribeResponseDescribedGroup] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is NEW else groups


class ShareGroupHeartbeatRequest(ProtocolMessage):
    __slots__ = ("group_id", "member_epoch", "member_id", "rack_id", "subscribed_topic_names")

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        rack_id: str | None = None,
        subscribed_topic_names: list[str] | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.rack_id = rack_id
        self.subscribed_topic_names = subscribed_topic_names


class ShareGroupHeartbeatResponseTopicPartitions(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(self, topic_id: bytes = NO_ID, partitions: list[int] = NEW) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class ShareGroupHeartbeatResponseAssignment(ProtocolMessage):
    __slots__ = ("topic_partitions",)

    def __init__(self, topic_partitions: list[ShareGroupHeartbeatResponseTopicPartitions] = NEW) -> None:
        self.topic_partitions = [] if topic_partitions is NEW else topic_partitions


class ShareGroupHeartbeatResponse(ProtocolMessage):
    __slots__ = (
        "assignment",
        "error_code",
        "error_message",
        "heartbeat_interval_ms",
        "member_epoch",
        "member_id",
        "throttle_time_ms",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str | None = None,
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        assignment: ShareGroupHeartbeatResponseAssignment | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.assignment = assignment


class SnapshotFooterRecord(ProtocolMessage):
    __slots__ = ("version",)

    def __init__(self, version: int = 0) -> None:
        self.version = version


class SnapshotHeaderRecord(ProtocolMessage):
    __slots__ = ("last_contained_log_timestamp", "version")

    def __init__(self, version: int = 0, last_contained_log_timestamp: int = 0) -> None:
        self.version = version
        self.last_contained_log_timestamp = last_contained_log_timestamp


class SyncGroupRequestAssignment(ProtocolMessage):
    __slots__ = ("assignment", "member_id")

    def __init__(self, member_id: str = "", assignment: bytes = b"") -> None:
        self.member_id = member_id
        self.assignment = assignment


class SyncGroupRequest(ProtocolMessage):
    __slots__ = (
        "assignments",
        "generation_id",
        "group_id",
        "group_instance_id",
        "member_id",
        "protocol_name",
        "protocol_type",
    )

    def __init__(
        self,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignments: list[SyncGroupRequestAssignment] = NEW,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignments = [] if assignments is NEW else assignments


class SyncGroupResponse(ProtocolMessage):
    __slots__ = ("assignment", "error_code", "protocol_name", "protocol_type", "throttle_time_ms")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignment: bytes = b"",
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignment = assignment


class TxnOffsetCommitRequestPartition(ProtocolMessage):
    __slots__ = ("committed_leader_epoch", "committed_metadata", "committed_offset", "partition_index")

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        committed_metadata: str | None = "",
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.committed_metadata = committed_metadata


class TxnOffsetCommitRequestTopic(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[TxnOffsetCommitRequestPartition] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class TxnOffsetCommitRequest(ProtocolMessage):
    __slots__ = (
        "generation_id",
        "group_id",
        "group_instance_id",
        "member_id",
        "producer_epoch",
        "producer_id",
        "topics",
        "transactional_id",
    )

    def __init__(
        self,
        transactional_id: str = "",
        group_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        generation_id: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        topics: list[TxnOffsetCommitRequestTopic] = NEW,
    ) -> None:
        self.transactional_id = transactional_id
        self.group_id = group_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.topics = [] if topics is NEW else topics


class TxnOffsetCommitResponsePartition(ProtocolMessage):
    __slots__ = ("error_code", "partition_index")

    def __init__(self, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class TxnOffsetCommitResponseTopic(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[TxnOffsetCommitResponsePartition] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class TxnOffsetCommitResponse(ProtocolMessage):
    __slots__ = (
        "throttle_time_ms",
        "topics",
    )

    def __init__(self, throttle_time_ms: int = 0, topics: list[TxnOffsetCommitResponseTopic] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW else topics


class UnregisterBrokerRequest(ProtocolMessage):
    __slots__ = ("broker_id",)

    def __init__(self, broker_id: int = 0) -> None:
        self.broker_id = broker_id


class UnregisterBrokerResponse(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = "") -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message


class FeatureUpdateKey(ProtocolMessage):
    __slots__ = ("allow_downgrade", "feature", "max_version_level", "upgrade_type")

    def __init__(
        self, feature: str = "", max_version_level: int = 0, allow_downgrade: bool = False, upgrade_type: int = 1
    ) -> None:
        self.feature = feature
        self.max_version_level = max_version_level
        self.allow_downgrade = allow_downgrade
        self.upgrade_type = upgrade_type


class UpdateFeaturesRequest(ProtocolMessage):
    __slots__ = ("feature_updates", "timeout_ms", "validate_only")

    def __init__(
        self, timeout_ms: int = 60000, feature_updates: list[FeatureUpdateKey] = NEW, validate_only: bool = False
    ) -> None:
        self.timeout_ms = timeout_ms
        self.feature_updates = [] if feature_updates is NEW else feature_updates
        self.validate_only = validate_only


class UpdatableFeatureResult(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "feature")

    def __init__(self, feature: str = "", error_code: int = 0, error_message: str | None = "") -> None:
        self.feature = feature
        self.error_code = error_code
        self.error_message = error_message


class UpdateFeaturesResponse(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "results", "throttle_time_ms")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: list[UpdatableFeatureResult] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = [] if results is NEW else results


class UpdateRaftVoterRequestListener(ProtocolMessage):
    __slots__ = ("host", "name", "port")

    def __init__(self, name: str = "", host: str = "", port: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port


class UpdateRaftVoterRequestKRaftVersionFeature(ProtocolMessage):
    __slots__ = ("max_supported_version", "min_supported_version")

    def __init__(self, min_supported_version: int = 0, max_supported_version: int = 0) -> None:
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


class UpdateRaftVoterRequest(ProtocolMessage):
    __slots__ = (
        "cluster_id",
        "current_leader_epoch",
        "k_raft_version_feature",
        "listeners",
        "voter_directory_id",
        "voter_id",
    )

    def __init__(
        self,
        cluster_id: str | None = "",
        current_leader_epoch: int = 0,
        voter_id: int = 0,
        voter_directory_id: bytes = NO_ID,
        listeners: list[UpdateRaftVoterRequestListener] = NEW,
        k_raft_version_feature: UpdateRaftVoterRequestKRaftVersionFeature = NEW,
    ) -> None:
        self.cluster_id = cluster_id
        self.current_leader_epoch = current_leader_epoch
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.listeners = [] if listeners is NEW else listeners
        self.k_raft_version_feature = (
            UpdateRaftVoterRequestKRaftVersionFeature() if k_raft_version_feature is NEW else k_raft_version_feature
        )


class CurrentLeader(ProtocolMessage):
    __slots__ = ("host", "leader_epoch", "leader_id", "port")

    def __init__(self, leader_id: int = -1, leader_epoch: int = -1, host: str = "", port: int = 0) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.host = host
        self.port = port


class UpdateRaftVoterResponse(ProtocolMessage):
    __slots__ = ("current_leader", "error_code", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0, current_leader: CurrentLeader = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.current_leader = CurrentLeader() if current_leader is NEW else current_leader


class VoteRequestPartitionData(ProtocolMessage):
    __slots__ = (
        "last_offset",
        "last_offset_epoch",
        "partition_index",
        "pre_vote",
        "replica_directory_id",
        "replica_epoch",
        "replica_id",
        "voter_directory_id",
    )

    def __init__(
        self,
        partition_index: int = 0,
        replica_epoch: int = 0,
        replica_id: int = 0,
        replica_directory_id: bytes = NO_ID,
        voter_directory_id: bytes = NO_ID,
        last_offset_epoch: int = 0,
        last_offset: int = 0,
        pre_vote: bool = False,
    ) -> None:
        self.partition_index = partition_index
        self.replica_epoch = replica_epoch
        self.replica_id = replica_id
        self.replica_directory_id = replica_directory_id
        self.voter_directory_id = voter_directory_id
        self.last_offset_epoch = last_offset_epoch
        self.last_offset = last_offset
        self.pre_vote = pre_vote


class VoteRequestTopicData(ProtocolMessage):
    __slots__ = ("partitions", "topic_name")

    def __init__(self, topic_name: str = "", partitions: list[VoteRequestPartitionData] = NEW) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions


class VoteRequest(ProtocolMessage):
    __slots__ = ("cluster_id", "topics", "voter_id")

    def __init__(
        self, cluster_id: str | None = None, voter_id: int = -1, topics: list[VoteRequestTopicData] = NEW
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.topics = [] if topics is NEW else topics


class VoteResponsePartitionData(ProtocolMessage):
    __slots__ = ("error_code", "leader_epoch", "leader_id", "partition_index", "vote_granted")

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
        vote_granted: bool = False,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.vote_granted = vote_granted


class VoteResponseTopicData(ProtocolMessage):
    __slots__ = ("partitions", "topic_name")

    def __init__(self, topic_name: str = "", partitions: list[VoteResponsePartitionData] = NEW) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions


class VoteResponseNodeEndpoint(ProtocolMessage):
    __slots__ = ("host", "node_id", "port")

    def __init__(self, node_id: int = 0, host: str = "", port: int = 0) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port


class VoteResponse(ProtocolMessage):
    __slots__ = ("error_code", "node_endpoints", "topics")

    def __init__(
        self,
        error_code: int = 0,
        topics: list[VoteResponseTopicData] = NEW,
        node_endpoints: list[VoteResponseNodeEndpoint] = NEW,
    ) -> None:
        self.error_code = error_code
        self.topics = [] if topics is NEW else topics
        self.node_endpoints = [] if node_endpoints is NEW else node_endpoints


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


class WriteShareGroupStateRequestStateBatch(ProtocolMessage):
    __slots__ = ("delivery_count", "delivery_state", "first_offset", "last_offset")

    def __init__(
        self, first_offset: int = 0, last_offset: int = 0, delivery_state: int = 0, delivery_count: int = 0
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_state = delivery_state
        self.delivery_count = delivery_count


class WriteShareGroupStateRequestPartitionData(ProtocolMessage):
    __slots__ = ("leader_epoch", "partition", "start_offset", "state_batches", "state_epoch")

    def __init__(
        self,
        partition: int = 0,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        state_batches: list[WriteShareGroupStateRequestStateBatch] = NEW,
    ) -> None:
        self.partition = partition
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.state_batches = [] if state_batches is NEW else state_batches


class WriteStateData(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(
        self, topic_id: bytes = NO_ID, partitions: list[WriteShareGroupStateRequestPartitionData] = NEW
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class WriteShareGroupStateRequest(ProtocolMessage):
    __slots__ = (
        "group_id",
        "topics",
    )

    def __init__(self, group_id: str = "", topics: list[WriteStateData] = NEW) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW else topics


class WriteShareGroupStateResponsePartitionResult(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "partition")

    def __init__(self, partition: int = 0, error_code: int = 0, error_message: str | None = None) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message


class WriteStateResult(ProtocolMessage):
    __slots__ = ("partitions", "topic_id")

    def __init__(
        self, topic_id: bytes = NO_ID, partitions: list[WriteShareGroupStateResponsePartitionResult] = NEW
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class WriteShareGroupStateResponse(ProtocolMessage):
    __slots__ = ("results",)

    def __init__(self, results: list[WriteStateResult] = NEW) -> None:
        self.results = [] if results is NEW else results


class WritableTxnMarkerTopic(ProtocolMessage):
    __slots__ = (
        "name",
        "partition_indexes",
    )

    def __init__(self, name: str = "", partition_indexes: list[int] = NEW) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is NEW else partition_indexes


class WritableTxnMarker(ProtocolMessage):
    __slots__ = ("coordinator_epoch", "producer_epoch", "producer_id", "topics", "transaction_result")

    def __init__(
        self,
        producer_id: int = 0,
        producer_epoch: int = 0,
        transaction_result: bool = False,
        topics: list[WritableTxnMarkerTopic] = NEW,
        coordinator_epoch: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.transaction_result = transaction_result
        self.topics = [] if topics is NEW else topics
        self.coordinator_epoch = coordinator_epoch


class WriteTxnMarkersRequest(ProtocolMessage):
    __slots__ = ("markers",)

    def __init__(self, markers: list[WritableTxnMarker] = NEW) -> None:
        self.markers = [] if markers is NEW else markers


class WritableTxnMarkerPartitionResult(ProtocolMessage):
    __slots__ = ("error_code", "partition_index")

    def __init__(self, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class WritableTxnMarkerTopicResult(ProtocolMessage):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(self, name: str = "", partitions: list[WritableTxnMarkerPartitionResult] = NEW) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class WritableTxnMarkerResult(ProtocolMessage):
    __slots__ = (
        "producer_id",
        "topics",
    )

    def __init__(self, producer_id: int = 0, topics: list[WritableTxnMarkerTopicResult] = NEW) -> None:
        self.producer_id = producer_id
        self.topics = [] if topics is NEW else topics


class WriteTxnMarkersResponse(ProtocolMessage):
    __slots__ = ("markers",)

    def __init__(self, markers: list[WritableTxnMarkerResult] = NEW) -> None:
        self.markers = [] if markers is NEW else markers
