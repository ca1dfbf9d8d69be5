"""The values of records in `__cluster_metadata`. `scripts/protocol-schemas` writes this file.

A field that a version does not have keeps its default. Ids have 16 bytes.
"""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, NO_ID, ProtocolMessage


class AbortTransactionRecord(ProtocolMessage):
    __slots__ = ("reason",)

    def __init__(self, reason: str | None = None) -> None:
        self.reason = reason


class AccessControlEntryRecord(ProtocolMessage):
    __slots__ = (
        "host",
        "id",
        "operation",
        "pattern_type",
        "permission_type",
        "principal",
        "resource_name",
        "resource_type",
    )

    def __init__(
        self,
        id: bytes = NO_ID,
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 0,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.id = id
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class BeginTransactionRecord(ProtocolMessage):
    __slots__ = ("name",)

    def __init__(self, name: str | None = None) -> None:
        self.name = name


class BrokerRegistrationChangeRecord(ProtocolMessage):
    __slots__ = ("broker_epoch", "broker_id", "cordoned_log_dirs", "fenced", "in_controlled_shutdown", "log_dirs")

    def __init__(
        self,
        broker_id: int = 0,
        broker_epoch: int = 0,
        fenced: int = 0,
        in_controlled_shutdown: int = 0,
        log_dirs: list[bytes] = NEW,
        cordoned_log_dirs: list[bytes] | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.fenced = fenced
        self.in_controlled_shutdown = in_controlled_shutdown
        self.log_dirs = [] if log_dirs is NEW else log_dirs
        self.cordoned_log_dirs = cordoned_log_dirs


class ClearElrRecord(ProtocolMessage):
    __slots__ = ("topic_name",)

    def __init__(self, topic_name: str = "") -> None:
        self.topic_name = topic_name


class ClientQuotaRecordEntityData(ProtocolMessage):
    __slots__ = ("entity_name", "entity_type")

    def __init__(self, entity_type: str = "", entity_name: str | None = "") -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class ClientQuotaRecord(ProtocolMessage):
    __slots__ = ("entity", "key", "remove", "value")

    def __init__(
        self, entity: list[ClientQuotaRecordEntityData] = NEW, key: str = "", value: float = 0.0, remove: bool = False
    ) -> None:
        self.entity = [] if entity is NEW else entity
        self.key = key
        self.value = value
        self.remove = remove


class ConfigRecord(ProtocolMessage):
    __slots__ = ("name", "resource_name", "resource_type", "value")

    def __init__(self, resource_type: int = 0, resource_name: str = "", name: str = "", value: str | None = "") -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.name = name
        self.value = value


class DelegationTokenRecord(ProtocolMessage):
    __slots__ = (
        "expiration_timestamp",
        "issue_timestamp",
        "max_timestamp",
        "owner",
        "renewers",
        "requester",
        "token_id",
    )

    def __init__(
        self,
        owner: str = "",
        requester: str = "",
        renewers: list[str] = NEW,
        issue_timestamp: int = 0,
        max_timestamp: int = 0,
        expiration_timestamp: int = 0,
        token_id: str = "",
    ) -> None:
        self.owner = owner
        self.requester = requester
        self.renewers = [] if renewers is NEW else renewers
        self.issue_timestamp = issue_timestamp
        self.max_timestamp = max_timestamp
        self.expiration_timestamp = expiration_timestamp
        self.token_id = token_id


class EndTransactionRecord(ProtocolMessage):
    __slots__ = ()

    def __init__(self) -> None:
        pass


class FeatureLevelRecord(ProtocolMessage):
    __slots__ = ("feature_level", "name")

    def __init__(self, name: str = "", feature_level: int = 0) -> None:
        self.name = name
        self.feature_level = feature_level


class FenceBrokerRecord(ProtocolMessage):
    __slots__ = ("epoch", "id")

    def __init__(self, id: int = 0, epoch: int = 0) -> None:
        self.id = id
        self.epoch = epoch


class NoOpRecord(ProtocolMessage):
    __slots__ = ()

    def __init__(self) -> None:
        pass


class PartitionChangeRecord(ProtocolMessage):
    __slots__ = (
        "adding_replicas",
        "directories",
        "eligible_leader_replicas",
        "isr",
        "last_known_elr",
        "leader",
        "leader_recovery_state",
        "partition_id",
        "removing_replicas",
        "replicas",
        "topic_id",
    )

    def __init__(
        self,
        partition_id: int = -1,
        topic_id: bytes = NO_ID,
        isr: list[int] | None = None,
        leader: int = -2,
        replicas: list[int] | None = None,
        removing_replicas: list[int] | None = None,
        adding_replicas: list[int] | None = None,
        leader_recovery_state: int = -1,
        directories: list[bytes] | None = None,
        eligible_leader_replicas: list[int] | None = None,
        last_known_elr: list[int] | None = None,
    ) -> None:
        self.partition_id = partition_id
        self.topic_id = topic_id
        self.isr = isr
        self.leader = leader
        self.replicas = replicas
        self.removing_replicas = removing_replicas
        self.adding_replicas = adding_replicas
        self.leader_recovery_state = leader_recovery_state
        self.directories = directories
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr


class PartitionRecord(ProtocolMessage):
    __slots__ = (
        "adding_replicas",
        "directories",
        "eligible_leader_replicas",
        "isr",
        "last_known_elr",
        "leader",
        "leader_epoch",
        "leader_recovery_state",
        "partition_epoch",
        "partition_id",
        "removing_replicas",
        "replicas",
        "topic_id",
    )

    def __init__(
        self,
        partition_id: int = -1,
        topic_id: bytes = NO_ID,
        replicas: list[int] = NEW,
        isr: list[int] = NEW,
        removing_replicas: list[int] = NEW,
        adding_replicas: list[int] = NEW,
        leader: int = -1,
        leader_recovery_state: int = 0,
        leader_epoch: int = -1,
        partition_epoch: int = -1,
        directories: list[bytes] = NEW,
        eligible_leader_replicas: list[int] | None = None,
        last_known_elr: list[int] | None = None,
    ) -> None:
        self.partition_id = partition_id
        self.topic_id = topic_id
        self.replicas = [] if replicas is NEW else replicas
        self.isr = [] if isr is NEW else isr
        self.removing_replicas = [] if removing_replicas is NEW else removing_replicas
        self.adding_replicas = [] if adding_replicas is NEW else adding_replicas
        self.leader = leader
        self.leader_recovery_state = leader_recovery_state
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.directories = [] if directories is NEW else directories
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr


class ProducerIdsRecord(ProtocolMessage):
    __slots__ = ("broker_epoch", "broker_id", "next_producer_id")

    def __init__(self, broker_id: int = 0, broker_epoch: int = -1, next_producer_id: int = 0) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.next_producer_id = next_producer_id


class BrokerEndpoint(ProtocolMessage):
    __slots__ = ("host", "name", "port", "security_protocol")

    def __init__(self, name: str = "", host: str = "", port: int = 0, security_protocol: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.security_protocol = security_protocol


class BrokerFeature(ProtocolMessage):
    __slots__ = ("max_supported_version", "min_supported_version", "name")

    def __init__(self, name: str = "", min_supported_version: int = 0, max_supported_version: int = 0) -> None:
        self.name = name
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


class RegisterBrokerRecord(ProtocolMessage):
    __slots__ = (
        "broker_epoch",
        "broker_id",
        "cordoned_log_dirs",
        "end_points",
        "features",
        "fenced",
        "in_controlled_shutdown",
        "incarnation_id",
        "is_migrating_zk_broker",
        "log_dirs",
        "rack",
    )

    def __init__(
        self,
        broker_id: int = 0,
        is_migrating_zk_broker: bool = False,
        incarnation_id: bytes = NO_ID,
        broker_epoch: int = 0,
        end_points: list[BrokerEndpoint] = NEW,
        features: list[BrokerFeature] = NEW,
        rack: str | None = "",
        fenced: bool = True,
        in_controlled_shutdown: bool = False,
        log_dirs: list[bytes] = NEW,
        cordoned_log_dirs: list[bytes] | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.is_migrating_zk_broker = is_migrating_zk_broker
        self.incarnation_id = incarnation_id
        self.broker_epoch = broker_epoch
        self.end_points = [] if end_points is NEW else end_points
        self.features = [] if features is NEW else features
        self.rack = rack
        self.fenced = fenced
        self.in_controlled_shutdown = in_controlled_shutdown
        self.log_dirs = [] if log_dirs is NEW else log_dirs
        self.cordoned_log_dirs = cordoned_log_dirs


class ControllerEndpoint(ProtocolMessage):
    __slots__ = ("host", "name", "port", "security_protocol")

    def __init__(self, name: str = "", host: str = "", port: int = 0, security_protocol: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.security_protocol = security_protocol


class ControllerFeature(ProtocolMessage):
    __slots__ = ("max_supported_version", "min_supported_version", "name")

    def __init__(self, name: str = "", min_supported_version: int = 0, max_supported_version: int = 0) -> None:
        self.name = name
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


class RegisterControllerRecord(ProtocolMessage):
    __slots__ = ("controller_id", "end_points", "features", "incarnation_id", "zk_migration_ready")

    def __init__(
        self,
        controller_id: int = 0,
        incarnation_id: bytes = NO_ID,
        zk_migration_ready: bool = False,
        end_points: list[ControllerEndpoint] = NEW,
        features: list[ControllerFeature] = NEW,
    ) -> None:
        self.controller_id = controller_id
        self.incarnation_id = incarnation_id
        self.zk_migration_ready = zk_migration_ready
        self.end_points = [] if end_points is NEW else end_points
        self.features = [] if features is NEW else features


class RemoveAccessControlEntryRecord(ProtocolMessage):
    __slots__ = ("id",)

    def __init__(self, id: bytes = NO_ID) -> None:
        self.id = id


class RemoveDelegationTokenRecord(ProtocolMessage):
    __slots__ = ("token_id",)

    def __init__(self, token_id: str = "") -> None:
        self.token_id = token_id


class RemoveTopicRecord(ProtocolMessage):
    __slots__ = ("topic_id",)

    def __init__(self, topic_id: bytes = NO_ID) -> None:
        self.topic_id = topic_id


class RemoveUserScramCredentialRecord(ProtocolMessage):
    __slots__ = ("mechanism", "name")

    def __init__(self, name: str = "", mechanism: int = 0) -> None:
        self.name = name
        self.mechanism = mechanism


class TopicRecord(ProtocolMessage):
    __slots__ = (
        "name",
        "topic_id",
    )

    def __init__(self, name: str = "", topic_id: bytes = NO_ID) -> None:
        self.name = name
        self.topic_id = topic_id


class UnfenceBrokerRecord(ProtocolMessage):
    __slots__ = ("epoch", "id")

    def __init__(self, id: int = 0, epoch: int = 0) -> None:
        self.id = id
        self.epoch = epoch


class UnregisterBrokerRecord(ProtocolMessage):
    __slots__ = ("broker_epoch", "broker_id")

    def __init__(self, broker_id: int = 0, broker_epoch: int = 0) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch


class UnregisterControllerRecord(ProtocolMessage):
    __slots__ = ("controller_id",)

    def __init__(self, controller_id: int = 0) -> None:
        self.controller_id = controller_id


class UserScramCredentialRecord(ProtocolMessage):
    __slots__ = ("iterations", "mechanism", "name", "salt", "server_key", "stored_key")

    def __init__(
        self,
        name: str = "",
        mechanism: int = 0,
        salt: bytes = b"",
        stored_key: bytes = b"",
        server_key: bytes = b"",
        iterations: int = 0,
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.salt = salt
        self.stored_key = stored_key
        self.server_key = server_key
        self.iterations = iterations


class ZkMigrationStateRecord(ProtocolMessage):
    __slots__ = ("zk_migration_state",)

    def __init__(self, zk_migration_state: int = 0) -> None:
        self.zk_migration_state = zk_migration_state
