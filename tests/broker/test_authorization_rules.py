"""What each API needs, as in Kafka's KafkaApis and ControllerApis."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import trio
from authorized_broker import ADMIN, DENIALS, AuthorizedBroker, acl, codes
from group_requests import commit_request, join_request
from produce_requests import GOOD, altered
from running_broker import Running

from offsetfs.broker.authorization.authorizer import Authorizer
from offsetfs.broker.authorization.operations import SUPPORTED, UNKNOWN_OPERATIONS, Operation, Resource, bits
from offsetfs.broker.authorization.rules import RULES, authorized
from offsetfs.broker.connection import Client, ProtocolError
from offsetfs.broker.error_codes import ErrorCode
from offsetfs.protocol import messages as m
from offsetfs.storage import LogDirectory, TopicPartition
from offsetfs.storage.security import SecurityImage

pytestmark = pytest.mark.unit

NO_TOPIC, NO_GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
NO_CLUSTER, NO_ID = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
TRANSACTIONAL = 0x10

Needed = tuple[m.AclCreation, ErrorCode]
"""An ACL, and the error without it."""


@pytest.fixture
async def guarded(directory: LogDirectory, nursery: trio.Nursery) -> AsyncIterator[AuthorizedBroker]:
    found = AuthorizedBroker(directory)
    nursery.start_soon(found.broker.run)
    yield found
    found.broker.stop()
    found.listener.close()


def topic(operation: Operation, name: str = "t") -> Needed:
    return acl(operation, Resource.TOPIC, name), NO_TOPIC


def group(operation: Operation, name: str = "g") -> Needed:
    return acl(operation, Resource.GROUP, name), NO_GROUP


def cluster(operation: Operation) -> Needed:
    return acl(operation), NO_CLUSTER


def producer(operation: Operation, name: str = "tx") -> Needed:
    return acl(operation, Resource.TRANSACTIONAL_ID, name), NO_ID


def produce(data: bytes, *names: str, transactional_id: str | None = None) -> m.ProduceRequest:
    topics = [m.TopicProduceData(name, partition_data=[m.PartitionProduceData(0, data)]) for name in names]
    return m.ProduceRequest(transactional_id, 1, 1000, topics)


def fetch(*names: str) -> m.FetchRequest:
    partitions = [m.FetchRequestFetchPartition(0, partition_max_bytes=1000)]
    return m.FetchRequest(min_bytes=1, topics=[m.FetchRequestFetchTopic(name, partitions=partitions) for name in names])


def metadata(*names: str, **options: bool) -> m.MetadataRequest:
    return m.MetadataRequest([m.MetadataRequestTopic(name=name) for name in names], **options)


def committed(*names: str) -> m.OffsetFetchRequest:
    topics = [m.OffsetFetchRequestTopics(name, partition_indexes=[0]) for name in names]
    return m.OffsetFetchRequest(groups=[m.OffsetFetchRequestGroup("g", topics=topics)])


@dataclass(frozen=True, slots=True)
class Row:
    """A request, and the ACLs that it needs, all of them."""

    api: str
    version: int
    request: Any
    needed: tuple[Needed, ...] = ()


TRANSACTIONAL_BATCH = altered(GOOD, attributes=TRANSACTIONAL)
MOVED = m.AlterReplicaLogDirsRequest([m.AlterReplicaLogDir("/logs", [m.AlterReplicaLogDirTopic("t", [0])])])
ELECTION = m.ElectLeadersRequest(0, [m.ElectLeadersRequestTopicPartitions("t", [0])])
NEW_PARTITIONS = m.CreatePartitionsRequest([m.CreatePartitionsTopic("t", 2)], 1000)
NEW_TOPIC = m.CreateTopicsRequest([m.CreatableTopic("new", 1, 1)], 1000)
SETTINGS = [m.AlterConfigsRequestAlterConfigsResource(2, "t")]
CHANGES = [m.IncrementalAlterConfigsRequestAlterConfigsResource(2, "t")]
BROKER_CHANGES = [m.IncrementalAlterConfigsRequestAlterConfigsResource(4, "1")]
EPOCHS = m.OffsetForLeaderEpochRequest(-1, [m.OffsetForLeaderTopic("t", [m.OffsetForLeaderPartition(0, -1, 0)])])
TO_TRANSACTION = m.AddPartitionsToTxnRequest(
    v3_and_below_transactional_id="tx", v3_and_below_topics=[m.AddPartitionsToTxnTopic("t", [0])]
)
IN_TRANSACTION = m.TxnOffsetCommitRequest(
    "tx", "g", topics=[m.TxnOffsetCommitRequestTopic("t", [m.TxnOffsetCommitRequestPartition(0)])]
)
MARKERS = m.WriteTxnMarkersRequest([m.WritableTxnMarker(7, 0, False, [m.WritableTxnMarkerTopic("t", [0])])])
DELETED_OFFSETS = m.OffsetDeleteRequest("g", [m.OffsetDeleteRequestTopic("t", [m.OffsetDeleteRequestPartition(0)])])
DELETED_RECORDS = m.DeleteRecordsRequest([m.DeleteRecordsTopic("t", [m.DeleteRecordsPartition(0, 0)])], 1000)
ANY_ACL = m.DescribeAclsRequest(1, None, 1, None, None, 1, 1)
NEW_ACL = m.CreateAclsRequest([acl(Operation.READ, Resource.TOPIC, "x")])
OLD_ACL = m.DeleteAclsRequest([m.DeleteAclsFilter(2, "x", 3, None, None, 1, 1)])
CREDENTIALS = m.AlterUserScramCredentialsRequest([m.ScramCredentialDeletion("bob", 1)])
JOINING = m.ConsumerGroupHeartbeatRequest(
    "g", "", 0, rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[]
)

ROWS = [
    Row("Produce", 9, produce(GOOD, "t"), (topic(Operation.WRITE),)),
    Row(
        "Produce",
        9,
        produce(TRANSACTIONAL_BATCH, "t", transactional_id="tx"),
        (topic(Operation.WRITE), producer(Operation.WRITE)),
    ),
    Row("Fetch", 12, fetch("t"), (topic(Operation.READ),)),
    Row(
        "ListOffsets",
        7,
        m.ListOffsetsRequest(topics=[m.ListOffsetsTopic("t", [m.ListOffsetsPartition(0)])]),
        (topic(Operation.DESCRIBE),),
    ),
    Row("Metadata", 12, metadata("t"), (topic(Operation.DESCRIBE),)),
    Row("Metadata", 12, metadata("new"), (topic(Operation.DESCRIBE, "new"), topic(Operation.CREATE, "new"))),
    Row("Metadata", 12, metadata("new"), (topic(Operation.DESCRIBE, "new"), (acl(Operation.CREATE), NO_TOPIC))),
    Row("Metadata", 12, metadata("new", allow_auto_topic_creation=False), (topic(Operation.DESCRIBE, "new"),)),
    Row("OffsetCommit", 8, commit_request(0), (group(Operation.READ), topic(Operation.READ))),
    Row("OffsetFetch", 8, committed("t"), (group(Operation.DESCRIBE), topic(Operation.DESCRIBE))),
    Row(
        "OffsetFetch",
        7,
        m.OffsetFetchRequest("g", [m.OffsetFetchRequestTopic("t", [0])]),
        (group(Operation.DESCRIBE), topic(Operation.DESCRIBE)),
    ),
    Row("FindCoordinator", 4, m.FindCoordinatorRequest(coordinator_keys=["g"]), (group(Operation.DESCRIBE),)),
    Row("FindCoordinator", 3, m.FindCoordinatorRequest("g"), (group(Operation.DESCRIBE),)),
    Row("FindCoordinator", 3, m.FindCoordinatorRequest("tx", 1), (producer(Operation.DESCRIBE),)),
    Row("FindCoordinator", 4, m.FindCoordinatorRequest("", 1, ["tx"]), (producer(Operation.DESCRIBE),)),
    Row("JoinGroup", 7, join_request(), (group(Operation.READ),)),
    Row("Heartbeat", 4, m.HeartbeatRequest("g"), (group(Operation.READ),)),
    Row("LeaveGroup", 4, m.LeaveGroupRequest("g", members=[m.MemberIdentity("a")]), (group(Operation.READ),)),
    Row("SyncGroup", 4, m.SyncGroupRequest("g"), (group(Operation.READ),)),
    Row("DescribeGroups", 5, m.DescribeGroupsRequest(["g"]), (group(Operation.DESCRIBE),)),
    Row("ListGroups", 4, m.ListGroupsRequest()),
    Row("ApiVersions", 3, m.ApiVersionsRequest()),
    Row("CreateTopics", 7, NEW_TOPIC, (topic(Operation.CREATE, "new"), topic(Operation.DESCRIBE_CONFIGS, "new"))),
    Row("CreateTopics", 4, NEW_TOPIC, (topic(Operation.CREATE, "new"),)),
    Row("CreateTopics", 4, NEW_TOPIC, ((acl(Operation.CREATE), NO_TOPIC),)),
    Row("DeleteTopics", 6, m.DeleteTopicsRequest([m.DeleteTopicState("t")]), (topic(Operation.DELETE),)),
    Row("DeleteTopics", 5, m.DeleteTopicsRequest(topic_names=["t"]), (topic(Operation.DELETE),)),
    Row("DeleteRecords", 2, DELETED_RECORDS, (topic(Operation.DELETE),)),
    Row("InitProducerId", 4, m.InitProducerIdRequest("tx", 1000), (producer(Operation.WRITE),)),
    Row("InitProducerId", 4, m.InitProducerIdRequest(None), (cluster(Operation.IDEMPOTENT_WRITE),)),
    Row("InitProducerId", 4, m.InitProducerIdRequest(None), ((acl(Operation.WRITE, Resource.TOPIC, "x"), NO_CLUSTER),)),
    Row("OffsetForLeaderEpoch", 4, EPOCHS, (topic(Operation.DESCRIBE),)),
    Row("OffsetForLeaderEpoch", 4, EPOCHS, ((acl(Operation.CLUSTER_ACTION), NO_TOPIC),)),
    Row("AddPartitionsToTxn", 3, TO_TRANSACTION, (producer(Operation.WRITE), topic(Operation.WRITE))),
    Row("AddPartitionsToTxn", 4, m.AddPartitionsToTxnRequest(), (cluster(Operation.CLUSTER_ACTION),)),
    Row(
        "AddOffsetsToTxn",
        3,
        m.AddOffsetsToTxnRequest("tx", group_id="g"),
        (producer(Operation.WRITE), group(Operation.READ)),
    ),
    Row("EndTxn", 3, m.EndTxnRequest("tx"), (producer(Operation.WRITE),)),
    Row("WriteTxnMarkers", 1, MARKERS, (cluster(Operation.CLUSTER_ACTION),)),
    Row("WriteTxnMarkers", 1, MARKERS, (cluster(Operation.ALTER),)),
    Row(
        "TxnOffsetCommit", 3, IN_TRANSACTION, (producer(Operation.WRITE), group(Operation.READ), topic(Operation.READ))
    ),
    Row("DescribeAcls", 3, ANY_ACL, (cluster(Operation.DESCRIBE),)),
    Row("CreateAcls", 3, NEW_ACL, (cluster(Operation.ALTER),)),
    Row("DeleteAcls", 3, OLD_ACL, (cluster(Operation.ALTER),)),
    Row(
        "DescribeConfigs",
        4,
        m.DescribeConfigsRequest([m.DescribeConfigsResource(2, "t", None)]),
        (topic(Operation.DESCRIBE_CONFIGS),),
    ),
    Row(
        "DescribeConfigs",
        4,
        m.DescribeConfigsRequest([m.DescribeConfigsResource(4, "1", None)]),
        (cluster(Operation.DESCRIBE_CONFIGS),),
    ),
    Row("AlterConfigs", 2, m.AlterConfigsRequest(SETTINGS), (topic(Operation.ALTER_CONFIGS),)),
    Row(
        "IncrementalAlterConfigs",
        1,
        m.IncrementalAlterConfigsRequest(CHANGES),
        (topic(Operation.ALTER_CONFIGS),),
    ),
    Row(
        "IncrementalAlterConfigs",
        1,
        m.IncrementalAlterConfigsRequest(BROKER_CHANGES),
        (cluster(Operation.ALTER_CONFIGS),),
    ),
    Row("DescribeLogDirs", 4, m.DescribeLogDirsRequest(None), (cluster(Operation.DESCRIBE),)),
    Row("AlterReplicaLogDirs", 2, MOVED, (cluster(Operation.ALTER),)),
    Row("ElectLeaders", 2, ELECTION, (cluster(Operation.ALTER),)),
    Row("AlterPartitionReassignments", 1, m.AlterPartitionReassignmentsRequest(), (cluster(Operation.ALTER),)),
    Row("ListPartitionReassignments", 0, m.ListPartitionReassignmentsRequest(), (cluster(Operation.DESCRIBE),)),
    Row("ListConfigResources", 1, m.ListConfigResourcesRequest(), (cluster(Operation.DESCRIBE_CONFIGS),)),
    Row("CreatePartitions", 3, NEW_PARTITIONS, (topic(Operation.ALTER),)),
    Row("DeleteGroups", 2, m.DeleteGroupsRequest(["g"]), (group(Operation.DELETE),)),
    Row("OffsetDelete", 0, DELETED_OFFSETS, (group(Operation.DELETE), topic(Operation.READ))),
    Row("DescribeCluster", 1, m.DescribeClusterRequest()),
    Row(
        "DescribeProducers",
        0,
        m.DescribeProducersRequest([m.DescribeProducersRequestTopicRequest("t", [0])]),
        (topic(Operation.READ),),
    ),
    Row("DescribeTransactions", 0, m.DescribeTransactionsRequest(["tx"]), (producer(Operation.DESCRIBE),)),
    Row("ListTransactions", 1, m.ListTransactionsRequest()),
    Row("ConsumerGroupHeartbeat", 0, JOINING, (group(Operation.READ), topic(Operation.DESCRIBE))),
    Row("ConsumerGroupDescribe", 0, m.ConsumerGroupDescribeRequest(["g"]), (group(Operation.DESCRIBE),)),
    Row("SaslHandshake", 1, m.SaslHandshakeRequest("PLAIN")),
    Row("SaslAuthenticate", 2, m.SaslAuthenticateRequest(b"")),
    Row("DescribeUserScramCredentials", 0, m.DescribeUserScramCredentialsRequest(None), (cluster(Operation.DESCRIBE),)),
    Row("DescribeClientQuotas", 1, m.DescribeClientQuotasRequest(), (cluster(Operation.DESCRIBE_CONFIGS),)),
    Row("AlterUserScramCredentials", 0, CREDENTIALS, (cluster(Operation.ALTER),)),
    Row(
        "DescribeTopicPartitions",
        0,
        m.DescribeTopicPartitionsRequest([m.DescribeTopicPartitionsRequestTopicRequest("t")]),
        (topic(Operation.DESCRIBE),),
    ),
]


@pytest.mark.security("With an authorizer, each API checks every topic, group and transactional id of a request.")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.api}-{row.version}")
async def test_a_request_needs_its_acls(guarded: AuthorizedBroker, row: Row) -> None:
    acls = [each for each, _ in row.needed]
    for missing, code in row.needed:
        others = [each for each in acls if each is not missing]
        await guarded.grant(*others)
        assert codes(await guarded.ask(row.api, row.version, row.request)) & DENIALS == {code}, missing
        if others:
            await guarded.revoke(*others)
    await guarded.grant(*acls)
    assert not codes(await guarded.ask(row.api, row.version, row.request)) & DENIALS


async def test_each_api_has_a_rule_and_a_test(guarded: AuthorizedBroker) -> None:
    assert set(guarded.apis) <= RULES.keys()
    assert set(guarded.apis) <= {row.api for row in ROWS}


async def test_without_an_authorizer_every_client_may_do_everything(running: Running) -> None:
    assert (await running.send(1, "Fetch", 12, fetch("t"))).responses[0].partitions[0].error_code == 0
    response = await running.send(29, "DescribeAcls", 3, ANY_ACL)
    assert (response.error_code, response.error_message) == (
        ErrorCode.SECURITY_DISABLED,
        "No Authorizer is configured.",
    )


# --- parts of a request ----------------------------------------------------------------------------------------------


@pytest.fixture
def two_topics(directory: LogDirectory) -> None:
    directory.create_partitions([TopicPartition("secret", 0)])


async def test_a_request_is_answered_for_what_is_allowed_in_it(guarded: AuthorizedBroker, two_topics: None) -> None:
    await guarded.grant(acl(Operation.WRITE, Resource.TOPIC, "t"), acl(Operation.READ, Resource.TOPIC, "t"))
    produced = await guarded.ask("Produce", 9, produce(GOOD, "secret", "t"))
    found = {each.name: each.partition_responses[0] for each in produced.responses}
    assert (found["t"].error_code, found["t"].base_offset) == (0, 0)
    assert (found["secret"].error_code, found["secret"].base_offset) == (NO_TOPIC, -1)
    fetched = await guarded.ask("Fetch", 12, fetch("secret", "t"))
    records = {each.topic: each.partitions[0].records for each in fetched.responses}
    assert len(records["t"]) == len(GOOD) and not records["secret"]
    fetched = await guarded.ask("Fetch", 12, fetch("secret"), ADMIN)
    assert not fetched.responses[0].partitions[0].records, "nothing was appended"


async def test_topics_are_checked_by_name_where_a_request_has_ids(guarded: AuthorizedBroker) -> None:
    topic_id = guarded.broker._topics.topic_id("t")
    by_id = m.FetchRequest(
        topics=[m.FetchRequestFetchTopic(topic_id=topic_id, partitions=fetch("t").topics[0].partitions)]
    )
    appended = m.ProduceRequest(
        acks=1, topic_data=[m.TopicProduceData("", topic_id, [m.PartitionProduceData(0, GOOD)])]
    )
    asked = m.MetadataRequest([m.MetadataRequestTopic(topic_id, None)])
    deleted = m.DeleteTopicsRequest([m.DeleteTopicState(None, topic_id)])
    for api, version, request in (
        ("Fetch", 13, by_id),
        ("Produce", 13, appended),
        ("Metadata", 12, asked),
        ("DeleteTopics", 6, deleted),
    ):
        response = await guarded.ask(api, version, request)
        assert codes(response) & DENIALS == {NO_TOPIC}, api
        assert "'t'" not in repr(response), "the name is hidden"
    await guarded.grant(acl(Operation.ALL, Resource.TOPIC, "t"))
    for api, version, request in (("Fetch", 13, by_id), ("Produce", 13, appended), ("Metadata", 12, asked)):
        assert not codes(await guarded.ask(api, version, request)) & DENIALS, api


@pytest.mark.security("Listings show only the topics, groups and transactional ids that the client may describe.")
async def test_what_may_not_be_described_is_hidden(guarded: AuthorizedBroker, two_topics: None) -> None:
    pages = m.DescribeTopicPartitionsRequest()
    assert not (await guarded.ask("Metadata", 12, m.MetadataRequest(None))).topics
    assert not (await guarded.ask("DescribeTopicPartitions", 0, pages)).topics
    await guarded.grant(acl(Operation.READ, Resource.TOPIC, "t"))
    for version in (0, 12):
        found = await guarded.ask("Metadata", version, m.MetadataRequest(None if version else []))
        assert [each.name for each in found.topics] == ["t"]
    assert [each.name for each in (await guarded.ask("DescribeTopicPartitions", 0, pages)).topics] == ["t"]
    named = await guarded.ask("Metadata", 12, metadata("secret", "absent"))
    assert [(each.name, each.error_code) for each in named.topics] == [("secret", NO_TOPIC), ("absent", NO_TOPIC)]
    assert not any(each.partitions or any(each.topic_id) for each in named.topics)
    assert "absent" not in guarded.broker._topics.all()

    for name in ("g", "hidden"):
        request = commit_request(0)
        request.group_id = name
        assert codes(await guarded.ask("OffsetCommit", 8, request, ADMIN)) == {0}
        assert codes(await guarded.ask("InitProducerId", 4, m.InitProducerIdRequest(name, 1000), ADMIN)) == {0}
    await guarded.grant(acl(Operation.READ, Resource.GROUP, "g"))
    await guarded.grant(acl(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, "g"))
    shown = (await guarded.ask("ListGroups", 4, m.ListGroupsRequest())).groups
    ids = (await guarded.ask("ListTransactions", 1, m.ListTransactionsRequest())).transaction_states
    assert [each.group_id for each in shown] == [each.transactional_id for each in ids] == ["g"]


async def test_offsets_of_topics_that_may_not_be_described_are_hidden(guarded: AuthorizedBroker) -> None:
    assert codes(await guarded.ask("OffsetCommit", 8, commit_request(5), ADMIN)) == {0}
    await guarded.grant(acl(Operation.READ, Resource.GROUP, "g"))
    everything = m.OffsetFetchRequest(groups=[m.OffsetFetchRequestGroup("g", topics=None)])
    assert not (await guarded.ask("OffsetFetch", 8, everything)).groups[0].topics
    assert not (await guarded.ask("OffsetFetch", 7, m.OffsetFetchRequest("g", None))).topics
    await guarded.grant(acl(Operation.READ, Resource.TOPIC, "t"))
    assert [each.name for each in (await guarded.ask("OffsetFetch", 8, everything)).groups[0].topics] == ["t"]


async def test_a_session_of_fetches_follows_the_acls(guarded: AuthorizedBroker) -> None:
    read = acl(Operation.READ, Resource.TOPIC, "t")
    assert (await guarded.ask("Produce", 9, produce(GOOD, "t"), ADMIN)).responses[0].partition_responses[
        0
    ].error_code == 0
    first = fetch("t")
    first.session_epoch = 0
    response = await guarded.ask("Fetch", 12, first)
    assert response.responses[0].partitions[0].error_code == NO_TOPIC
    following = m.FetchRequest(min_bytes=1, session_id=response.session_id, session_epoch=1)
    await guarded.grant(read)
    assert len((await guarded.ask("Fetch", 12, following)).responses[0].partitions[0].records) == len(GOOD)
    following.session_epoch = 2
    await guarded.revoke(read)
    denied = (await guarded.ask("Fetch", 12, following)).responses[0].partitions[0]
    assert (denied.error_code, denied.records or b"") == (NO_TOPIC, b"")


async def test_responses_have_the_operations_that_are_allowed(guarded: AuthorizedBroker) -> None:
    await guarded.grant(
        acl(Operation.READ, Resource.TOPIC, "t"),
        acl(Operation.DELETE, Resource.GROUP, "g"),
        acl(Operation.DESCRIBE),
        acl(Operation.ALTER_CONFIGS),
    )
    on_topic = bits([Operation.READ, Operation.DESCRIBE])
    on_cluster = bits([Operation.DESCRIBE, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS])
    asked = metadata("t", include_cluster_authorized_operations=True, include_topic_authorized_operations=True)
    response = await guarded.ask("Metadata", 9, asked)
    assert response.topics[0].topic_authorized_operations == on_topic
    assert response.cluster_authorized_operations == on_cluster
    response = await guarded.ask("Metadata", 9, metadata("t"))
    assert response.topics[0].topic_authorized_operations == UNKNOWN_OPERATIONS
    assert response.cluster_authorized_operations == UNKNOWN_OPERATIONS
    response = await guarded.ask(
        "DescribeCluster", 1, m.DescribeClusterRequest(include_cluster_authorized_operations=True)
    )
    assert response.cluster_authorized_operations == on_cluster
    groups = await guarded.ask("DescribeGroups", 5, m.DescribeGroupsRequest(["g"], include_authorized_operations=True))
    assert groups.groups[0].authorized_operations == bits([Operation.DELETE, Operation.DESCRIBE])
    groups = await guarded.ask("DescribeGroups", 5, m.DescribeGroupsRequest(["g"]))
    assert groups.groups[0].authorized_operations == UNKNOWN_OPERATIONS
    pages = await guarded.ask("DescribeTopicPartitions", 0, m.DescribeTopicPartitionsRequest())
    assert pages.topics[0].topic_authorized_operations == on_topic
    asked = metadata("t", include_topic_authorized_operations=True)
    response = await guarded.ask("Metadata", 9, asked, ADMIN)
    assert response.topics[0].topic_authorized_operations == bits(SUPPORTED[Resource.TOPIC])


async def test_settings_of_a_new_topic_are_shown_to_clients_that_may_describe_them(guarded: AuthorizedBroker) -> None:
    await guarded.grant(acl(Operation.CREATE))
    created = (await guarded.ask("CreateTopics", 7, NEW_TOPIC)).topics[0]
    assert (created.error_code, created.topic_config_error_code) == (0, NO_TOPIC)
    assert (created.num_partitions, created.replication_factor, created.configs) == (-1, -1, [])


async def test_partitions_are_added_to_a_transaction_all_or_none(guarded: AuthorizedBroker, two_topics: None) -> None:
    await guarded.grant(
        acl(Operation.WRITE, Resource.TRANSACTIONAL_ID, "tx"), acl(Operation.WRITE, Resource.TOPIC, "t")
    )
    started = await guarded.ask("InitProducerId", 4, m.InitProducerIdRequest("tx", 1000))
    names = [m.AddPartitionsToTxnTopic(each, [0]) for each in ("t", "secret")]
    request = m.AddPartitionsToTxnRequest([], "tx", started.producer_id, started.producer_epoch, names)
    results = (await guarded.ask("AddPartitionsToTxn", 3, request)).results_by_topic_v3_and_below
    found = {each.name: each.results_by_partition[0].partition_error_code for each in results}
    assert found == {"secret": NO_TOPIC, "t": ErrorCode.OPERATION_NOT_ATTEMPTED}
    state = await guarded.ask("DescribeTransactions", 0, m.DescribeTransactionsRequest(["tx"]), ADMIN)
    assert state.transaction_states[0].transaction_state == "Empty"


async def test_topics_of_a_transaction_that_may_not_be_described_are_hidden(guarded: AuthorizedBroker) -> None:
    started = await guarded.ask("InitProducerId", 4, m.InitProducerIdRequest("tx", 1000), ADMIN)
    names = [m.AddPartitionsToTxnTopic("t", [0])]
    request = m.AddPartitionsToTxnRequest([], "tx", started.producer_id, started.producer_epoch, names)
    assert not (codes(await guarded.ask("AddPartitionsToTxn", 3, request, ADMIN)) - {0})
    await guarded.grant(acl(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, "tx"))
    asked = m.DescribeTransactionsRequest(["tx"])
    assert not (await guarded.ask("DescribeTransactions", 0, asked)).transaction_states[0].topics
    shown = (await guarded.ask("DescribeTransactions", 0, asked, ADMIN)).transaction_states[0].topics
    assert [each.topic for each in shown] == ["t"]


async def test_a_denied_request_without_acknowledgment_ends_its_connection(guarded: AuthorizedBroker) -> None:
    """Kafka closes the connection, so that the producer notices."""
    request = produce(GOOD, "t")
    request.acks = 0
    with pytest.raises(ProtocolError, match="TOPIC_AUTHORIZATION_FAILED"):
        await guarded.apis["Produce"].handle(request, 9, Client("test", "127.0.0.1", 1))


async def test_an_acl_for_a_host_counts_for_its_clients_alone(guarded: AuthorizedBroker) -> None:
    await guarded.grant(acl(Operation.READ, Resource.TOPIC, "t", host="10.0.0.7"))
    for host, code in (("10.0.0.7", 0), ("::ffff:10.0.0.7", 0), ("10.0.0.8", NO_TOPIC)):
        response = await guarded.ask("Fetch", 12, fetch("t"), host=host)
        assert response.responses[0].partitions[0].error_code == code, host
    assert (await guarded.send(1, "Fetch", 12, fetch("t"))).responses[0].partitions[0].error_code == NO_TOPIC
    await guarded.grant(acl(Operation.READ, Resource.TOPIC, "t", principal="User:ANONYMOUS", host="127.0.0.1"))
    assert (await guarded.send(1, "Fetch", 12, fetch("t"))).responses[0].partitions[0].error_code == 0


async def test_an_api_without_a_rule_is_denied(guarded: AuthorizedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    api = authorized(
        replace(guarded.apis["ListGroups"], name="DescribeQuorum"), Authorizer(SecurityImage()), guarded.broker._topics
    )
    response = await api.handle(m.DescribeQuorumRequest(), 1, Client("test", "127.0.0.1", 1))
    assert response.error_code == NO_CLUSTER
