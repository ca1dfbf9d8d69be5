"""Answers of a whole directory: how long a look at ten thousand partitions takes."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from bench import Bench
from fixtures.logs.planted_logs import sealed
from measuring import Contender, Measure, Row

from offsetfs.answers.doctor.doctor import examine
from offsetfs.storage import LogDirectory, TopicPartition

NOW_MS = 1_795_000_000_000
_PER_TOPIC = 10


def _directory(bench: Bench) -> str:
    """Return a log directory of `bench.count` partitions with three records each, closed cleanly."""

    def made() -> str:
        path = os.fspath(bench.folder / f"partitions-{bench.count}")
        os.mkdir(path)
        directory = LogDirectory.open(path)
        partitions = [
            TopicPartition(f"topic{number // _PER_TOPIC}", number % _PER_TOPIC) for number in range(bench.count)
        ]
        directory.create_partitions(partitions)
        for partition in partitions:
            with directory.borrowed(partition) as log:
                for _ in range(3):
                    log.append(sealed(bytes(300), NOW_MS))
        directory.close()
        return path

    return bench.once(("partitions", bench.count), made)


@contextlib.contextmanager
def _doctor(bench: Bench) -> Iterator[Measure]:
    path = _directory(bench)
    assert not examine([path], NOW_MS).findings

    def measure(number: int) -> float:
        start = time.perf_counter()
        examine([path], NOW_MS)
        return time.perf_counter() - start

    yield measure


ROWS = (
    Row(
        "doctor",
        "`offsetfs doctor`: everything it looks at, in partitions with three records each",
        unit="s",
        of="partitions",
        count=10_000,
        count_quick=100,
        ours=Contender("offsetfs", _doctor),
        limit=2.0,
    ),
)
