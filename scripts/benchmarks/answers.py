"""Answers of a whole directory: how long a look at ten thousand partitions takes."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import keyed
from bench import Bench
from fixtures.logs.planted_logs import sealed
from measuring import Contender, Goal, Measure, Opened, Peer, Row

from offsetfs.answers.diff.directories import BY_KEY, DiffOptions, DirectoriesComparison
from offsetfs.answers.doctor.doctor import examine
from offsetfs.storage import LogDirectories, LogDirectory, TopicPartition

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


def _copies(bench: Bench) -> tuple[Path, Path]:
    """Return two log directories with the same `bench.count` lines, in batches of 16 KiB."""
    first = bench.filled(16 << 10)
    return first, bench.once(("copy", bench.count), lambda: Path(shutil.copytree(first, f"{first}-copy")))


def _keyed_copies(bench: Bench) -> tuple[Path, Path]:
    """Return two log directories with the same `bench.count` records over a fifth as many keys."""

    def made() -> tuple[Path, Path]:
        first = bench.new("keyed")
        keyed.keyed(first, bench.count, "none")
        return first, Path(shutil.copytree(first, f"{first}-copy"))

    return bench.once(("keyed copies", bench.count), made)


def _diff(copies: Callable[[Bench], tuple[Path, Path]], options: DiffOptions) -> Opened:
    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        first, second = copies(bench)

        def measure(number: int) -> float:
            start = time.perf_counter()
            with contextlib.ExitStack() as opened:
                a, b = (
                    opened.enter_context(contextlib.closing(LogDirectories.open([str(path)], _read_only)))
                    for path in (first, second)
                )
                (pair, *_) = DirectoriesComparison(a, b, a.partitions(), options).run()
            if pair.orderless is not None:
                assert pair.orderless.equal and not pair.orderless.changed
            else:
                assert pair.found is not None and pair.found.parted_at is None
            return time.perf_counter() - start

        yield measure

    return opened


def _read_only(path: str) -> LogDirectory:
    return LogDirectory.open(path, read_only=True)


def _cmp(copies: Callable[[Bench], tuple[Path, Path]]) -> Opened:
    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        first, second = copies(bench)
        logs = sorted(path.relative_to(first) for path in first.glob("*/*.log"))

        def measure(number: int) -> float:
            start = time.perf_counter()
            for each in logs:
                subprocess.run(["cmp", first / each, second / each], check=True)
            return time.perf_counter() - start

        yield measure

    return opened


ROWS = (
    Row(
        "diff",
        "`offsetfs diff` of two directories with equal logs, all bytes",
        unit="s",
        of="records",
        count=10_000_000,
        count_quick=100_000,
        ours=Contender("offsetfs", _diff(_copies, DiffOptions())),
        peers=(Peer(Contender("cmp", _cmp(_copies)), Goal(is_speed=True, bound=1.0)),),
    ),
    Row(
        "diff-key",
        "The latest record of each key in two directories with equal logs: `offsetfs diff --by key`",
        unit="s",
        of="records",
        count=10_000_000,
        count_quick=50_000,
        ours=Contender("offsetfs", _diff(_keyed_copies, DiffOptions(by=BY_KEY))),
        peers=(Peer(Contender("cmp", _cmp(_keyed_copies)), Goal(is_speed=True, bound=1.0), is_goal=False),),
    ),
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
