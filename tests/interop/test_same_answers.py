"""The same requests to Kafka 4.1 and to `offsetfs serve` have the same answers, field by field.

The requests are those of real clients, recorded at a proxy in front of a Kafka, those of `admin_requests`, and
generated ones. What may differ is in docs/evidence/differences.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
from admin_requests import requests
from decoded_messages import Asked
from generated_session import ask_generated
from kafka_broker import KafkaBroker
from recorded_clients import CLIENTS
from recording_proxy import API_VERSIONS, Event, RecordingProxy, next_frame
from replay import Found, Side, pair
from running_broker import framed, sent
from served import Cluster, Served, served

from offsetfs.protocol import messages as m

pytestmark = pytest.mark.interop

SECONDS_MAX = 60
SETTINGS = {"auto.create.topics.enable": "true"}
OPTIONS = ("offsets.topic.num.partitions=2", "transaction.state.log.num.partitions=2")
GENERATED_SEED, GENERATED_ROUNDS = 1, 3
"""The rounds ask each version of each API once."""

NAMES_OF_ALL_PARTITIONS = ("a", "b")
"""Groups and transactional ids in each of the two partitions of the internal topics."""

PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "differences.md"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path_factory.mktemp("kafka"), settings=SETTINGS) as broker:
        trio.run(start_coordinators, broker.address)
        yield broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("logs"), *(word for each in OPTIONS for word in ("-o", each))) as found:
        trio.run(start_coordinators, found.address)
        yield found


@pytest.fixture(scope="module")
def recording(broker: Served, tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    """What the clients and a Kafka have sent to each other. The clients send what `broker` offers."""
    with RecordingProxy(trio.run(offered, broker.address)) as proxy:
        folder, address = tmp_path_factory.mktemp("recorded"), f"127.0.0.1:{proxy.port}"
        with KafkaBroker(folder, settings=SETTINGS, advertised=address) as kafka:
            proxy.target = ("127.0.0.1", kafka.port)
            trio.run(start_coordinators, kafka.address)
            for client in CLIENTS:
                proxy.client = client.__name__
                client(Cluster("kafka-4.1", address))
    return proxy.events


async def offered(address: str) -> dict[int, bytes]:
    """Return the bodies of what a broker answers to ApiVersions, by version."""
    found = {}
    host, port = address.rsplit(":", 1)
    for version in range(5):
        async with await trio.open_tcp_stream(host, int(port)) as stream:
            await stream.send_all(framed(API_VERSIONS, "ApiVersions", version, m.ApiVersionsRequest("test", "1")))
            found[version] = (await next_frame(stream))[4:]
    return found


async def start_coordinators(address: str) -> None:
    """Wait until groups and producers have coordinators: a broker makes their topics when the first one is wanted."""
    host, port = address.rsplit(":", 1)

    async def until_done(key: int, name: str, version: int, request: Any, code: Callable[[Any], int]) -> None:
        while code(await sent((host, int(port)), key, name, version, request)):
            await trio.sleep(0.05)

    topics = [m.OffsetCommitRequestTopic("any", partitions=[m.OffsetCommitRequestPartition(0, 1)])]
    with trio.fail_after(SECONDS_MAX):
        await until_done(19, "CreateTopics", 5, m.CreateTopicsRequest([m.CreatableTopic("any", 1, 1)]), lambda _: 0)
        for name in NAMES_OF_ALL_PARTITIONS:
            for kind in (0, 1):
                find = m.FindCoordinatorRequest(key_type=kind, coordinator_keys=[name])
                await until_done(10, "FindCoordinator", 4, find, lambda found: found.coordinators[0].error_code)
            commit = m.OffsetCommitRequest(name, topics=topics)
            await until_done(8, "OffsetCommit", 7, commit, lambda found: found.topics[0].partitions[0].error_code)
            begin = m.InitProducerIdRequest(name, 10_000)
            await until_done(22, "InitProducerId", 2, begin, lambda found: found.error_code)
        begin = m.InitProducerIdRequest(None)
        await until_done(22, "InitProducerId", 2, begin, lambda found: found.error_code)


def accepted() -> list[tuple[str, str]]:
    """Return the rows of the table: API and field."""
    return re.findall(r"^\| (\w+) \| `([^`]+)` \|", PAGE.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def recorded(kafka: KafkaBroker, broker: Served, recording: Sequence[Event]) -> list[Found]:
    """The differences of the recorded requests."""

    async def replay() -> list[Found]:
        async with pair(Side(kafka.address), Side(broker.address), accepted()) as brokers:
            await brokers.replay(recording)
        return brokers.found

    return trio.run(replay)


@pytest.fixture(scope="module")
def administered(kafka: KafkaBroker, broker: Served) -> list[Found]:
    """The differences of the requests in `admin_requests`."""

    async def ask() -> list[Found]:
        async with pair(Side(kafka.address, is_reference=True), Side(broker.address), accepted()) as brokers:
            for key, _, version, message in requests():
                await brokers.ask("admin", Asked(m.RequestHeader(key, version, 7, "test"), message))
        return brokers.found

    return trio.run(ask)


@pytest.fixture(scope="module")
def generated(kafka: KafkaBroker, broker: Served) -> list[Found]:
    """The differences of generated requests."""

    async def ask() -> list[Found]:
        async with pair(Side(kafka.address, is_reference=True), Side(broker.address), accepted()) as brokers:
            await ask_generated(brokers, GENERATED_SEED, GENERATED_ROUNDS)
        return brokers.found

    return trio.run(ask)


def other(found: Sequence[Found]) -> str:
    """Return the differences that are not accepted, the last one of each field."""
    return "\n".join({each.row: str(each) for each in found if each.row not in accepted()}.values())


def test_recorded_requests_of_clients_have_the_same_answers(recorded: Sequence[Found]) -> None:
    assert not other(recorded)


def test_requests_of_administrators_have_the_same_answers(administered: Sequence[Found]) -> None:
    assert not other(administered)


def test_generated_requests_have_the_same_answers(generated: Sequence[Found]) -> None:
    assert not other(generated)


def test_the_page_has_no_difference_that_is_not_there(
    recorded: Sequence[Found], administered: Sequence[Found], generated: Sequence[Found]
) -> None:
    assert set(accepted()) - {each.row for each in (*recorded, *administered, *generated)} == set()
