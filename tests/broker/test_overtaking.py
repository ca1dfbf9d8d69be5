"""The order of answers over connections: what memory knows is answered in the order of the requests.

A request that hops to a thread is overtaken by those that other clients send later. With ListOffsets a new consumer
would begin behind a record that was produced after its request. The tests count hops, not time.
"""

from __future__ import annotations

from typing import Any

import pytest
from fixtures.machine.cached_reads import support_nowait
from fixtures.security.authorized_broker import ADMIN, AuthorizedBroker

from offsetfs.common.threads import workers
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import BatchBuilder, LogDirectory, TopicPartition

pytestmark = pytest.mark.unit


def offsets_of(timestamp: int, isolation: int = 0) -> m.ListOffsetsRequest:
    partitions = [m.ListOffsetsPartition(0, -1, timestamp)]
    return m.ListOffsetsRequest(-1, isolation, [m.ListOffsetsTopic("t", partitions)])


def group_offsets() -> m.OffsetFetchRequest:
    topics = [m.OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    return m.OffsetFetchRequest(groups=[m.OffsetFetchRequestGroup("g", topics=topics)])


FROM_MEMORY: dict[str, tuple[str, int, Any]] = {
    "ApiVersions": ("ApiVersions", 3, m.ApiVersionsRequest("test", "1")),
    "DescribeAcls": ("DescribeAcls", 3, m.DescribeAclsRequest(1, None, 1, None, None, 1, 1)),
    "DescribeClientQuotas": ("DescribeClientQuotas", 1, m.DescribeClientQuotasRequest()),
    "DescribeCluster": ("DescribeCluster", 2, m.DescribeClusterRequest()),
    "DescribeConfigs": ("DescribeConfigs", 4, m.DescribeConfigsRequest([m.DescribeConfigsResource(2, "t", None)])),
    "DescribeGroups": ("DescribeGroups", 6, m.DescribeGroupsRequest(["g"])),
    "DescribeQuorum": ("DescribeQuorum", 2, m.DescribeQuorumRequest()),
    "DescribeTransactions": ("DescribeTransactions", 0, m.DescribeTransactionsRequest(["tx"])),
    "DescribeTopicPartitions": ("DescribeTopicPartitions", 0, m.DescribeTopicPartitionsRequest()),
    "DescribeUserScramCredentials": (
        "DescribeUserScramCredentials",
        0,
        m.DescribeUserScramCredentialsRequest(None),
    ),
    "Fetch": (
        "Fetch",
        12,
        m.FetchRequest(
            topics=[
                m.FetchRequestFetchTopic("t", partitions=[m.FetchRequestFetchPartition(0, partition_max_bytes=1 << 20)])
            ]
        ),
    ),
    "ConsumerGroupDescribe": ("ConsumerGroupDescribe", 1, m.ConsumerGroupDescribeRequest(["g"])),
    "FindCoordinator": ("FindCoordinator", 6, m.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])),
    "Heartbeat": ("Heartbeat", 4, m.HeartbeatRequest("g", 1, "m")),
    "ListConfigResources": ("ListConfigResources", 1, m.ListConfigResourcesRequest()),
    "ListGroups": ("ListGroups", 5, m.ListGroupsRequest()),
    "ListOffsets, earliest": ("ListOffsets", 10, offsets_of(-2)),
    "ListOffsets, earliest local": ("ListOffsets", 10, offsets_of(-4)),
    "ListOffsets, latest": ("ListOffsets", 10, offsets_of(-1)),
    "ListOffsets, latest committed": ("ListOffsets", 10, offsets_of(-1, 1)),
    "ListPartitionReassignments": ("ListPartitionReassignments", 0, m.ListPartitionReassignmentsRequest()),
    "ListTransactions": ("ListTransactions", 2, m.ListTransactionsRequest()),
    "Metadata": ("Metadata", 13, m.MetadataRequest(None)),
    "OffsetFetch": ("OffsetFetch", 9, group_offsets()),
    "OffsetForLeaderEpoch": (
        "OffsetForLeaderEpoch",
        4,
        m.OffsetForLeaderEpochRequest(topics=[m.OffsetForLeaderTopic("t", [m.OffsetForLeaderPartition(0, -1, 0)])]),
    ),
}


@pytest.fixture
async def warm(guarded: AuthorizedBroker, directory: LogDirectory) -> AuthorizedBroker:
    """A broker whose logs are open, and whose groups are loaded."""
    log = directory.log(TopicPartition("t", 0))
    builder = BatchBuilder(1 << 16)
    builder.append(None, b"value", (), 1)
    log.append(builder.seal())
    for api, version, request in FROM_MEMORY.values():
        await guarded.ask(api, version, request, ADMIN)
    return guarded


@pytest.mark.parametrize("case", FROM_MEMORY)
async def test_what_memory_knows_is_answered_without_a_hop(
    warm: AuthorizedBroker, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    async def hop(*_: object) -> Any:
        raise AssertionError(f"{case} hops to a thread")

    support_nowait(monkeypatch)
    monkeypatch.setattr(workers, "run", hop)
    api, version, request = FROM_MEMORY[case]
    await warm.ask(api, version, request, ADMIN)


async def test_each_api_that_only_reads_is_answered_from_memory(warm: AuthorizedBroker) -> None:
    reading = {each for each in warm.apis if each.startswith(("Describe", "List", "Find"))} | {"Fetch", "Metadata"}
    # Of the files of the partitions: their sizes, and producers in snapshots.
    assert reading - {api for api, _, _ in FROM_MEMORY.values()} == {"DescribeLogDirs", "DescribeProducers"}


async def test_offsets_of_a_time_are_found_in_a_thread(warm: AuthorizedBroker) -> None:
    response = await warm.ask("ListOffsets", 10, offsets_of(0), ADMIN)
    found = response.topics[0].partitions[0]
    assert (found.error_code, found.offset) == (ErrorCode.NONE, 0)


async def test_the_end_of_a_new_topic_is_known_without_a_hop(
    guarded: AuthorizedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await guarded.ask("CreateTopics", 7, m.CreateTopicsRequest([m.CreatableTopic("new", 1, 1)], 10_000), ADMIN)

    async def hop(*_: object) -> Any:
        raise AssertionError("ListOffsets hops to a thread")

    monkeypatch.setattr(workers, "run", hop)
    request = m.ListOffsetsRequest(-1, 0, [m.ListOffsetsTopic("new", [m.ListOffsetsPartition(0, -1, -1)])])
    response = await guarded.ask("ListOffsets", 10, request, ADMIN)
    assert (response.topics[0].partitions[0].error_code, response.topics[0].partitions[0].offset) == (0, 0)


async def test_the_end_of_a_log_that_is_not_open_takes_one_hop(
    warm: AuthorizedBroker, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the hop that opens the log, a record could be appended before the end is taken."""
    directory.create_partition(TopicPartition("closed", 0))
    monkeypatch.setattr(LogDirectory, "opened", lambda *_: None)
    hops, run = list[str](), workers.run

    async def hop(work: Any, *arguments: Any) -> Any:
        hops.append(getattr(work, "func", work).__name__)
        return await run(work, *arguments)

    monkeypatch.setattr(workers, "run", hop)
    request = m.ListOffsetsRequest(-1, 0, [m.ListOffsetsTopic("closed", [m.ListOffsetsPartition(0, -1, -1)])])
    response = await warm.ask("ListOffsets", 10, request, ADMIN)
    assert response.topics[0].partitions[0].error_code == 0
    assert hops.count("_answer") == 1 and not {"log", "refresh"} & {*hops}, hops
