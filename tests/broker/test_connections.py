"""A broker in this process: clients that leave, bugs in handlers, hostile bytes."""

from __future__ import annotations

import os
import random
import socket
import struct
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from fixtures.broker.running import Running, decoded, framed, received, sent
from fixtures.messages.random_messages import random_message

from offsetfs.kafka.broker.batches.fetch import Fetching
from offsetfs.kafka.broker.broker import Broker
from offsetfs.kafka.broker.cluster import BrokerNode
from offsetfs.kafka.broker.connections.listeners import open_listeners
from offsetfs.kafka.broker.errors import failure_response
from offsetfs.kafka.broker.groups.group_membership import Membership
from offsetfs.kafka.broker.listener_settings import ListenerSettings
from offsetfs.kafka.broker.metrics import BrokerMetrics
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.schemas import schema
from offsetfs.storage import LogDirectory

pytestmark = pytest.mark.unit

LOCAL = ListenerSettings(("127.0.0.1", 0))


async def test_a_client_that_resets_the_connection_at_once_does_not_end_the_broker(running: Running) -> None:
    """Its address cannot be read any more: the error once ended the process."""
    for _ in range(5):
        client = socket.create_connection(running.address)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    await trio.sleep(0.05)
    assert (await running.send(18, "ApiVersions", 0, m.ApiVersionsRequest())).error_code == ErrorCode.NONE


