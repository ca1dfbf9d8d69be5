"""Kafka's broker at its own housekeeping: directories that it is given while it is stopped, and the content of its log.

The broker's own lines say how long its work took, without its start and without its other threads.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import mounted  # noqa: F401  (the fixtures of the tests are on the path after it)
from fixtures.kafka.broker import KafkaBroker

from offsetfs.storage import checkpoint
from offsetfs.storage.checkpoint import CLEAN_SHUTDOWN, HIGH_WATERMARKS, RECOVERY_POINTS
from offsetfs.storage.names import TopicPartition

WAIT_SECONDS_MAX = 300.0

_CLEANED = r"cleaned log {0} \(.*\n\s*([\d,.]+) MB of log processed in ([\d,.]+) seconds \(([\d,.]+) MB/sec\)"
_LOADED = r"Completed load of .*/{0}[,)].* in (\d+)ms"


SETTINGS = {
    "auto.create.topics.enable": "true",
    "log.retention.ms": "-1",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0",
    "log.initial.task.delay.ms": "100",
}
"""Topics when they are asked for, everything is kept, and the cleaner begins as soon as there is something for it."""


@dataclass(frozen=True, slots=True)
class Planted:
    """A partition of a log directory that a broker is to have: its folder, and the offset behind its last record.

    With `is_shared` the broker gets the same `.log` files, of which it must not write any; else copies.
    """

    folder: Path
    next_offset: int
    is_shared: bool = False


def plant(broker: KafkaBroker, planted: Mapping[TopicPartition, Planted]) -> None:
    """Restart a broker with these partitions, the first of topics that it does not have yet."""
    for partition in planted:
        broker.produce(partition.topic, b"made\n")
    broker.stop()
    for partition, each in planted.items():
        empty(broker.log_dir, partition)
        for file in each.folder.glob("0*"):
            if each.is_shared and file.suffix == ".log":
                os.link(file, broker.log_dir / str(partition) / file.name)
            else:
                shutil.copy(file, broker.log_dir / str(partition))
    _know(broker.log_dir, {partition: each.next_offset for partition, each in planted.items()})
    broker.start()


def empty(log_dir: Path, partition: TopicPartition) -> None:
    """Take all segments of a stopped broker's partition away."""
    for file in (log_dir / str(partition)).glob("0*"):
        file.unlink()
    _know(log_dir, {partition: 0})


def _know(log_dir: Path, next_offsets: Mapping[TopicPartition, int]) -> None:
    """Tell a stopped broker that its partitions end there, on disk and known to all."""
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS):
        path = str(log_dir / name)
        checkpoint.write_offsets(path, {**checkpoint.read_offsets(path), **next_offsets})


def make_unclean(log_dir: Path, partition: TopicPartition) -> None:
    """Make a directory look as if nothing of `partition` had been synced when the power went."""
    (log_dir / CLEAN_SHUTDOWN).unlink(missing_ok=True)
    path = str(log_dir / RECOVERY_POINTS)
    checkpoint.write_offsets(path, {**checkpoint.read_offsets(path), partition: 0})


class LoggingBroker(Protocol):
    """A broker whose log can be read."""

    @property
    def is_running(self) -> bool: ...

    def log_text(self) -> str: ...


def find_in_log(broker: LoggingBroker, pattern: str) -> re.Match[str]:
    """Return the match of `pattern` in what the broker logs, once it does."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not (match := re.search(pattern, broker.log_text())):
        if time.monotonic() > deadline or not broker.is_running:
            raise RuntimeError(f"the broker does not say {pattern}\n{broker.log_text()[-3000:]}")
        time.sleep(0.05)
    return match


def cleaned_seconds(broker: LoggingBroker, partition: TopicPartition) -> float:
    """Return how long the cleaner worked at a partition, once it has. It says so to a tenth; its rate says more."""
    match = find_in_log(broker, _CLEANED.format(re.escape(str(partition))))
    megabytes, elapsed, rate = (float(number.replace(",", "")) for number in match.groups())
    return megabytes / rate if rate else elapsed


def loaded_seconds(broker: LoggingBroker, partition: TopicPartition) -> float:
    """Return how long the broker took to load, and recover, a partition when it started."""
    return int(find_in_log(broker, _LOADED.format(re.escape(str(partition))))[1]) / 1000
