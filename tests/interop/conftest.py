"""Real brokers for the tests that need one; see KafkaBroker for what they can do."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from kafka_broker import KafkaBroker
from left_logs import damage_left
from served import Cluster, served


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[KafkaBroker]:
    """A running broker of this test's own."""
    with KafkaBroker(tmp_path / "kafka") as broker:
        yield broker


@pytest.fixture(scope="module")
def kafka_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A running broker that the tests of a module share; each takes topics of its own."""
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
def new_kafka(tmp_path: Path) -> Iterator[Callable[..., KafkaBroker]]:
    """Make brokers that are not yet started, with KafkaBroker's log_dir and settings; they end with the test."""
    numbers = itertools.count(1)
    with ExitStack() as ends:

        def make(*, log_dir: Path | None = None, settings: Mapping[str, str] | None = None) -> KafkaBroker:
            broker = KafkaBroker(tmp_path / f"kafka-{next(numbers)}", log_dir=log_dir, settings=settings)
            ends.callback(broker.close)
            return broker

        yield make


@pytest.fixture(scope="session", params=["kafka-4.1", "offsetfs"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Kafka, then `offsetfs serve`: a test runs against both and asserts the same for both.

    All tests of a run share them; each uses topics and groups of its own.
    """
    folder = tmp_path_factory.mktemp("cluster")
    if request.param == "kafka-4.1":
        with KafkaBroker(folder, settings={"auto.create.topics.enable": "true"}) as kafka:
            yield Cluster(request.param, kafka.address)
        return
    logs = folder / "logs"
    logs.mkdir()
    with served(logs) as broker:
        yield broker
    assert damage_left(folder) == []
