"""What each API needs, as in Kafka's KafkaApis and ControllerApis."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from fixtures.broker.group_requests import commit_request
from fixtures.broker.produce_requests import GOOD
from fixtures.broker.running import Running
from fixtures.security.authorization_table import ANY_ACL, NEW_TOPIC, NO_TOPIC, ROWS, Row, fetch, metadata, produce
from fixtures.security.authorized_broker import ADMIN, DENIALS, AuthorizedBroker, acl, codes

from offsetfs.kafka.broker.authorization.call import Call
from offsetfs.kafka.broker.connections.api import Api, Client
from offsetfs.kafka.broker.connections.connection import ProtocolError
from offsetfs.kafka.broker.operations import SUPPORTED, UNKNOWN_OPERATIONS, Operation, Resource, bits
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import LogDirectory, TopicPartition

pytestmark = pytest.mark.unit


@pytest.mark.long
@pytest.mark.security("With an authorizer, each API checks every topic, group and transactional id of a request.")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.api}-{row.version}")
async def test_a_request_needs_its_acls(guarded: AuthorizedBroker, row: Row) -> None:
    await guarded.ask("OffsetCommit", 8, commit_request(0), ADMIN)  # the group exists
    acls = [each for each, _ in row.needed]
    for missing, code in row.needed:
        others = [each for each in acls if each is not missing]
        await guarded.grant(*others)
        assert codes(await guarded.ask(row.api, row.version, row.request)) & DENIALS == {code}, missing
        if others:
            await guarded.revoke(*others)
    await guarded.grant(*acls)
    assert not codes(await guarded.ask(row.api, row.version, row.request)) & DENIALS


@pytest.mark.security("No API is answered without a rule.")
async def test_each_api_has_a_rule_and_a_test(guarded: AuthorizedBroker) -> None:
    missing = set(guarded.apis) - {row.api for row in ROWS}
    assert not missing, f"add a Row of {missing} to tests/fixtures/security/authorization_table.py"
    found = list[Api]()

    async def rule(call: Call) -> None:
        found.append(call.api)

    for row in ROWS:
        api = replace(guarded.apis[row.api], rule=rule)
        await guarded.broker._shared.dispatch(api, row.request, row.version, Client("test", "127.0.0.1", 1))
        assert found.pop() is api


async def test_each_row_has_the_class_of_its_requests(guarded: AuthorizedBroker) -> None:
    assert all(each.request().__name__ == f"{name}Request" for name, each in guarded.apis.items())


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


@pytest.mark.parametrize("first", ["User:alice", ADMIN])
async def test_a_regular_expression_matches_topics_that_the_member_may_describe(
    guarded: AuthorizedBroker, two_topics: None, first: str
) -> None:
    await guarded.grant(acl(Operation.READ, Resource.GROUP, "g"), acl(Operation.DESCRIBE, Resource.TOPIC, "t"))
    joining = m.ConsumerGroupHeartbeatRequest(
        "g", "m", 0, rebalance_timeout_ms=1000, subscribed_topic_regex=".*", topic_partitions=[]
    )
    response = await guarded.ask("ConsumerGroupHeartbeat", 1, joining, first)
    assigned = {each.topic_id for each in response.assignment.topic_partitions}
    id_of = guarded.broker._topics.topic_id
    assert id_of("t") in assigned
    assert (id_of("secret") in assigned) == (first == ADMIN)
    asked = m.ConsumerGroupDescribeRequest(["g"], include_authorized_operations=True)
    group = (await guarded.ask("ConsumerGroupDescribe", 1, asked)).groups[0]
    hidden = "The group has described topic(s) that the client is not authorized to describe."
    if first == ADMIN:
        assert (group.error_code, group.error_message, group.members) == (NO_TOPIC, hidden, [])
    else:
        assert group.error_code == 0 and len(group.members) == 1
        assert group.authorized_operations == bits([Operation.READ, Operation.DESCRIBE])


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


async def test_a_denied_request_without_acknowledgment_ends_its_connection(
    guarded: AuthorizedBroker, two_topics: None, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka closes the connection, so that the producer notices; records of other topics are appended."""
    caplog.set_level(logging.DEBUG, "offsetfs.kafka.broker.authorization")
    await guarded.grant(acl(Operation.WRITE, Resource.TOPIC, "t"))
    request = produce(GOOD, "secret", "t")
    request.acks = 0
    with pytest.raises(ProtocolError, match="TOPIC_AUTHORIZATION_FAILED"):
        await guarded.ask("Produce", 9, request)
    assert "Produce of 'User:alice' from 127.0.0.1: TOPIC_AUTHORIZATION_FAILED" in caplog.text
    fetched = await guarded.ask("Fetch", 12, fetch("secret", "t"), ADMIN)
    assert {each.topic: len(each.partitions[0].records or b"") for each in fetched.responses} == {
        "secret": 0,
        "t": len(GOOD),
    }


async def test_an_acl_for_a_host_counts_for_its_clients_alone(guarded: AuthorizedBroker) -> None:
    await guarded.grant(acl(Operation.READ, Resource.TOPIC, "t", host="10.0.0.7"))
    for host, code in (("10.0.0.7", 0), ("::ffff:10.0.0.7", 0), ("10.0.0.8", NO_TOPIC)):
        response = await guarded.ask("Fetch", 12, fetch("t"), host=host)
        assert response.responses[0].partitions[0].error_code == code, host
    assert (await guarded.send(1, "Fetch", 12, fetch("t"))).responses[0].partitions[0].error_code == NO_TOPIC
    await guarded.grant(acl(Operation.READ, Resource.TOPIC, "t", principal="User:ANONYMOUS", host="127.0.0.1"))
    assert (await guarded.send(1, "Fetch", 12, fetch("t"))).responses[0].partitions[0].error_code == 0
