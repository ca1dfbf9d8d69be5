"""Answers that once differed from Kafka's, found by sending the same requests to both (tests/interop)."""

from __future__ import annotations

import pytest
import trio
from fixtures.broker.produce_requests import GOOD, altered
from fixtures.broker.running import Running

from offsetfs.kafka.broker.operations import TOPIC_OPERATIONS
from offsetfs.kafka.protocol import messages as m

pytestmark = pytest.mark.unit

_COMMIT = m.OffsetCommitRequest(
    "g", topics=[m.OffsetCommitRequestTopic("t", partitions=[m.OffsetCommitRequestPartition(0, 1)])]
)


async def test_describe_of_a_missing_topic_has_the_operations_of_the_client(running: Running) -> None:
    request = m.DescribeTopicPartitionsRequest(
        [m.DescribeTopicPartitionsRequestTopicRequest(each) for each in ("x", "a b")]
    )
    found = await running.send(75, "DescribeTopicPartitions", 0, request)
    assert [(each.name, each.error_code, each.topic_authorized_operations) for each in found.topics] == [
        ("a b", 17, TOPIC_OPERATIONS),
        ("x", 3, TOPIC_OPERATIONS),
    ]


@pytest.mark.parametrize("version", [10, 11])
async def test_metadata_without_names_is_an_invalid_request_before_version_12(running: Running, version: int) -> None:
    """A null name was UNKNOWN_SERVER_ERROR, and the error was logged: a response of these versions has no null."""
    topics = [m.MetadataRequestTopic(name=None), m.MetadataRequestTopic(name="t", topic_id=bytes(range(16)))]
    found = await running.send(3, "Metadata", version, m.MetadataRequest(topics))
    assert [(each.error_code, each.name) for each in found.topics] == [(42, ""), (42, "t")]
    assert (found.brokers, found.cluster_id, found.controller_id) == ([], None, -1)


async def test_a_commit_of_an_unknown_member_is_refused_before_its_metadata(running: Running) -> None:
    partitions = [m.OffsetCommitRequestPartition(0, 1, committed_metadata="x" * 5000)]
    request = m.OffsetCommitRequest("g", 5, "unknown", topics=[m.OffsetCommitRequestTopic("t", partitions=partitions)])
    found = await running.send(8, "OffsetCommit", 8, request)
    assert found.topics[0].partitions[0].error_code == 22


async def test_topics_without_partitions_are_not_in_responses(running: Running) -> None:
    produced = await running.send(0, "Produce", 9, m.ProduceRequest(acks=1, topic_data=[m.TopicProduceData("t")]))
    listed = await running.send(2, "ListOffsets", 5, m.ListOffsetsRequest(-1, topics=[m.ListOffsetsTopic("t")]))
    commit = m.OffsetCommitRequest("g", topics=[m.OffsetCommitRequestTopic("t")])
    committed = await running.send(8, "OffsetCommit", 8, commit)
    assert (produced.responses, listed.topics, committed.topics) == ([], [], [])


async def test_deleting_records_of_a_compacted_topic_is_no_error_of_the_broker(running: Running) -> None:
    """It was logged as one."""
    topics = [m.CreatableTopic("compacted", 1, 1, configs=[m.CreatableTopicConfig("cleanup.policy", "compact")])]
    await running.send(19, "CreateTopics", 5, m.CreateTopicsRequest(topics, 10_000))
    asked = m.DeleteRecordsRequest([m.DeleteRecordsTopic("compacted", [m.DeleteRecordsPartition(0, 0)])], 10_000)
    found = await running.send(21, "DeleteRecords", 2, asked)
    assert found.topics[0].partitions[0].error_code == 44


