"""Large requests: others are answered in between, and the work and the answer are bounded.

The tests count passes of the event loop, not time: with slices of no length each element is one.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
from fixtures.broker.group_requests import FEW_PARTITIONS
from fixtures.broker.large_requests import LARGE_REQUESTS
from fixtures.broker.running import Running, framed
from fixtures.security.authorized_broker import AuthorizedBroker, acl

from offsetfs.kafka.broker import slices
from offsetfs.kafka.broker.connections.codecs import INLINE_DECODE_BYTES_MAX, INLINE_DECODE_ELEMENTS_MAX, elements_of
from offsetfs.kafka.broker.errors import failure_response
from offsetfs.kafka.broker.operations import Operation, Resource
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.broker.topics.configs import SETTINGS_MAX, SETTINGS_OF_A_CHANGE_MAX, Configs
from offsetfs.kafka.broker.topics.partitions import Topics
from offsetfs.kafka.protocol import codec
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.codec import REQUEST_ELEMENTS_MAX, InvalidMessage
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import ProtocolMessage
from offsetfs.kafka.protocol.schemas import schema
from offsetfs.storage import LogDirectory

pytestmark = pytest.mark.unit

COUNT = 300
NAMES = [f"n{number}" for number in range(COUNT)]
NUMBERS = list(range(COUNT))

SLICED = [name for name, each in LARGE_REQUESTS.items() if each.is_sliced]


@pytest.fixture
async def unguarded(directory: LogDirectory, nursery: trio.Nursery) -> AsyncIterator[AuthorizedBroker]:
    """A broker without an authorizer: requests come to their handlers at once."""
    found = AuthorizedBroker(directory, FEW_PARTITIONS)
    nursery.start_soon(found.run)
    yield found
    found.broker.stop()


async def passes_during(request: Any) -> int:
    """Return how often another task gets the event loop while `request` is answered."""
    passes = 0

    async def bystander() -> None:
        nonlocal passes
        while True:
            await trio.lowlevel.checkpoint()
            passes += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(bystander)
        await request()
        nursery.cancel_scope.cancel()
    return passes


@pytest.mark.parametrize("name", SLICED)
async def test_others_are_answered_between_the_elements_of_a_request(
    unguarded: AuthorizedBroker, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    large = LARGE_REQUESTS[name]
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    request = large.make(COUNT)
    assert await passes_during(lambda: unguarded.ask(large.api, large.version, request)) >= COUNT - 10


async def test_each_api_with_arrays_has_a_large_request(unguarded: AuthorizedBroker) -> None:
    with_arrays = {name for name in unguarded.apis if has_arrays(f"{name}Request")}
    missing = with_arrays - {large.api for large in LARGE_REQUESTS.values()}
    assert not missing, f"add a large request of {missing} to tests/fixtures/broker/large_requests.py"
    assert {large.api for large in LARGE_REQUESTS.values()} <= with_arrays
    assert "Metadata" in with_arrays and "Heartbeat" not in with_arrays


def has_arrays(message: str) -> bool:
    return any(field.is_array for layout in schema(message).layouts for field in layout.fields)


async def test_others_are_answered_between_the_partitions_of_a_group(
    unguarded: AuthorizedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = [m.OffsetFetchRequestTopics(name="t", partition_indexes=NUMBERS)]
    request = m.OffsetFetchRequest(groups=[m.OffsetFetchRequestGroup("g", topics=topics)])
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    assert await passes_during(lambda: unguarded.ask("OffsetFetch", 9, request)) >= COUNT - 10


DIVIDED = [
    "ConsumerGroupHeartbeat",
    "DescribeConfigs",
    "DescribeGroups",
    "DescribeTopicPartitions",
    "Metadata",
    "OffsetFetch",
]


@pytest.mark.parametrize("name", DIVIDED)
async def test_others_are_answered_while_permissions_are_checked(
    guarded: AuthorizedBroker, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if name == "ConsumerGroupHeartbeat":
        await guarded.grant(acl(Operation.READ, Resource.GROUP, "h"))
    large = LARGE_REQUESTS[name]
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    request = large.make(COUNT)
    # All of it is denied.
    assert await passes_during(lambda: guarded.ask(large.api, large.version, request)) >= COUNT - 10


async def test_many_errors_of_a_denied_request_are_made_in_a_thread(
    guarded: AuthorizedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list[str]()

    def noted(request: ProtocolMessage, *arguments: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            made.append(type(request).__name__)
        return failure_response(request, *arguments)

    monkeypatch.setattr("offsetfs.kafka.broker.authorization.call.failure_response", noted)
    for large in LARGE_REQUESTS.values():
        if large.api != "Fetch":  # checks permissions itself
            await guarded.ask(large.api, large.version, large.make(COUNT))
    assert made == []


async def test_a_request_for_too_many_settings_is_refused_before_work(
    directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = Configs(Topics(directory, 1, creates=False), ServerSettings())
    monkeypatch.delattr(Configs, "of_topic")  # an error if settings are collected
    resources = [m.DescribeConfigsResource(2, "t", None)] * (SETTINGS_MAX // 40 + 1)
    response = await configs.describe_configs(m.DescribeConfigsRequest(resources), 4)
    assert {each.error_code for each in response.results} == {ErrorCode.INVALID_REQUEST}
    assert len(response.results) == len(resources)


async def test_equal_settings_are_collected_once(directory: LogDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    configs, calls = Configs(Topics(directory, 1, creates=False), ServerSettings()), 0
    of_topic = configs.of_topic

    def counted(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        return of_topic(*arguments)

    monkeypatch.setattr(configs, "of_topic", counted)
    resources = [m.DescribeConfigsResource(2, "t", keys) for keys in (None, None, ["retention.ms"], ["retention.ms"])]
    response = await configs.describe_configs(m.DescribeConfigsRequest(resources), 4)
    assert calls == 2
    assert [len(each.configs) > 1 for each in response.results] == [True, True, False, False]


async def test_names_are_sorted_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    names = [f"n{number * 7919 % 20_011}" for number in range(20_011)]
    found = list[str]()

    async def sort() -> None:
        found.extend(await slices.Slices().sorted(names))

    assert await passes_during(sort) >= 3
    assert found == sorted(names)
    assert list(await slices.Slices().sorted(["b", "a"])) == ["a", "b"]
    assert list(await slices.Slices().sorted([])) == []


async def test_a_request_changes_a_bounded_number_of_settings(unguarded: AuthorizedBroker) -> None:
    large = LARGE_REQUESTS["IncrementalAlterConfigs, settings"]
    for count, code in (SETTINGS_OF_A_CHANGE_MAX, ErrorCode.INVALID_CONFIG), (5000, ErrorCode.INVALID_REQUEST):
        response = await unguarded.ask(large.api, large.version, large.make(count))
        assert [each.error_code for each in response.responses] == [code]


def test_a_request_has_a_hundred_thousand_elements_at_most() -> None:
    read, write = codec.reader("DescribeGroupsRequest", 6), codec.writer("DescribeGroupsRequest", 6)
    for count, is_read in (REQUEST_ELEMENTS_MAX, True), (REQUEST_ELEMENTS_MAX + 1, False):
        data = memoryview(b"".join(write(m.DescribeGroupsRequest([""] * count))))
        if is_read:
            assert len(read(data, 0)[0].groups) == count
        else:
            with pytest.raises(InvalidMessage, match="more than 100000 elements"):
                read(data, 0)


def test_the_elements_of_a_response_are_estimated() -> None:
    groups = [m.DescribeGroupsResponseDescribedGroup(members=[m.DescribedGroupMember()] * 3) for _ in range(100)]
    assert elements_of(m.DescribeGroupsResponse(groups=groups)) == 400
    assert elements_of(m.DeleteTopicsRequest(topic_names=NAMES)) == COUNT
    assert elements_of(m.HeartbeatResponse()) == 0


async def test_a_large_response_is_encoded_in_a_thread(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offsetfs.kafka.broker.connections.connection.INLINE_ENCODE_ELEMENTS_MAX", 10)
    response = await running.send(15, "DescribeGroups", 6, m.DescribeGroupsRequest(NAMES))
    assert [each.group_id for each in response.groups] == NAMES


async def test_a_produce_request_for_many_partitions_is_decoded_in_a_thread(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = list[int]()

    async def noted(work: Any) -> Any:
        threads.append(1)
        return work()

    monkeypatch.setattr("offsetfs.kafka.broker.connections.codecs.in_thread", noted)
    for partitions, size in (INLINE_DECODE_ELEMENTS_MAX - 1, 100), (INLINE_DECODE_ELEMENTS_MAX, 100):
        data = [m.PartitionProduceData(number, bytes(size)) for number in range(partitions)]
        request = m.ProduceRequest(None, 1, 1000, [m.TopicProduceData("t", partition_data=data)])
        sent = memoryview(framed(0, "Produce", 9, request))[4:]
        assert len(sent) > INLINE_DECODE_BYTES_MAX
        _, found = await running.broker._apis[0].codecs(9).decoded(sent)
        assert found == request
    assert threads == [1]
