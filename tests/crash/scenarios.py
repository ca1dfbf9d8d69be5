"""Short lives in which each system call matters: what a writer does while it is killed at one call after the other."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fixtures.logs.old_messages import message
from history import History, Partition, timestamp_of
from life import Life

from offsetfs.storage.maintenance.background_tasks import BackgroundTasks
from offsetfs.storage.names import segment_name
from offsetfs.storage.partition.convert import convert_log

OLD_SEGMENTS = 2
OLD_RECORDS = 30


@dataclass(frozen=True, slots=True)
class Scenario:
    """`prepare` fills a directory and returns its history; `live` runs in the writer that is killed."""

    name: str
    prepare: Callable[[Path, History], None]
    live: Callable[[Life], None]


def _nothing(_path: Path, _history: History) -> None:
    pass


def _rolls(life: Life) -> None:
    """Make a partition, append to it over two rolls, and flush what spans them."""
    life.open()
    life.make()
    for step in (Life.append, Life.roll, Life.append, Life.flush, Life.append, Life.roll, Life.flush):
        step(life)


def _stops(life: Life) -> None:
    """Append, write the checkpoints, close in order; open where there is a mark to take away, and close again."""
    life.open()
    life.make()
    for step in (Life.append, Life.checkpoint, Life.append, Life.close):
        step(life)
    life.say("closed")
    life.open()
    for step in (Life.append, Life.close):
        step(life)
    life.say("closed")


def _compacts(life: Life) -> None:
    """Compact a log whose keys come again in later segments."""
    _prepared(life, "keyed-2")
    BackgroundTasks(life.directory).run_all(now=True)
    life.close()
    life.say("closed")


def _retains(life: Life) -> None:
    """Delete records, and with them the segments below; then the partition."""
    _prepared(life, "orders-0")
    life.delete_records()
    life.run_background_tasks()
    life.drop()
    life.close()
    life.say("closed")


def _prepared(life: Life, name: str) -> None:
    """Make a partition of a few segments; nothing of it is on disk."""
    life.open()
    life.make(name)
    for _ in range(3):
        life.append()
        life.roll()


def _old_log(path: Path, history: History) -> None:
    """A log of two segments in format v1, as a broker of 0.10 left it, closed in order."""
    partition = history.of("orders-0")
    partition.begin(0, 0)
    (path / partition.name).mkdir()
    for number in range(OLD_SEGMENTS):
        first = number * OLD_RECORDS
        data = b"".join(_old_message(partition, offset) for offset in range(first, first + OLD_RECORDS))
        (path / partition.name / segment_name(first, ".log")).write_bytes(data)
    partition.synced = OLD_SEGMENTS * OLD_RECORDS
    (path / ".kafka_cleanshutdown").touch()


def _old_message(partition: Partition, offset: int) -> bytes:
    key, value = partition.record(offset)
    return message(1, offset, key, value, timestamp_of(offset))


def _swaps(life: Life) -> None:
    """Convert an old log: each of its segments is swapped for a new version."""
    life.open()
    [partition] = life.directory.partitions()
    convert_log(life.directory.log(partition))
    life.close()
    life.say("closed")


SCENARIOS = {
    each.name: each
    for each in (
        Scenario("roll", _nothing, _rolls),
        Scenario("stop", _nothing, _stops),
        Scenario("swap", _old_log, _swaps),
        Scenario("compaction", _nothing, _compacts),
        Scenario("retention", _nothing, _retains),
    )
}


def play(name: str, path: str, seed: int, number: int, say: Callable[[str], None]) -> None:
    """Live the scenario called `name`."""
    SCENARIOS[name].live(Life(os.fspath(path), seed, number, 0, say))
