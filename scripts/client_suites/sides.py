"""The two brokers that suites run against: `offsetfs serve`, and Kafka 4.1 on a single node, on free loopback ports."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, get_args

sys.path.append(str(Path(__file__).resolve().parent.parent.parent / "tests" / "fixtures"))
from kafka_broker import KafkaBroker, tied_to_us
from served import served

__all__ = ["SIDES", "Side", "address_of", "tied_to_us"]

Side = Literal["kafka", "offsetfs"]
SIDES: tuple[Side, ...] = get_args(Side)
SETTINGS = {"auto.create.topics.enable": "true", "num.partitions": "4"}
"""What the suites expect of a broker: librdkafka's default scenario, and a topic that is created when it is used."""


@contextmanager
def address_of(side: Side, folder: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """Run a broker with a log directory in `folder`."""
    settings = {**SETTINGS, **settings}
    log_directory = folder / "log"
    log_directory.mkdir(parents=True)
    if side == "kafka":
        with KafkaBroker(folder, log_dir=log_directory, settings=settings) as broker:
            yield broker.address
    else:
        options = (word for name, value in settings.items() for word in ("-o", f"{name}={value}"))
        with served(log_directory, *options) as ours:
            yield ours.address
