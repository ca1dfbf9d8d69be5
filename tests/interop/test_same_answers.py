"""The same requests to Kafka 4.4 and to `offsetfs serve` have the same answers, field by field.

The requests are those of real clients, recorded at a proxy in front of a Kafka, those of `admin_requests`, and
generated ones. What may differ is in docs/evidence/differences.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import trio
from fixtures.broker.running import framed
from fixtures.broker.served import Cluster, Served
from fixtures.comparison.accepted_differences import accepted_rows
from fixtures.comparison.admin_requests import requests
from fixtures.comparison.brokers import compared_broker, compared_kafka
from fixtures.comparison.generated_session import ask_generated, versions_of_both
from fixtures.comparison.generated_sessions import KINDS, ask_session, show_rows
from fixtures.comparison.recorded_clients import CLIENTS
from fixtures.comparison.recording_proxy import API_VERSIONS, Event, RecordingProxy, next_frame
from fixtures.comparison.replay import Found, Side, pair
from fixtures.kafka.broker import KafkaBroker
from fixtures.messages.decoded_messages import Asked

from offsetfs.kafka.protocol import messages as m

pytestmark = pytest.mark.interop

GENERATED_SEED, GENERATED_ROUNDS = 1, 3
"""The rounds ask each version of each API once."""

SESSIONS = 4
"""Of each kind."""

ACCEPTED = accepted_rows()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with compared_kafka(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with compared_broker(tmp_path_factory.mktemp("logs")) as found:
        yield found


@pytest.fixture(scope="module")
def recording(broker: Served, tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    """What the clients and a Kafka have sent to each other. The clients send what `broker` offers."""
    with RecordingProxy(trio.run(offered, broker.address)) as proxy:
        folder, address = tmp_path_factory.mktemp("recorded"), f"127.0.0.1:{proxy.port}"
        with compared_kafka(folder, advertised=address) as kafka:
            proxy.target = ("127.0.0.1", kafka.port)
            for client in CLIENTS:
                proxy.client = client.__name__
                client(Cluster("kafka", address))
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


@pytest.fixture(scope="module")
def recorded(kafka: KafkaBroker, broker: Served, recording: Sequence[Event]) -> list[Found]:
    """The differences of the recorded requests."""

    async def replay() -> list[Found]:
        async with pair(Side(kafka.address), Side(broker.address), ACCEPTED) as brokers:
            await brokers.replay(recording)
        return brokers.found

    return trio.run(replay)


@pytest.fixture(scope="module")
def administered(kafka: KafkaBroker, broker: Served) -> list[Found]:
    """The differences of the requests in `admin_requests`."""

    async def ask() -> list[Found]:
        async with pair(Side(kafka.address, is_reference=True), Side(broker.address), ACCEPTED) as brokers:
            for key, _, version, message in requests():
                await brokers.ask("admin", Asked(m.RequestHeader(key, version, 7, "test"), message))
        return brokers.found

    return trio.run(ask)


@pytest.fixture(scope="module")
def generated(kafka: KafkaBroker, broker: Served) -> list[Found]:
    """The differences of generated requests."""

    async def ask() -> list[Found]:
        async with pair(Side(kafka.address, is_reference=True), Side(broker.address), ACCEPTED) as brokers:
            versions = await versions_of_both(brokers)
            await ask_generated(brokers, versions, GENERATED_SEED, GENERATED_ROUNDS)
            for kind in KINDS:
                for number in range(SESSIONS):
                    await ask_session(brokers, versions, kind, f"{GENERATED_SEED}-{number}")
            await show_rows(brokers, versions, ACCEPTED)
        return brokers.found

    return trio.run(ask)


def check(found: Sequence[Found]) -> None:
    """Fail with the differences that are not accepted, the last one of each field."""
    other = {each.place: str(each) for each in found if each.accepted is None}
    if other:
        pytest.fail("\n".join(other.values()), pytrace=False)


def test_recorded_requests_of_clients_have_the_same_answers(recorded: Sequence[Found]) -> None:
    check(recorded)


def test_requests_of_administrators_have_the_same_answers(administered: Sequence[Found]) -> None:
    check(administered)


def test_generated_requests_have_the_same_answers(generated: Sequence[Found]) -> None:
    check(generated)


def test_the_page_has_no_difference_that_is_not_there(
    recorded: Sequence[Found], administered: Sequence[Found], generated: Sequence[Found]
) -> None:
    missing = {each for each in ACCEPTED if each.is_always_shown} - {
        each.accepted for each in (*recorded, *administered, *generated)
    }
    if missing:
        pytest.fail("\n".join(sorted(map(str, missing))), pytrace=False)
