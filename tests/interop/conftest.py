"""Real brokers for the tests that need one; see KafkaBroker for what they can do."""

import gc
import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from fixtures.broker.served import CLUSTERS, Cluster, running
from fixtures.kafka.broker import KafkaBroker
from fixtures.kafka.tools import JavaTools, resident


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


@pytest.fixture(scope="session", params=CLUSTERS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Kafka, then `offsetfs serve`: a test runs against both and asserts the same for both.

    All tests of a run share them; each uses topics and groups of its own.
    """
    with running(request.param, tmp_path_factory.mktemp("cluster")) as broker:
        yield broker


@pytest.fixture
def python_clients() -> Iterator[None]:
    """For tests that ignore ResourceWarning: collect here what clients in Python left open, not in the next test.

    kafka-python and aiokafka forget a socket when an attempt to connect is given up, as it is on a busy machine.
    """
    yield
    gc.collect()


@pytest.fixture(scope="session")
def java() -> JavaTools:
    """Kafka's command line tools, in one JVM."""
    return resident()
