"""A client of a cluster, against our own broker in the process of the test."""

from __future__ import annotations

import pytest
import trio
from fixtures.broker.running import Running
from trio.testing import MockClock

from offsetfs.kafka.client.cluster import ClusterClient, NodeKind, wait_for_cluster
from offsetfs.kafka.client.errors import NoBrokerAnswers, RequestTimedOut
from offsetfs.kafka.client.properties import ClientProperties
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode

pytestmark = pytest.mark.unit

QUICK = ClientProperties(reconnect_backoff_ms=1, reconnect_backoff_max_ms=2, request_timeout_ms=5000)


async def test_metadata_has_brokers_topics_and_partitions(running: Running) -> None:
    async with ClusterClient([running.address], QUICK) as client:
        found = await client.metadata()
        assert [each.address for each in found.brokers.values()] == [running.address]
        assert found.controller_id in found.brokers
        topic = found.topics["t"]
        assert (topic.error, topic.has_id, topic.is_internal, list(topic.partitions)) == (0, True, False, [0])
        assert topic.partitions[0].leader in found.brokers
        assert await client.metadata() is found
        assert await client.metadata(refresh=True) is not found


async def test_metadata_of_a_topic_that_does_not_exist_does_not_create_it(running: Running) -> None:
    async with ClusterClient([running.address], QUICK) as client:
        found = await client.metadata(["other", "t"])
        assert {name: each.error for name, each in found.topics.items()} == {
            "other": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "t": 0,
        }
        assert list((await client.metadata()).topics) == ["t"]


@pytest.mark.parametrize("node", [NodeKind.ANY, NodeKind.CONTROLLER])
async def test_a_request_without_the_id_of_a_broker(running: Running, node: NodeKind) -> None:
    async with ClusterClient([running.address], QUICK) as client:
        assert (await client.request(m.ListGroupsRequest(), node=node)).error_code == 0


async def test_the_coordinator_of_a_group(running: Running) -> None:
    async with ClusterClient([running.address], QUICK) as client:
        node = await client.coordinator("g")
        assert (await client.request(m.ListGroupsRequest(), node=node)).error_code == 0


async def test_a_broker_that_does_not_exist(running: Running) -> None:
    async with ClusterClient([running.address], QUICK) as client:
        with pytest.raises(NoBrokerAnswers, match=r"no broker has id 77; brokers: \d+ at 127\.0\.0\.1:"):
            await client.request(m.ListGroupsRequest(), node=77)


async def test_a_bootstrap_address_that_refuses_connections_is_passed_over(running: Running) -> None:
    async with ClusterClient([("127.0.0.1", 1), running.address], QUICK) as client:
        assert (await client.metadata()).brokers


async def test_no_broker_answers() -> None:
    with pytest.raises(NoBrokerAnswers) as caught:
        async with ClusterClient([("127.0.0.1", 1), ("127.0.0.1", 2)], QUICK) as client:
            await client.metadata()
    causes = "127.0.0.1:1: Connection refused; 127.0.0.1:2: Connection refused"
    assert str(caught.value) == f"no broker answers: {causes}; check the address, and that a broker runs there"


async def test_a_connection_that_has_failed_is_made_again(running: Running) -> None:
    async with ClusterClient([running.address], QUICK) as client:
        leader = (await client.metadata()).topics["t"].partitions[0].leader
        first = await client.connection(leader)
        first.close()
        second = await client.connection(leader)
        assert second is not first
        assert (await second.request(m.ListGroupsRequest())).error_code == 0


async def test_several_requests_are_in_flight_and_answered_in_order(running: Running) -> None:
    async with ClusterClient([running.address], QUICK) as client:
        connection = await client.connection(NodeKind.ANY)
        ended: list[str] = []

        async def ask(name: str) -> None:
            found = await connection.request(m.FindCoordinatorRequest("", 0, [name]), max_version=4)
            ended.append(found.coordinators[0].key)

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(ask, str(number))
                await trio.lowlevel.checkpoint()
        assert sorted(ended, key=int) == [str(number) for number in range(20)]


async def test_records_of_a_fetch_are_a_view_of_the_received_bytes(running: Running) -> None:
    async with ClusterClient([running.address], QUICK) as client:
        topic = (await client.metadata()).topics["t"]
        wanted = m.FetchRequestFetchTopic("t", topic.id, [m.FetchRequestFetchPartition(partition_max_bytes=1 << 20)])
        response = await client.request(m.FetchRequest(topics=[wanted]), node=topic.partitions[0].leader)
        assert isinstance(response.responses[0].partitions[0].records, memoryview)


async def test_a_cluster_that_is_silent_is_reported_each_second(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ClusterClient, "metadata", lambda *_: trio.sleep_forever())
    reports = list[str]()
    async with ClusterClient([("broker1", 9092)], ClientProperties(default_api_timeout_ms=3500)) as client:
        with pytest.raises(RequestTimedOut):
            await wait_for_cluster(client, reports.append)
    assert reports == ["broker1:9092: no answer yet; tried for up to 3.5 s (default.api.timeout.ms)"] * 3