@pytest.mark.expect_log("Request of version .* failed")
async def test_a_bug_of_any_handler_is_an_error_of_its_client(
    directory: LogDirectory, nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    """Once the connection was closed where a response has no error code at its top: clients sent the request again."""

    async def fails(*_: object) -> None:
        raise KeyError("a bug")

    running = Running(directory)
    apis = running.broker._apis
    apis.update({key: replace(api, handle=fails) for key, api in apis.items()})
    nursery.start_soon(running.run)
    stream = await trio.open_tcp_stream(*running.address)
    for api in apis.values():
        for version in range(api.first, api.last + 1):
            for seed in range(30):  # an empty request has an answer without an error code
                request = random_message(
                    f"{api.name}Request", schema(f"{api.name}Request").layout(version), version, seed
                )
                if api.name == "Produce":
                    request.acks = 1
                await stream.send_all(framed(api.key, api.name, version, request))
                if "error_code=-1" in repr(decoded(api.key, api.name, version, await received(stream))):
                    break
            else:
                pytest.fail(f"{api.name} of version {version} returns no error")
    assert "KeyError: 'a bug'" in caplog.text
    await stream.aclose()
    running.broker.stop()


@pytest.mark.expect_log("Request of version .* failed")
async def test_a_bug_before_a_handler_begins_to_run_is_an_error_of_its_client(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(Membership, "note_lookup", fails)
    response = await running.send(10, "FindCoordinator", 3, m.FindCoordinatorRequest("g"))
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert running.broker._metrics.apis["FindCoordinator"].errors == {ErrorCode.UNKNOWN_SERVER_ERROR: 1}


def test_a_failed_request_names_what_was_asked() -> None:
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    fetch = m.FetchRequest(topics=[m.FetchRequestFetchTopic("t", partitions=[m.FetchRequestFetchPartition(5)])])
    topic = failure_response(fetch, 12).responses[0]
    assert (topic.topic, topic.partitions[0].partition_index, topic.partitions[0].error_code) == ("t", 5, code)
    deleted = failure_response(m.DeleteGroupsRequest(["a", "b"]), 2)
    assert [(each.group_id, each.error_code) for each in deleted.results] == [("a", code), ("b", code)]
    listed = failure_response(m.OffsetFetchRequest("g", [m.OffsetFetchRequestTopic("t", [3, 0])]), 1)
    assert [(each.partition_index, each.error_code) for each in listed.topics[0].partitions] == [(3, code), (0, code)]
    resource = m.DescribeConfigsResource(2, "t", None)
    described = failure_response(m.DescribeConfigsRequest([resource]), 4).results[0]
    assert (described.resource_type, described.resource_name, described.error_code) == (2, "t", code)
    assert failure_response(m.ProduceRequest(acks=0), 9) is None


@pytest.mark.security(
    "Hostile bytes from a client lead to an error or to the end of its connection, never to the end of the broker."
)
async def test_no_request_with_random_fields_is_a_bug(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    skipped = {"JoinGroup", "SyncGroup", "CreateTopics", "CreatePartitions", "Metadata"}  # wait, or create much
    for api in list(running.broker._apis.values()):
        if api.name in skipped:
            continue
        for version in range(api.first, api.last + 1):
            for seed in range(2):
                request = random_message(
                    f"{api.name}Request", schema(f"{api.name}Request").layout(version), version, seed
                )
                if api.name == "Fetch":
                    request.max_wait_ms = 0
                if api.name == "Produce":
                    request.acks = 1
                await running.send(api.key, api.name, version, request)
    assert "Traceback" not in caplog.text


@pytest.mark.security(
    "Hostile bytes from a client lead to an error or to the end of its connection, never to the end of the broker."
)
@pytest.mark.expect_log("connection closed")
async def test_random_frames_neither_end_the_broker_nor_are_a_bug(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    source = random.Random(16)
    apis = list(running.broker._apis.values())
    for _ in range(300):
        api = source.choice(apis)
        if api.name == "CreateTopics":
            continue
        body = (
            struct.pack(">hhi", api.key, source.randint(api.first, api.last), 1)
            + source.choice([b"\xff\xff", b"\x00\x01a", b"\x7f\xff"])
            + source.randbytes(source.randrange(60))
        )
        stream = await trio.open_tcp_stream(*running.address)
        async with stream:
            await stream.send_all(struct.pack(">i", len(body)) + body)
            with trio.move_on_after(0.02):
                await stream.receive_some()
    assert "Traceback" not in caplog.text
    assert (await running.send(18, "ApiVersions", 0, m.ApiVersionsRequest())).error_code == ErrorCode.NONE


async def test_a_fetch_of_names_that_are_not_there_leaves_nothing_in_memory(directory: LogDirectory) -> None:
    from offsetfs.kafka.broker.topics.partitions import Topics

    topics = Topics(directory, 1, creates=False)
    partitions = [m.FetchRequestFetchPartition(each) for each in (-1, 0, 5)]
    wanted = [m.FetchRequestFetchTopic(topic=name, partitions=partitions) for name in ("nowhere", "a/b", "")]
    node = BrokerNode(1, "test", "127.0.0.1", 9092)
    response = await Fetching(topics, node, ServerSettings(), BrokerMetrics()).fetch(
        m.FetchRequest(topics=wanted, max_wait_ms=100), 12
    )
    assert response is not None
    codes = {each.error_code for topic in response.responses for each in topic.partitions}
    assert codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION} and not topics.watchers


async def test_metadata_does_not_create_internal_topics(running: Running, directory: LogDirectory) -> None:
    """One partition with the default retention would lose commits."""
    request = m.MetadataRequest(topics=[m.MetadataRequestTopic(name="__consumer_offsets")])
    response = await running.send(3, "Metadata", 9, request)
    assert response.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert all(each.topic == "t" for each in directory.partitions())


async def test_clients_of_each_listener_get_an_address_that_they_reach(tmp_path: Path, nursery: trio.Nursery) -> None:
    """All clients once got the address of the first listener: 127.0.0.1 in another network."""
    first, second = open_listeners((LOCAL, replace(LOCAL, advertised=("public", 9))), "port")
    broker = Broker(LogDirectory.open(os.fspath(tmp_path)), ServerSettings(), [first, second])
    nursery.start_soon(broker.run)
    for listener, expected in ((first, first.address), (second, ("public", 9))):
        for key, name, version, request in (
            (3, "Metadata", 12, m.MetadataRequest(topics=[])),
            (10, "FindCoordinator", 3, m.FindCoordinatorRequest(key="group")),
            (60, "DescribeCluster", 0, m.DescribeClusterRequest()),
        ):
            found = await sent(listener.address, key, name, version, request)
            node = found if name == "FindCoordinator" else found.brokers[0]
            assert (node.host, node.port) == expected
    broker.stop()


async def test_clients_are_refused_until_the_broker_serves(tmp_path: Path) -> None:
    """A script that waits for the port would go on during a recovery."""
    (listener,) = open_listeners((LOCAL,), "port")
    with pytest.raises(OSError):
        await trio.open_tcp_stream(*listener.address)
    listener.close()