async def test_metadata_of_a_missing_topic_has_the_operations_of_the_client(running: Running) -> None:
    request = m.MetadataRequest(
        [m.MetadataRequestTopic(name="a b")],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    found = await running.send(3, "Metadata", 9, request)
    assert [(each.error_code, each.topic_authorized_operations) for each in found.topics] == [(17, TOPIC_OPERATIONS)]


async def test_a_fetch_session_may_begin_without_partitions(running: Running) -> None:
    found = await running.send(1, "Fetch", 12, m.FetchRequest(max_wait_ms=0, session_epoch=0))
    assert found.session_id > 0


async def test_a_wrong_setting_of_a_new_topic_is_reported_before_a_wrong_assignment(running: Running) -> None:
    assignments = [m.CreatableReplicaAssignment(5, [1])]
    configs = [m.CreatableTopicConfig("cleanup.policy", None)]
    topics = [m.CreatableTopic("new", 3, 1, assignments, configs)]
    found = await running.send(19, "CreateTopics", 5, m.CreateTopicsRequest(topics, 10_000))
    assert found.topics[0].error_code == 40


async def test_offsets_of_unknown_partitions_are_unknown_whatever_the_producer(running: Running) -> None:
    """They had the error of the transaction."""
    offsets = [m.TxnOffsetCommitRequestPartition(each, 1) for each in (0, 9)]
    topics = [m.TxnOffsetCommitRequestTopic("t", partitions=offsets), m.TxnOffsetCommitRequestTopic("t")]
    found = await running.send(28, "TxnOffsetCommit", 3, m.TxnOffsetCommitRequest("tx", "g", 5, 0, topics=topics))
    assert [[each.error_code for each in topic.partitions] for topic in found.topics] == [[49, 3]]


async def test_records_of_an_internal_topic_are_not_deleted(running: Running) -> None:
    """The error was that of a compacted topic."""
    await running.send(8, "OffsetCommit", 2, _COMMIT)
    topics = [m.DeleteRecordsTopic("__consumer_offsets", [m.DeleteRecordsPartition(0, 0)])]
    found = await running.send(21, "DeleteRecords", 2, m.DeleteRecordsRequest(topics, 10_000))
    assert found.topics[0].partitions[0].error_code == 17


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None)])
async def test_a_join_that_fails_names_no_protocol(running: Running, version: int, name: str | None) -> None:
    found = await running.send(11, "JoinGroup", version, m.JoinGroupRequest("", 10_000, 10_000, "member"))
    assert (found.error_code, found.protocol_name) == (24, name)


@pytest.mark.parametrize(("name", "code"), [("librdkafka-2", 0), ("", 42), ("a b", 42), ("-", 42)])
async def test_the_name_of_client_software_is_checked(running: Running, name: str, code: int) -> None:
    found = await running.send(18, "ApiVersions", 3, m.ApiVersionsRequest(name, "1.0"))
    assert (found.error_code, bool(found.api_keys)) == (code, not code)


async def test_a_leader_epoch_below_the_first_is_fenced(running: Running) -> None:
    """Only -1 stands for no epoch; -2 was taken for none, too."""
    list_offsets = m.ListOffsetsRequest(-1, topics=[m.ListOffsetsTopic("t", [m.ListOffsetsPartition(0, -2, -1)])])
    listed = await running.send(2, "ListOffsets", 5, list_offsets)
    ends = m.OffsetForLeaderEpochRequest(-1, [m.OffsetForLeaderTopic("t", [m.OffsetForLeaderPartition(0, -2, 0)])])
    ended = await running.send(23, "OffsetForLeaderEpoch", 4, ends)
    assert listed.topics[0].partitions[0].error_code == ended.topics[0].partitions[0].error_code == 74


async def test_producers_of_an_illegal_topic_are_those_of_an_invalid_one(running: Running) -> None:
    asked = m.DescribeProducersRequest([m.DescribeProducersRequestTopicRequest("", [0])])
    found = await running.send(61, "DescribeProducers", 0, asked)
    assert found.topics[0].partitions[0].error_code == 17


async def test_a_reassignment_returns_whether_the_replication_factor_may_change(running: Running) -> None:
    topics = [m.ReassignableTopic("t", [m.ReassignablePartition(0, [1])])]
    asked = m.AlterPartitionReassignmentsRequest(1000, False, topics)
    found = await running.send(45, "AlterPartitionReassignments", 1, asked)
    assert not found.allow_replication_factor_change


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("user", 0, "alice")], 0),
        ([("user", 1, None), ("client-id", 2, None)], 0),
        ([("", 0, "alice")], 42),
        ([("user", 0, None)], 42),
        ([("user", 1, "alice")], 42),
        ([("user", 3, None)], 42),
        ([("user", 1, None), ("user", 2, None)], 42),
        ([("ip", 1, None), ("user", 2, None)], 42),
        ([("unknown", 1, None)], 35),
    ],
)
async def test_wrong_filters_of_quotas_are_refused(
    running: Running, components: list[tuple[str, int, str | None]], code: int
) -> None:
    asked = m.DescribeClientQuotasRequest([m.ComponentData(*each) for each in components])
    found = await running.send(48, "DescribeClientQuotas", 1, asked)
    assert (found.error_code, found.entries) == (code, None if code else [])


