"""Many at once: readers, followers, writers, each a process of its own."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import logs
import mounted
from bench import Bench
from commands import kcat, kcat_consume_all, lines_topic
from lines_in import new_log
from logs import PARTITION
from measuring import Contender, Measure, Opened, Peer, Row, times_as_fast

CROWD = 16


def side_by_side(scripts: Sequence[str]) -> float:
    """Return how long it takes until shell scripts that were started together have all ended well."""
    start = time.perf_counter()
    running = [subprocess.Popen(["sh", "-c", script]) for script in scripts]
    codes = [process.wait() for process in running]
    elapsed = time.perf_counter() - start
    assert not any(codes), codes
    return elapsed


# --- readers ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def readers(bench: Bench) -> Iterator[Measure]:
    """16 × `cat values`, mounted again in each round."""
    log_directory = bench.filled(logs.OWN_BATCH_BYTES)

    def measure(number: int) -> float:
        with mounted.offsetfs(log_directory, bench.folder / "ours") as mount:
            path = mount.path / str(PARTITION) / "values"
            assert path.stat().st_size == bench.count * logs.LINE_BYTES
            return side_by_side([f"exec cat {path} > /dev/null"] * CROWD)

    yield measure


@contextlib.contextmanager
def kcat_readers(bench: Bench) -> Iterator[Measure]:
    """16 × `kcat -C -e` of the same records."""
    consume = kcat_consume_all(bench, lines_topic(bench))
    yield lambda number: side_by_side([f"exec {consume} > /dev/null"] * CROWD)


# --- followers -------------------------------------------------------------------------------------------------------

_WAKE_SECONDS_MAX = 60.0
_LINE = b"follow me\n"


def followers(partitions: int) -> Opened:
    """The time from a write to `append` until the record has come out of all `cat follow` of its partition; p99 in ms.

    `count` of them share the partitions, and all print into one pipe: a line is there when its process has been woken,
    has read and has written.
    """

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        log_directory = new_log(bench, "retention.ms=-1", partitions)
        each = bench.count // partitions
        with mounted.offsetfs(log_directory, bench.folder / "ours", "linger-ms=0") as mount, ExitStack() as stack:
            folders = [mount.path / f"{PARTITION.topic}-{number}" for number in range(partitions)]
            appends = [os.open(folder / "append", os.O_WRONLY) for folder in folders]
            for append in appends:
                stack.callback(os.close, append)
            lines = stack.enter_context(_cats([folder / "follow@0" for folder in folders], each))
            for append in appends:
                _wake(append, lines, each)  # now all of them are there, and wait for more

            def measure(number: int) -> float:
                wakes = max(bench.reads // 20 // each, 1)
                woken = itertools.islice(itertools.cycle(appends), wakes)
                delays = sorted(ms for append in woken for ms in _wake(append, lines, each))
                return delays[math.ceil(len(delays) * 0.99) - 1]

            yield measure
        shutil.rmtree(log_directory)

    return opened


@contextlib.contextmanager
def _cats(paths: Sequence[Path], each: int) -> Iterator[int]:
    """Run `cat` of each file so many times; yield the pipe that all of them write to."""
    script = 'each=$1; shift; for n in $(seq "$each"); do for path; do cat "$path" & done; done; wait'
    words = ["sh", "-c", script, "sh", str(each), *map(str, paths)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as shell:
        assert shell.stdout is not None
        try:
            yield shell.stdout.fileno()
        finally:
            os.killpg(shell.pid, signal.SIGTERM)
            while shell.stdout.read(1 << 16):
                pass


def _wake(append: int, lines: int, count: int) -> list[float]:
    """Append a line, and return after how many ms it came out of each of the followers."""
    delays: list[float] = []
    start = time.perf_counter()
    os.write(append, _LINE)
    while len(delays) < count:
        assert select.select([lines], [], [], _WAKE_SECONDS_MAX)[0], f"{len(delays)} of {count} followers woke up"
        arrived = len(os.read(lines, 1 << 16)) // len(_LINE)
        delays += [(time.perf_counter() - start) * 1e3] * arrived
    return delays


# --- writers ---------------------------------------------------------------------------------------------------------


def writers(partitions: int, partitions_quick: int, *, is_together: bool = True) -> Opened:
    """16 × `cat lines >> append`; as a broker's, the partitions stay what they are from round to round.

    `is_together`: each writes all its lines to the one partition, or to the topic. Else one after the other into its
    share of the partitions.
    """

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        count = partitions if bench.is_full else partitions_quick
        log_directory = new_log(bench, "retention.ms=-1", count)
        with mounted.offsetfs(log_directory, bench.new("ours")) as mount:
            folders = [mount.path / f"{PARTITION.topic}-{number}" for number in range(count)]
            pieces = CROWD if is_together else count
            if is_together:
                target = folders[0] if count == 1 else mount.path / "topics" / PARTITION.topic
                loops = [_into(target, bench, pieces)] * CROWD
            else:
                loops = ["; ".join(_into(each, bench, pieces) for each in folders[n::CROWD]) for n in range(CROWD)]
            before = 0

            def measure(number: int) -> float:
                nonlocal before
                figure = side_by_side(loops)
                end = sum(int((folder / "next").read_text()) for folder in folders)
                assert end - before == bench.count // pieces * pieces, end - before
                before = end
                return figure

            yield measure
        shutil.rmtree(log_directory)

    return opened


def _into(folder: Path, bench: Bench, share: int) -> str:
    """Return the command that appends an equal share of the lines."""
    return f"cat {bench.for_row(bench.count // share).lines()} >> {folder}/append"


def kcat_writers(partitions: int, partitions_quick: int) -> Opened:
    """16 × `kcat -P` of as many lines: into one partition, or wherever its partitioner puts them."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        count = partitions if bench.is_full else partitions_quick
        topic = bench.topic(f"writers-{count}", partitions=count)
        piece = bench.for_row(bench.count // CROWD).lines()
        produce = kcat("-P", bench.broker(), topic, 0 if count == 1 else None)
        yield lambda number: side_by_side([f"exec {produce} < {piece}"] * CROWD)

    return opened


_seconds = functools.partial(Row, unit="s")
_followers = functools.partial(Row, unit="ms", of="followers", count=1000, limit=20.0)

ROWS = (
    _seconds(
        "many-readers",
        "16 × `cat T-0/values` at once; a million records each",
        of="records",
        count=1_000_000,
        count_quick=20_000,
        record_bytes=logs.LINE_BYTES * CROWD,
        ours=Contender("16 × `cat values`", readers),
        peers=(Peer(Contender("16 × `kcat -C -e`", kcat_readers), times_as_fast(3)),),
    ),
    _followers(
        "followers",
        "1000 × `cat follow` of 100 partitions: from a write with `linger-ms=0` until all have printed it",
        ours=Contender("write to print, p99", followers(100)),
        count_quick=100,
    ),
    _followers(
        "followers-of-one",
        "1000 × `cat T-0/follow` of one partition, all woken by every write",
        ours=Contender("write to print, p99", followers(1)),
        count_quick=20,
    ),
    _seconds(
        "many-writers",
        "16 × `cat lines >> T-0/append` at once, 5 million lines together",
        of="lines",
        count=5_000_000,
        count_quick=50_000,
        ours=Contender("16 × `cat lines >> append`", writers(1, 1)),
        peers=(Peer(Contender("16 × `kcat -P`", kcat_writers(1, 1)), times_as_fast(3)),),
    ),
    _seconds(
        "many-partitions",
        "16 × `cat lines >> topics/T/append` at once, 5 million lines together, into 1000 partitions",
        of="lines",
        count=5_000_000,
        count_quick=50_000,
        ours=Contender("16 × `cat lines >> topics/T/append`", writers(1000, 20)),
        peers=(Peer(Contender("16 × `kcat -P`", kcat_writers(1000, 20)), times_as_fast(3)),),
    ),
    _seconds(
        "many-partitions-each",
        "The same, a `cat` for each partition in turn, in 16 shells: `cat lines >> T-<n>/append`",
        of="lines",
        count=5_000_000,
        count_quick=50_000,
        ours=Contender("1000 × `cat lines >> T-<n>/append`", writers(1000, 20, is_together=False)),
        peers=(Peer(Contender("16 × `kcat -P`", kcat_writers(1000, 20)), times_as_fast(3), is_goal=False),),
    ),
)
