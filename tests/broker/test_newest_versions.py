"""The versions of requests that Kafka 4.2 to 4.4 brought: topic ids of commits, the node that a client means."""

from __future__ import annotations

from typing import Any

import pytest
from fixtures.broker.running import Running
from fixtures.broker.transaction_requests import TransactionalProducer
from fixtures.security.authorized_broker import ADMIN, AuthorizedBroker, acl

from offsetfs.kafka.broker.operations import Operation, Resource
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import LogDirectory

pytestmark = pytest.mark.unit

UNKNOWN_ID = bytes(range(16))
NODE_ID = 1


def commit_by_id(*ids: bytes) -> m.OffsetCommitRequest:
    partitions = [m.OffsetCommitRequestPartition(0, 5)]
    return m.OffsetCommitRequest(
        "g", topics=[m.OffsetCommitRequestTopic(topic_id=each, partitions=partitions) for each in ids]
    )


def fetch_by_id(*ids: bytes) -> m.OffsetFetchRequest:
    topics = [m.OffsetFetchRequestTopics(topic_id=each, partition_indexes=[0]) for each in ids]
    return m.OffsetFetchRequest(groups=[m.OffsetFetchRequestGroup("g", topics=topics)])


def codes_by_id(topics: list[Any]) -> list[tuple[bytes, int]]:
    return [(each.topic_id, each.partitions[0].error_code) for each in topics]


def offsets_by_id(group: m.OffsetFetchResponseGroup) -> list[tuple[bytes, int, int]]:
    rows = [(each.topic_id, each.partitions[0]) for each in group.topics]
    return [(topic_id, each.committed_offset, each.error_code) for topic_id, each in rows]


async def test_offsets_are_committed_and_fetched_by_topic_id(running: Running) -> None:
    known = running.broker._topics.topic_id("t")
    committed = await running.send(8, "OffsetCommit", 10, commit_by_id(UNKNOWN_ID, known))
    assert codes_by_id(committed.topics) == [(UNKNOWN_ID, ErrorCode.UNKNOWN_TOPIC_ID), (known, 0)]
    (group,) = (await running.send(9, "OffsetFetch", 10, fetch_by_id(UNKNOWN_ID, known))).groups
    assert offsets_by_id(group) == [(known, 5, 0), (UNKNOWN_ID, -1, ErrorCode.UNKNOWN_TOPIC_ID)]
    everything = m.OffsetFetchRequest(groups=[m.OffsetFetchRequestGroup("g", topics=None)])
    (group,) = (await running.send(9, "OffsetFetch", 10, everything)).groups
    assert offsets_by_id(group) == [(known, 5, 0)]


async def test_a_commit_for_the_id_of_a_deleted_topic_is_not_for_its_name(
    running: Running,
) -> None:
    former = running.broker._topics.topic_id("t")
    await running.send(20, "DeleteTopics", 5, m.DeleteTopicsRequest(topic_names=["t"]))
    await running.send(19, "CreateTopics", 5, m.CreateTopicsRequest([m.CreatableTopic("t", 1, 1)]))
    committed = await running.send(8, "OffsetCommit", 10, commit_by_id(former))
    assert codes_by_id(committed.topics) == [(former, ErrorCode.UNKNOWN_TOPIC_ID)]


async def test_offsets_of_a_transaction_are_committed_by_topic_id(running: Running) -> None:
    known = running.broker._topics.topic_id("t")
    producer = TransactionalProducer(running, "tx")
    await producer.init()
    topics = [
        m.TxnOffsetCommitRequestTopic(topic_id=each, partitions=[m.TxnOffsetCommitRequestPartition(0, 7)])
        for each in (UNKNOWN_ID, known)
    ]

    def request(topics: list[m.TxnOffsetCommitRequestTopic], generation: int = -1) -> m.TxnOffsetCommitRequest:
        return m.TxnOffsetCommitRequest("tx", "g", producer.producer_id, producer.epoch, generation, "", topics=topics)

    response = await running.send(28, "TxnOffsetCommit", 6, request(topics[:1]))
    assert codes_by_id(response.topics) == [(UNKNOWN_ID, ErrorCode.UNKNOWN_TOPIC_ID)]
    assert await producer.state() == "Empty", "nothing of it is in a transaction"
    response = await running.send(28, "TxnOffsetCommit", 6, request(topics[1:], generation=3))
    assert codes_by_id(response.topics) == [(known, ErrorCode.GROUP_ID_NOT_FOUND)]
    response = await running.send(28, "TxnOffsetCommit", 6, request(topics))
    assert codes_by_id(response.topics) == [(UNKNOWN_ID, ErrorCode.UNKNOWN_TOPIC_ID), (known, 0)]
    assert await producer.end(version=5) == 0
    (group,) = (await running.send(9, "OffsetFetch", 10, fetch_by_id(known))).groups
    assert offsets_by_id(group) == [(known, 7, 0)]


