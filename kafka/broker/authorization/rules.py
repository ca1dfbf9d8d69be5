"""The rule of each API: what its requests need, and what is answered where that is denied.

A rule gets a `Call`. It passes what is allowed to the handler of the API, and adds errors for the rest, so that
handlers know nothing of permissions. An API without a rule is denied. Without an authorizer no rule is called.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from offsetfs.kafka.broker.authorization import cluster_rules, group_rules, topic_rules, transaction_rules
from offsetfs.kafka.broker.authorization.authorizer import Authorizer, identity_of
from offsetfs.kafka.broker.authorization.call import Call
from offsetfs.kafka.broker.authorization.cluster_rules import everyone, on_cluster, on_settings
from offsetfs.kafka.broker.connections.api import Api, Client
from offsetfs.kafka.broker.operations import Operation
from offsetfs.kafka.broker.topics.partitions import Topics
from offsetfs.kafka.protocol.error_codes import ErrorCode

Rule = Callable[[Call], Awaitable[Any]]

RULES: Mapping[str, Rule] = {
    "AddOffsetsToTxn": transaction_rules.add_offsets_to_txn,
    "AddPartitionsToTxn": transaction_rules.add_partitions_to_txn,
    "AlterConfigs": on_settings(Operation.ALTER_CONFIGS, "responses"),
    "AlterPartitionReassignments": on_cluster(Operation.ALTER),
    "AlterReplicaLogDirs": on_cluster(Operation.ALTER),
    "AlterUserScramCredentials": cluster_rules.alter_user_scram_credentials,
    "ApiVersions": everyone,
    "ConsumerGroupDescribe": group_rules.consumer_group_describe,
    "ConsumerGroupHeartbeat": group_rules.consumer_group_heartbeat,
    "CreateAcls": on_cluster(Operation.ALTER),
    "CreatePartitions": topic_rules.create_partitions,
    "CreateTopics": topic_rules.create_topics,
    "DeleteAcls": on_cluster(Operation.ALTER),
    "DeleteGroups": group_rules.delete_groups,
    "DeleteRecords": topic_rules.delete_records,
    "DeleteTopics": topic_rules.delete_topics,
    "DescribeAcls": on_cluster(Operation.DESCRIBE),
    "DescribeClientQuotas": on_cluster(Operation.DESCRIBE_CONFIGS),
    "DescribeCluster": topic_rules.describe_cluster,
    "DescribeConfigs": on_settings(Operation.DESCRIBE_CONFIGS, "results"),
    "DescribeGroups": group_rules.describe_groups,
    "DescribeLogDirs": cluster_rules.describe_log_dirs,
    "DescribeProducers": topic_rules.describe_producers,
    "DescribeQuorum": on_cluster(Operation.DESCRIBE),
    "DescribeTopicPartitions": topic_rules.describe_topic_partitions,
    "DescribeTransactions": transaction_rules.describe_transactions,
    "DescribeUserScramCredentials": on_cluster(Operation.DESCRIBE),
    "ElectLeaders": on_cluster(Operation.ALTER),
    "EndTxn": transaction_rules.end_txn,
    "Fetch": everyone,
    "FindCoordinator": group_rules.find_coordinator,
    "Heartbeat": group_rules.membership,
    "IncrementalAlterConfigs": on_settings(Operation.ALTER_CONFIGS, "responses"),
    "InitProducerId": transaction_rules.init_producer_id,
    "JoinGroup": group_rules.membership,
    "LeaveGroup": group_rules.membership,
    "ListConfigResources": on_cluster(Operation.DESCRIBE_CONFIGS),
    "ListGroups": group_rules.list_groups,
    "ListOffsets": topic_rules.list_offsets,
    "ListPartitionReassignments": on_cluster(Operation.DESCRIBE),
    "ListTransactions": transaction_rules.list_transactions,
    "Metadata": topic_rules.metadata,
    "OffsetCommit": group_rules.offset_commit,
    "OffsetDelete": group_rules.offset_delete,
    "OffsetFetch": group_rules.offset_fetch,
    "OffsetForLeaderEpoch": topic_rules.offset_for_leader_epoch,
    "Produce": topic_rules.produce,
    "SaslAuthenticate": everyone,
    "SaslHandshake": everyone,
    "SyncGroup": group_rules.membership,
    "TxnOffsetCommit": transaction_rules.txn_offset_commit,
    "WriteTxnMarkers": transaction_rules.write_txn_markers,
}
"""The rule of each API. `Fetch` checks READ itself: a session reads topics that its request does not name."""


def authorized(api: Api, authorizer: Authorizer, topics: Topics) -> Api:
    """Return an API whose handler gets only what the client may do."""
    rule, handle = RULES.get(api.name, _deny), api.handle

    async def check(request: Any, version: int, client: Client) -> Any:
        return await rule(Call(api, request, version, client, handle, identity_of(client), authorizer, topics))

    return replace(api, handle=check)


async def _deny(call: Call) -> Any:
    return await call.failed(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
