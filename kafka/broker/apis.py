"""The APIs that the broker answers: key, versions, and the object that answers each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from offsetfs.kafka.broker.authorization.acl_admin import AclAdmin
from offsetfs.kafka.broker.batches.fetch import Fetching
from offsetfs.kafka.broker.batches.leader_epochs import LeaderEpochs
from offsetfs.kafka.broker.batches.offsets import Offsets
from offsetfs.kafka.broker.batches.produce import Producing
from offsetfs.kafka.broker.batches.producers import Producers
from offsetfs.kafka.broker.cluster import BrokerNode, Cluster
from offsetfs.kafka.broker.connections.api import Api, Client, Handle
from offsetfs.kafka.broker.groups.group_coordinator import GroupCoordinator
from offsetfs.kafka.broker.log_sync import LogSync
from offsetfs.kafka.broker.metrics import BrokerMetrics
from offsetfs.kafka.broker.scram_users import ScramUsers, refuse_authentication, refuse_handshake
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.broker.topics.client_quotas import describe_client_quotas
from offsetfs.kafka.broker.topics.configs import Configs
from offsetfs.kafka.broker.topics.log_dirs import LogDirs
from offsetfs.kafka.broker.topics.partitions import Topics
from offsetfs.kafka.broker.topics.replica_admin import ReplicaAdmin
from offsetfs.kafka.broker.topics.topic_admin import TopicAdmin
from offsetfs.kafka.broker.topics.topic_ids import (
    IDS_SINCE_OFFSET_COMMIT,
    IDS_SINCE_OFFSET_FETCH,
    IDS_SINCE_TXN_OFFSET_COMMIT,
    named,
)
from offsetfs.kafka.broker.transactions.transaction_admin import TransactionAdmin
from offsetfs.kafka.broker.transactions.transaction_coordinator import TransactionCoordinator
from offsetfs.kafka.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    FetchRequest,
    FetchResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    JoinGroupRequest,
    JoinGroupResponse,
)
from offsetfs.storage.security import SecurityStore

if TYPE_CHECKING:
    from offsetfs.kafka.broker.authorization.authorizer import Authorizer


def apis(
    topics: Topics,
    node: BrokerNode,
    coordinators: tuple[GroupCoordinator, TransactionCoordinator],
    security: SecurityStore,
    authorizer: Authorizer | None,
    settings: ServerSettings,
    syncs: LogSync,
    metrics: BrokerMetrics,
) -> list[Api]:
    """Return all APIs of a broker, with the objects that answer them. Without an authorizer, clients may do all."""
    groups, transactions = coordinators
    transaction_admin = TransactionAdmin(topics.directory, transactions)
    configs = Configs(topics, settings)
    admin = TopicAdmin(topics, configs, settings, groups.offsets.forget_topic)
    producing = Producing(topics, transactions, syncs, settings, metrics)
    fetching, offsets = Fetching(topics, node, settings, metrics), Offsets(topics)
    replicas = ReplicaAdmin(topics, node)
    users = ScramUsers(security)
    acls = AclAdmin(security, has_authorizer=authorizer is not None)
    versions: dict[int, tuple[int, int]] = {}
    cluster = Cluster(topics, node, versions)

    async def join(request: JoinGroupRequest, version: int, client: Client) -> JoinGroupResponse:
        may_describe = None if authorizer is None else authorizer.may_describe(client)
        return await groups.membership.join(request, version, client.client_id, client.host, may_describe)

    async def fetch(request: FetchRequest, version: int, client: Client) -> FetchResponse | None:
        permission = None if authorizer is None else authorizer.read_permission(client)
        return await fetching.fetch(request, version, permission, client.until_closed)

    async def find(request: FindCoordinatorRequest, version: int, client: Client) -> FindCoordinatorResponse:
        groups.membership.note_lookup(request, (client.host, client.port))
        return await groups.admin.find(request, version)

    async def consumer_heartbeat(
        request: ConsumerGroupHeartbeatRequest, version: int, client: Client
    ) -> ConsumerGroupHeartbeatResponse:
        may_describe = None if authorizer is None else authorizer.may_describe(client)
        return await groups.consumers.heartbeat(request, version, client.client_id, client.host, may_describe)

    found = [
        Api(0, "Produce", 0, 13, _plain(producing.produce), overlaps=True, has_records=True, writes_log=True),
        Api(1, "Fetch", 4, 18, fetch, may_wait=True, waits_itself=True, has_ranges=True),
        Api(2, "ListOffsets", 1, 11, _plain(offsets.list_offsets)),
        Api(3, "Metadata", 0, 13, _plain(cluster.metadata)),
        Api(
            8, "OffsetCommit", 2, 10, _plain(groups.offsets.commit), writes_log=True, ids_since=IDS_SINCE_OFFSET_COMMIT
        ),
        Api(9, "OffsetFetch", 1, 10, _plain(groups.offsets.fetch), ids_since=IDS_SINCE_OFFSET_FETCH),
        Api(10, "FindCoordinator", 0, 6, find),
        Api(11, "JoinGroup", 0, 9, join, may_wait=True),
        Api(12, "Heartbeat", 0, 4, _plain(groups.membership.heartbeat)),
        Api(13, "LeaveGroup", 0, 5, _plain(groups.membership.leave)),
        Api(14, "SyncGroup", 0, 5, _plain(groups.membership.sync), may_wait=True),
        Api(15, "DescribeGroups", 0, 6, _plain(groups.admin.describe)),
        Api(16, "ListGroups", 0, 5, _plain(groups.admin.list)),
        Api(17, "SaslHandshake", 0, 1, _plain(refuse_handshake)),
        Api(18, "ApiVersions", 0, 5, _plain(cluster.api_versions), offers_versions=True),
        Api(19, "CreateTopics", 2, 7, _plain(admin.create_topics)),
        Api(20, "DeleteTopics", 1, 6, _plain(admin.delete_topics)),
        Api(21, "DeleteRecords", 0, 2, _plain(admin.delete_records)),
        Api(22, "InitProducerId", 0, 5, _plain(transactions.init_producer_id)),
        Api(23, "OffsetForLeaderEpoch", 2, 4, _plain(LeaderEpochs(topics).offset_for_leader_epoch)),
        Api(24, "AddPartitionsToTxn", 0, 5, _plain(transactions.add_partitions)),
        Api(25, "AddOffsetsToTxn", 0, 4, _plain(transactions.add_offsets)),
        Api(26, "EndTxn", 0, 5, _plain(transactions.end)),
        Api(27, "WriteTxnMarkers", 1, 2, _plain(transaction_admin.write_markers)),
        Api(
            28,
            "TxnOffsetCommit",
            0,
            6,
            _plain(transactions.commit_offsets),
            writes_log=True,
            ids_since=IDS_SINCE_TXN_OFFSET_COMMIT,
        ),
        Api(29, "DescribeAcls", 1, 3, _plain(acls.describe)),
        Api(30, "CreateAcls", 1, 3, _plain(acls.create)),
        Api(31, "DeleteAcls", 1, 3, _plain(acls.delete)),
        Api(32, "DescribeConfigs", 1, 4, _plain(configs.describe_configs)),
        Api(33, "AlterConfigs", 0, 2, _plain(configs.alter_configs)),
        Api(34, "AlterReplicaLogDirs", 1, 2, _plain(replicas.alter_replica_log_dirs)),
        Api(35, "DescribeLogDirs", 1, 5, _plain(LogDirs(topics.directory).describe_log_dirs)),
        Api(36, "SaslAuthenticate", 0, 2, _plain(refuse_authentication)),
        Api(37, "CreatePartitions", 0, 3, _plain(admin.create_partitions)),
        Api(42, "DeleteGroups", 0, 3, _plain(groups.admin.delete)),
        Api(43, "ElectLeaders", 0, 2, _plain(replicas.elect_leaders)),
        Api(44, "IncrementalAlterConfigs", 0, 1, _plain(configs.incremental_alter_configs)),
        Api(45, "AlterPartitionReassignments", 0, 1, _plain(replicas.alter_reassignments)),
        Api(46, "ListPartitionReassignments", 0, 0, _plain(replicas.list_reassignments)),
        Api(47, "OffsetDelete", 0, 0, _plain(groups.offsets.delete)),
        Api(48, "DescribeClientQuotas", 0, 1, _plain(describe_client_quotas)),
        Api(50, "DescribeUserScramCredentials", 0, 0, _plain(users.describe)),
        Api(51, "AlterUserScramCredentials", 0, 0, _plain(users.alter)),
        Api(55, "DescribeQuorum", 0, 2, _plain(replicas.describe_quorum)),
        Api(60, "DescribeCluster", 0, 2, _plain(cluster.describe_cluster)),
        Api(61, "DescribeProducers", 0, 0, _plain(Producers(topics).describe)),
        Api(65, "DescribeTransactions", 0, 0, _plain(transaction_admin.describe)),
        Api(66, "ListTransactions", 0, 2, _plain(transaction_admin.list)),
        Api(68, "ConsumerGroupHeartbeat", 0, 1, consumer_heartbeat),
        Api(69, "ConsumerGroupDescribe", 0, 1, _plain(groups.consumers.describe)),
        Api(74, "ListConfigResources", 0, 1, _plain(configs.list_resources)),
        Api(75, "DescribeTopicPartitions", 0, 0, _plain(cluster.describe_topic_partitions)),
    ]
    versions.update({each.key: (each.first, each.last) for each in found})
    if authorizer is not None:
        # Imported here, because a broker without an authorizer does without.
        from offsetfs.kafka.broker.authorization.rules import authorized

        found = [authorized(each, authorizer, topics) for each in found]
    found = [named(each, topics) for each in found]
    return [replace(each, handle=metrics.measured(each.name, each.handle)) for each in found]


def _plain(handle: Callable[[Any, int], Awaitable[Any]]) -> Handle:
    """Return `handle` for requests whose client does not matter."""
    return lambda request, version, client: handle(request, version)
