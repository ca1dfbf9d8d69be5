"""The table of the APIs that the broker answers: key, class of the requests, versions, rule and handler of each.

A new API is in these files:

    kafka/broker/…                                  its handler
    kafka/broker/apis.py                            its row
    kafka/broker/authorization/…_rules.py           its rule, unless an existing rule is enough
    tests/broker/…                                  the test of the handler
    tests/fixtures/security/authorization_table.py  a request, and the ACLs that it needs
    docs/use/kafka-protocol.md                      its versions, and what is special

Tests of `tests/broker` fail until all of them are complete, and name the file that lacks the API. Two ask for more: a
large request of an API with arrays (`tests/fixtures/broker/large_requests.py`), and generated requests, or a reason
(`docs/evidence/differences.md`).

Lambdas name the classes of requests, because a class loads its module.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from offsetfs.kafka.broker.authorization import cluster_rules, group_rules, topic_rules, transaction_rules
from offsetfs.kafka.broker.authorization.acl_admin import AclAdmin
from offsetfs.kafka.broker.authorization.call import Call, Rule
from offsetfs.kafka.broker.authorization.cluster_rules import everyone, on_cluster, on_settings
from offsetfs.kafka.broker.batches.fetch import Fetching
from offsetfs.kafka.broker.batches.log_queries import LogQueries
from offsetfs.kafka.broker.batches.produce import Producing
from offsetfs.kafka.broker.cluster import BrokerNode, Cluster
from offsetfs.kafka.broker.connections.api import Answer, Api, Client
from offsetfs.kafka.broker.groups.group_coordinator import GroupCoordinator
from offsetfs.kafka.broker.log_sync import LogSync
from offsetfs.kafka.broker.metrics import BrokerMetrics
from offsetfs.kafka.broker.operations import Operation
from offsetfs.kafka.broker.scram_users import ScramUsers, refuse_authentication, refuse_handshake
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.broker.topics.configs import Configs, describe_client_quotas
from offsetfs.kafka.broker.topics.partitions import (
    IDS_SINCE_OFFSET_COMMIT,
    IDS_SINCE_OFFSET_FETCH,
    IDS_SINCE_TXN_OFFSET_COMMIT,
    Topics,
    named,
)
from offsetfs.kafka.broker.topics.replica_admin import ReplicaAdmin
from offsetfs.kafka.broker.topics.topic_admin import TopicAdmin
from offsetfs.kafka.broker.transactions.transaction_admin import TransactionAdmin
from offsetfs.kafka.broker.transactions.transaction_coordinator import TransactionCoordinator
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.message import ProtocolMessage
from offsetfs.kafka.protocol.schemas import api_names
from offsetfs.storage.security import SecurityStore

if TYPE_CHECKING:
    from offsetfs.kafka.broker.authorization.authorizer import Authorizer

_R = TypeVar("_R", bound=ProtocolMessage)

Handler = Callable[[_R, int], Awaitable[Answer]]
"""Answers a request of a version."""

ClientHandler = Callable[[_R, int, Client], Awaitable[Answer]]
"""Answers a request of a version and of a client."""


@dataclass(frozen=True, slots=True)
class BrokerParts:
    """Objects that the handlers of a broker share. Without an authorizer, clients may do all."""

    topics: Topics
    node: BrokerNode
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    security: SecurityStore
    authorizer: Authorizer | None
    settings: ServerSettings
    syncs: LogSync
    metrics: BrokerMetrics


def apis(parts: BrokerParts) -> dict[int, Api]:
    """Return all APIs of a broker by key, with the objects that answer them."""
    versions: dict[int, tuple[int, int]] = {}
    configs = Configs(parts.topics, parts.settings)
    rows = [
        *_record_apis(parts),
        *_cluster_apis(Cluster(parts.topics, parts.node, versions)),
        *_topic_apis(parts, configs),
        *_config_apis(configs),
        *_replica_apis(parts),
        *_group_apis(parts),
        *_offset_apis(parts),
        *_transaction_apis(parts),
        *_security_apis(parts),
    ]
    rows.sort(key=lambda api: api.key)
    versions.update({api.key: (api.first, api.last) for api in rows})
    return {api.key: replace(api, counts=parts.metrics.counts_of(api.name)) for api in rows}


def _api(key: int, request: Callable[[], type[_R]], first: int, last: int, rule: Rule, handler: Handler[_R]) -> Api:
    """Return a row whose handler takes requests of this class."""
    answer = cast(Handler[ProtocolMessage], handler)

    def handle(request: ProtocolMessage, version: int, client: Client) -> Awaitable[Answer]:
        return answer(request, version)

    return Api(key, api_names()[key], first, last, request, rule, handle)


def _client_api(
    key: int, request: Callable[[], type[_R]], first: int, last: int, rule: Rule, handler: ClientHandler[_R]
) -> Api:
    """Return a row whose handler takes requests of this class with their client."""
    return Api(key, api_names()[key], first, last, request, rule, cast(ClientHandler[ProtocolMessage], handler))


# --- the table -------------------------------------------------------------------------------------------------------


def _record_apis(parts: BrokerParts) -> list[Api]:
    topics, settings, metrics = parts.topics, parts.settings, parts.metrics
    producing = Producing(topics, parts.transactions, parts.syncs, settings, metrics)
    fetch = _Fetches(Fetching(topics, parts.node, settings, metrics), parts.authorizer).fetch
    queries, epochs_rule = LogQueries(topics), topic_rules.offset_for_leader_epoch
    of_produce = _api(0, lambda: m.ProduceRequest, 0, 13, topic_rules.produce, producing.produce)
    of_fetch = _client_api(1, lambda: m.FetchRequest, 4, 18, everyone, fetch)
    return [
        replace(of_produce, overlaps=True, has_records=True, writes_log=True),
        replace(of_fetch, may_wait=True, waits_itself=True, has_ranges=True),
        _api(2, lambda: m.ListOffsetsRequest, 1, 11, topic_rules.list_offsets, queries.list_offsets),
        _api(23, lambda: m.OffsetForLeaderEpochRequest, 2, 4, epochs_rule, queries.offset_for_leader_epoch),
        _api(61, lambda: m.DescribeProducersRequest, 0, 0, topic_rules.describe_producers, queries.describe_producers),
    ]


def _cluster_apis(cluster: Cluster) -> list[Api]:
    of_versions = _api(18, lambda: m.ApiVersionsRequest, 0, 5, everyone, cluster.api_versions)
    page, page_rule = cluster.describe_topic_partitions, topic_rules.describe_topic_partitions
    return [
        _api(3, lambda: m.MetadataRequest, 0, 13, topic_rules.metadata, cluster.metadata),
        replace(of_versions, offers_versions=True),
        _api(60, lambda: m.DescribeClusterRequest, 0, 2, topic_rules.describe_cluster, cluster.describe_cluster),
        _api(75, lambda: m.DescribeTopicPartitionsRequest, 0, 0, page_rule, page),
    ]


def _topic_apis(parts: BrokerParts, configs: Configs) -> list[Api]:
    admin = TopicAdmin(parts.topics, configs, parts.settings, parts.groups.offsets.forget_topic)
    return [
        _api(19, lambda: m.CreateTopicsRequest, 2, 7, topic_rules.create_topics, admin.create_topics),
        _api(20, lambda: m.DeleteTopicsRequest, 1, 6, topic_rules.delete_topics, admin.delete_topics),
        _api(21, lambda: m.DeleteRecordsRequest, 0, 2, topic_rules.delete_records, admin.delete_records),
        _api(37, lambda: m.CreatePartitionsRequest, 0, 3, topic_rules.create_partitions, admin.create_partitions),
    ]


def _config_apis(configs: Configs) -> list[Api]:
    shown = on_settings(Operation.DESCRIBE_CONFIGS, "results")
    changed = on_settings(Operation.ALTER_CONFIGS, "responses")
    listed = on_cluster(Operation.DESCRIBE_CONFIGS)
    return [
        _api(32, lambda: m.DescribeConfigsRequest, 1, 4, shown, configs.describe_configs),
        _api(33, lambda: m.AlterConfigsRequest, 0, 2, changed, configs.alter_configs),
        _api(44, lambda: m.IncrementalAlterConfigsRequest, 0, 1, changed, configs.incremental_alter_configs),
        _api(48, lambda: m.DescribeClientQuotasRequest, 0, 1, listed, describe_client_quotas),
        _api(74, lambda: m.ListConfigResourcesRequest, 0, 1, listed, configs.list_resources),
    ]


def _replica_apis(parts: BrokerParts) -> list[Api]:
    replicas = ReplicaAdmin(parts.topics, parts.node)
    alter, describe = on_cluster(Operation.ALTER), on_cluster(Operation.DESCRIBE)
    return [
        _api(34, lambda: m.AlterReplicaLogDirsRequest, 1, 2, alter, replicas.alter_replica_log_dirs),
        _api(35, lambda: m.DescribeLogDirsRequest, 1, 5, cluster_rules.describe_log_dirs, replicas.describe_log_dirs),
        _api(43, lambda: m.ElectLeadersRequest, 0, 2, alter, replicas.elect_leaders),
        _api(45, lambda: m.AlterPartitionReassignmentsRequest, 0, 1, alter, replicas.alter_reassignments),
        _api(46, lambda: m.ListPartitionReassignmentsRequest, 0, 0, describe, replicas.list_reassignments),
        _api(55, lambda: m.DescribeQuorumRequest, 0, 2, describe, replicas.describe_quorum),
    ]


def _group_apis(parts: BrokerParts) -> list[Api]:
    of_client = _Members(parts.groups, parts.authorizer)
    admin, members, consumers = parts.groups.admin, parts.groups.membership, parts.groups.consumers
    member, beat = group_rules.membership, group_rules.consumer_group_heartbeat
    of_join = _client_api(11, lambda: m.JoinGroupRequest, 0, 9, member, of_client.join)
    of_sync = _api(14, lambda: m.SyncGroupRequest, 0, 5, member, members.sync)
    return [
        _client_api(10, lambda: m.FindCoordinatorRequest, 0, 6, group_rules.find_coordinator, of_client.find),
        replace(of_join, may_wait=True),
        _api(12, lambda: m.HeartbeatRequest, 0, 4, member, members.heartbeat),
        _api(13, lambda: m.LeaveGroupRequest, 0, 5, member, members.leave),
        replace(of_sync, may_wait=True),
        _api(15, lambda: m.DescribeGroupsRequest, 0, 6, group_rules.describe_groups, admin.describe),
        _api(16, lambda: m.ListGroupsRequest, 0, 5, group_rules.list_groups, admin.list),
        _api(42, lambda: m.DeleteGroupsRequest, 0, 3, group_rules.delete_groups, admin.delete),
        _client_api(68, lambda: m.ConsumerGroupHeartbeatRequest, 0, 1, beat, of_client.consumer_heartbeat),
        _api(69, lambda: m.ConsumerGroupDescribeRequest, 0, 1, group_rules.consumer_group_describe, consumers.describe),
    ]


def _offset_apis(parts: BrokerParts) -> list[Api]:
    offsets, commit_offsets = parts.groups.offsets, parts.transactions.commit_offsets
    of_commit = _api(8, lambda: m.OffsetCommitRequest, 2, 10, group_rules.offset_commit, offsets.commit)
    of_fetch = _api(9, lambda: m.OffsetFetchRequest, 1, 10, group_rules.offset_fetch, offsets.fetch)
    of_txn = _api(28, lambda: m.TxnOffsetCommitRequest, 0, 6, transaction_rules.txn_offset_commit, commit_offsets)
    return [
        replace(of_commit, writes_log=True, ids_since=IDS_SINCE_OFFSET_COMMIT),
        replace(of_fetch, ids_since=IDS_SINCE_OFFSET_FETCH),
        replace(of_txn, writes_log=True, ids_since=IDS_SINCE_TXN_OFFSET_COMMIT),
        _api(47, lambda: m.OffsetDeleteRequest, 0, 0, group_rules.offset_delete, offsets.delete),
    ]


def _transaction_apis(parts: BrokerParts) -> list[Api]:
    known, rules = parts.transactions, transaction_rules
    admin = TransactionAdmin(parts.topics.directory, known)
    return [
        _api(22, lambda: m.InitProducerIdRequest, 0, 5, rules.init_producer_id, known.init_producer_id),
        _api(24, lambda: m.AddPartitionsToTxnRequest, 0, 5, rules.add_partitions_to_txn, known.add_partitions),
        _api(25, lambda: m.AddOffsetsToTxnRequest, 0, 4, rules.add_offsets_to_txn, known.add_offsets),
        _api(26, lambda: m.EndTxnRequest, 0, 5, rules.end_txn, known.end),
        _api(27, lambda: m.WriteTxnMarkersRequest, 1, 2, rules.write_txn_markers, admin.write_markers),
        _api(65, lambda: m.DescribeTransactionsRequest, 0, 0, rules.describe_transactions, admin.describe),
        _api(66, lambda: m.ListTransactionsRequest, 0, 2, rules.list_transactions, admin.list),
    ]


def _security_apis(parts: BrokerParts) -> list[Api]:
    acls, users = AclAdmin(parts.security, has_authorizer=parts.authorizer is not None), ScramUsers(parts.security)
    alter, describe = on_cluster(Operation.ALTER), on_cluster(Operation.DESCRIBE)
    alter_users = cluster_rules.alter_user_scram_credentials
    return [
        _api(17, lambda: m.SaslHandshakeRequest, 0, 1, everyone, refuse_handshake),
        _api(29, lambda: m.DescribeAclsRequest, 1, 3, describe, acls.describe),
        _api(30, lambda: m.CreateAclsRequest, 1, 3, alter, acls.create),
        _api(31, lambda: m.DeleteAclsRequest, 1, 3, alter, acls.delete),
        _api(36, lambda: m.SaslAuthenticateRequest, 0, 2, everyone, refuse_authentication),
        _api(50, lambda: m.DescribeUserScramCredentialsRequest, 0, 0, describe, users.describe),
        _api(51, lambda: m.AlterUserScramCredentialsRequest, 0, 0, alter_users, users.alter),
    ]


# --- handlers that take the client -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Fetches:
    """Fetch checks READ of each topic itself: a session reads topics that its request does not name."""

    fetching: Fetching
    authorizer: Authorizer | None

    def fetch(self, request: m.FetchRequest, version: int, client: Client) -> Awaitable[m.FetchResponse | None]:
        permission = None if self.authorizer is None else self.authorizer.read_permission(client)
        return self.fetching.fetch(request, version, permission, client.until_closed)


@dataclass(frozen=True, slots=True)
class _Members:
    """Requests of group members, which are described by their clients and may subscribe to what they may describe."""

    groups: GroupCoordinator
    authorizer: Authorizer | None

    def join(self, request: m.JoinGroupRequest, version: int, client: Client) -> Awaitable[m.JoinGroupResponse]:
        return self.groups.membership.join(request, version, client.client_id, client.host, self._may_describe(client))

    def consumer_heartbeat(
        self, request: m.ConsumerGroupHeartbeatRequest, version: int, client: Client
    ) -> Awaitable[m.ConsumerGroupHeartbeatResponse]:
        return self.groups.consumers.heartbeat(
            request, version, client.client_id, client.host, self._may_describe(client)
        )

    def find(
        self, request: m.FindCoordinatorRequest, version: int, client: Client
    ) -> Awaitable[m.FindCoordinatorResponse]:
        self.groups.membership.note_lookup(request, (client.host, client.port))
        return self.groups.admin.find(request, version)

    def _may_describe(self, client: Client) -> Callable[[str], bool] | None:
        return None if self.authorizer is None else self.authorizer.may_describe(client)


# --- from a connection to a handler ----------------------------------------------------------------------------------


class Dispatcher:
    """Brings a request to its handler: names for the ids of topics first, then the rule, then the handler.

    Without an authorizer no rule is called.
    """

    def __init__(self, topics: Topics, authorizer: Authorizer | None) -> None:
        self._topics = topics
        self._authorizer = authorizer

    def answer(self, api: Api, request: ProtocolMessage, version: int, client: Client) -> Awaitable[Answer]:
        """Return the response of the handler to what the client may do."""
        if version >= api.ids_since:
            return named(request, self._topics, partial(self._answer, api, request, version, client))
        if self._authorizer is None:  # one call fewer for most brokers
            return api.handle(request, version, client)
        return self._answer(api, request, version, client)

    def _answer(self, api: Api, request: ProtocolMessage, version: int, client: Client) -> Awaitable[Answer]:
        """Return the response of the handler to what is allowed, with errors for the rest."""
        authorizer = self._authorizer
        if authorizer is None:
            return api.handle(request, version, client)
        rule = cast(Rule, api.rule)
        return rule(Call(api, request, version, client, authorizer.identity_of(client), authorizer, self._topics))