async def test_topics_of_commits_are_checked_by_name_where_a_request_has_ids(guarded: AuthorizedBroker) -> None:
    known = guarded.broker._topics.topic_id("t")
    assert codes_by_id((await guarded.ask("OffsetCommit", 10, commit_by_id(known), ADMIN)).topics) == [(known, 0)]
    denied = await guarded.ask("OffsetCommit", 10, commit_by_id(UNKNOWN_ID, known))
    assert {code for _, code in codes_by_id(denied.topics)} == {ErrorCode.GROUP_AUTHORIZATION_FAILED}
    await guarded.grant(acl(Operation.READ, Resource.GROUP, "g"))
    denied = await guarded.ask("OffsetCommit", 10, commit_by_id(UNKNOWN_ID, known))
    assert dict(codes_by_id(denied.topics)) == {
        UNKNOWN_ID: ErrorCode.UNKNOWN_TOPIC_ID,
        known: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    (group,) = (await guarded.ask("OffsetFetch", 10, fetch_by_id(UNKNOWN_ID, known))).groups
    assert sorted(offsets_by_id(group)) == sorted(
        [(UNKNOWN_ID, -1, ErrorCode.UNKNOWN_TOPIC_ID), (known, -1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    )


async def test_a_client_that_means_another_broker_is_told_to_bootstrap_again(
    running: Running, directory: LogDirectory
) -> None:
    """Its metadata is that of another cluster or node, whose address this broker has now (KIP-1242)."""
    cluster_id = (await running.send(60, "DescribeCluster", 2, m.DescribeClusterRequest())).cluster_id

    async def ask(cluster: str | None, node: int, version: int = 5) -> int:
        request = m.ApiVersionsRequest("test", "1", cluster_id=cluster, node_id=node)
        response = await running.send(18, "ApiVersions", version, request)
        assert bool(response.api_keys) == (response.error_code == 0)
        return int(response.error_code)

    assert await ask(None, -1) == await ask(cluster_id, NODE_ID) == await ask("another", 9, version=4) == 0
    assert await ask("another", NODE_ID) == await ask(cluster_id, 2) == ErrorCode.REBOOTSTRAP_REQUIRED
    assert await ask(None, NODE_ID) == await ask(cluster_id, -1) == ErrorCode.INVALID_REQUEST


async def test_nothing_waits_for_an_upload(running: Running) -> None:
    async def ask(version: int) -> m.ListOffsetsPartitionResponse:
        topics = [m.ListOffsetsTopic("t", [m.ListOffsetsPartition(0, timestamp=-6)])]
        response = await running.send(2, "ListOffsets", version, m.ListOffsetsRequest(-1, topics=topics))
        found: m.ListOffsetsPartitionResponse = response.topics[0].partitions[0]
        return found

    found = await ask(11)
    assert (found.error_code, found.offset, found.timestamp, found.leader_epoch) == (0, -1, -1, -1)
    assert (await ask(10)).error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_a_late_marker_does_not_end_the_next_transaction_of_its_epoch(running: Running) -> None:
    producer = TransactionalProducer(running, "tx")
    await producer.init()
    assert await producer.send(b"one", version=12) == 0

    async def write(epoch: int, transaction_version: int, version: int = 2) -> int:
        topics = [m.WritableTxnMarkerTopic("t", [0])]
        marker = m.WritableTxnMarker(producer.producer_id, epoch, False, topics, 0, transaction_version)
        response = await running.send(27, "WriteTxnMarkers", version, m.WriteTxnMarkersRequest([marker]))
        return int(response.markers[0].topics[0].partitions[0].error_code)

    assert await write(producer.epoch, 2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await write(producer.epoch + 1, 2) == 0
    assert await write(producer.epoch + 1, 2) == 0, "the same marker again"
    assert await write(producer.epoch + 1, 0) == 0
