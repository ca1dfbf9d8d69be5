"""The mount itself: how long it takes to be there, what it holds in memory, and how long a command takes to begin."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import logs
import mounted
from bench import Bench
from commands import seconds
from logs import PARTITION
from measuring import Contender, Measure, Opened, Peer, Row, times_as_long
from single import read_us


def mounting(make: Callable[[Path, int], Path]) -> Opened:
    """From the start of `offsetfs mount` until it has returned and `info` of a partition was read."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        log_directory = make(bench.new("log"), bench.count)

        def measure(number: int) -> float:
            start = time.perf_counter()
            with mounted.offsetfs(log_directory, bench.folder / "ours") as mount:
                info = json.loads((mount.path / str(PARTITION) / "info").read_bytes())
                elapsed = time.perf_counter() - start
            assert info["next_offset"] > 0
            return elapsed

        yield measure
        shutil.rmtree(log_directory)

    return opened


@contextlib.contextmanager
def memory(bench: Bench) -> Iterator[Measure]:
    """VmRSS of a fresh daemon after random reads all over a log of `count` segments of 1 GiB; MiB."""
    log = bench.sparse(bench.count)

    def measure(number: int) -> float:
        with mounted.offsetfs(log.directory, bench.folder / "ours") as mount:
            reads = [f"{mount.path / str(PARTITION)}/{offset}" for offset in log.offsets[: bench.reads]]
            read_us(reads, logs.LINE_BYTES - 1)
            return mount.resident_bytes() / (1 << 20)

    yield measure


def command(*words: str) -> Opened:
    """A command that ends by itself, `count` times in a row; ms each."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        script = 'count=$1; shift; for n in $(seq "$count"); do "$@" || exit; done > /dev/null'
        yield lambda number: seconds(script, bench.count, *words) / bench.count * 1e3

    return opened


_PYTHON = Contender("`python -c pass`", command(sys.executable, "-c", "pass"))

ROWS = (
    Row(
        "mount-segments",
        "`offsetfs mount` of a partition with 10 000 sealed segments, and its `info`",
        unit="s",
        of="segments",
        count=10_000,
        count_quick=100,
        ours=Contender("mount and `info`", mounting(logs.sealed_segments)),
        limit=1.0,
    ),
    Row(
        "mount-partitions",
        "`offsetfs mount` of 10 000 partitions, and the `info` of one",
        unit="s",
        of="partitions",
        count=10_000,
        count_quick=100,
        ours=Contender("mount and `info`", mounting(logs.partitions)),
        limit=2.0,
    ),
    Row(
        "memory",
        "Resident memory of the daemon after 20 000 random reads in a log of 1000 GiB",
        unit="MiB",
        of="segments",
        count=1000,
        count_quick=20,
        ours=Contender("VmRSS", memory),
        limit=100.0,
    ),
    Row(
        "start",
        "A command that has nothing to do: `offsetfs --help`",
        unit="ms",
        of="starts",
        count=20,
        count_quick=1,
        ours=Contender("`offsetfs --help`", command(str(Path(sys.executable).with_name("offsetfs")), "--help")),
        peers=(Peer(_PYTHON, times_as_long(1), is_goal=False),),
        limit=150.0,
    ),
)