async def test_an_empty_group_is_looked_at_before_the_transaction_of_its_offsets(running: Running) -> None:
    topics = [m.TxnOffsetCommitRequestTopic("t", partitions=[m.TxnOffsetCommitRequestPartition(0, 1)])]
    asked = m.TxnOffsetCommitRequest("tx", "", 5, 0, topics=topics)
    found = await running.send(28, "TxnOffsetCommit", 3, asked)
    assert found.topics[0].partitions[0].error_code == 24


async def test_a_sync_needs_type_and_name_of_the_protocol_since_version_5(running: Running) -> None:
    for protocol in ((None, "range"), ("consumer", None)):
        asked = m.SyncGroupRequest("g", 1, "unknown", protocol_type=protocol[0], protocol_name=protocol[1])
        assert (await running.send(14, "SyncGroup", 5, asked)).error_code == 23
    assert (await running.send(14, "SyncGroup", 4, m.SyncGroupRequest("g", 1, "unknown"))).error_code == 25


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None), (9, None)])
async def test_a_join_that_needs_an_id_has_no_protocol(running: Running, version: int, name: str | None) -> None:
    asked = m.JoinGroupRequest("g", 10_000, 10_000, "", None, "consumer", [m.JoinGroupRequestProtocol("range", b"")])
    found = await running.send(11, "JoinGroup", version, asked)
    assert (found.error_code, found.protocol_name) == (79, name)


async def test_a_member_that_got_an_id_and_never_joins_does_not_hold_up_a_new_group(running: Running) -> None:
    """It did until its session was over."""
    protocols = [m.JoinGroupRequestProtocol("range", b"")]
    asked = m.JoinGroupRequest("g", 30_000, 60_000, "", None, "consumer", protocols)
    assert (await running.send(11, "JoinGroup", 4, asked)).error_code == 79
    with trio.fail_after(20):
        joined = await running.send(11, "JoinGroup", 3, asked)
    assert (joined.error_code, len(joined.members)) == (0, 1)


async def test_wrong_settings_of_an_unknown_topic_are_wrong_settings(running: Running) -> None:
    """As in Kafka, which looks for the topic last."""
    setting = m.AlterConfigsRequestAlterableConfig("retention.ms", "text")
    resources = [m.AlterConfigsRequestAlterConfigsResource(2, "unknown", [setting])]
    replaced = await running.send(33, "AlterConfigs", 2, m.AlterConfigsRequest(resources))
    change = m.IncrementalAlterConfigsRequestAlterableConfig("retention.ms", 0, None)
    changes = [m.IncrementalAlterConfigsRequestAlterConfigsResource(2, "unknown", [change])]
    changed = await running.send(44, "IncrementalAlterConfigs", 1, m.IncrementalAlterConfigsRequest(changes))
    assert (replaced.responses[0].error_code, changed.responses[0].error_code) == (40, 42)


async def test_a_topic_without_partitions_joins_no_transaction_but_is_answered(running: Running) -> None:
    asked = m.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx", v3_and_below_topics=[m.AddPartitionsToTxnTopic("t")]
    )
    found = await running.send(24, "AddPartitionsToTxn", 3, asked)
    assert [(each.name, each.results_by_partition) for each in found.results_by_topic_v3_and_below] == [("t", [])]


async def test_an_empty_transactional_id_has_no_transaction(running: Running) -> None:
    data = [m.PartitionProduceData(0, altered(GOOD, attributes=0x10, producer_id=5, producer_epoch=0, base_sequence=0))]
    topics = [m.TopicProduceData("t", partition_data=data)]
    found = await running.send(0, "Produce", 12, m.ProduceRequest("", 1, 1000, topics))
    assert found.responses[0].partition_responses[0].error_code == 42


async def test_a_producer_without_an_epoch_is_refused(running: Running) -> None:
    data = [m.PartitionProduceData(0, altered(GOOD, producer_id=5, producer_epoch=-1, base_sequence=0))]
    topics = [m.TopicProduceData("t", partition_data=data)]
    found = await running.send(0, "Produce", 12, m.ProduceRequest(None, 1, 1000, topics))
    assert found.responses[0].partition_responses[0].error_code == 87
