"""The rest of the tree: a follower, lines of JSON on their way in, a range by offset, and a mount that does nothing."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

import logs
import mounted
from bench import Bench
from commands import seconds
from crowds import followers
from lines_in import new_log
from logs import PARTITION
from measuring import WARM_UP, Contender, Measure, Row

_RANGE_RECORDS = 1000
_IDLE_SECONDS = 20
_IDLE_SECONDS_QUICK = 1
_AS_JSON = """
import sys
for number, line in enumerate(sys.stdin):
    print('{"key":"key-%d","value":"%s","headers":[]}' % (number % 1000, line.rstrip()))
"""


@contextlib.contextmanager
def ndjson_in(bench: Bench) -> Iterator[Measure]:
    """`cat` of lines of JSON, with keys, into `append.ndjson` of a new partition; until cat has returned."""
    lines = bench.new("ndjson")
    with bench.lines().open() as source, lines.open("wb") as sink:
        subprocess.run([sys.executable, "-c", _AS_JSON], stdin=source, stdout=sink, check=True)

    def measure(number: int) -> float:
        log_directory = new_log(bench, "retention.ms=-1")
        with mounted.offsetfs(log_directory, bench.folder / "ours") as mount:
            partition = mount.path / str(PARTITION)
            figure = seconds('exec cat "$1" >> "$2"', lines, partition / "append.ndjson")
            assert int((partition / "next").read_text()) == bench.count
            if number == WARM_UP:
                subprocess.run(["cmp", partition / "values", bench.lines()], check=True)
        shutil.rmtree(log_directory)
        return figure

    yield measure
    lines.unlink()


@contextlib.contextmanager
def ranges(bench: Bench) -> Iterator[Measure]:
    """stat of `range/A..B` of a thousand records of a log that no round asked for before; ms each."""
    log_directory = bench.filled(logs.PRODUCER_BATCH_BYTES)
    with mounted.offsetfs(log_directory, bench.folder / "ours") as mount:
        folder = mount.path / str(PARTITION) / "range"

        def measure(number: int) -> float:
            starts = range(number - WARM_UP, bench.count - _RANGE_RECORDS, bench.count // 500)
            paths = [f"{folder}/{start}..{start + _RANGE_RECORDS}" for start in starts]
            begun = time.perf_counter()
            sizes = {os.stat(path).st_size for path in paths}
            elapsed = time.perf_counter() - begun
            assert sizes == {_RANGE_RECORDS * logs.LINE_BYTES}, sizes
            return elapsed / len(paths) * 1e3

        yield measure


@contextlib.contextmanager
def idle(bench: Bench) -> Iterator[Measure]:
    """CPU time of the daemon of `count` unused partitions, in % of a core."""
    log_directory = logs.partitions(bench.new("log"), bench.count)
    with mounted.offsetfs(log_directory, bench.folder / "ours") as mount:

        def measure(number: int) -> float:
            pause = _IDLE_SECONDS if bench.is_full else _IDLE_SECONDS_QUICK
            before = _cpu_seconds(mount.pid)
            time.sleep(pause)
            return (_cpu_seconds(mount.pid) - before) / pause * 100

        yield measure
    shutil.rmtree(log_directory)


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, threads that have ended included: Linux has a clock for each process."""
    return time.clock_gettime(~pid << 3 | 2)


ROWS = (
    Row(
        "follow",
        "From a write to `append` with `linger-ms=0` until `cat T-0/follow` has printed the record",
        unit="ms",
        of="followers",
        count=1,
        count_quick=1,
        ours=Contender("write to print, p99", followers(1)),
        limit=5.0,
    ),
    Row(
        "ndjson-in",
        "Lines of JSON with keys: `cat lines >> T-0/append.ndjson`; the limit is 0.8 million a second",
        unit="s",
        of="lines",
        count=1_000_000,
        count_quick=20_000,
        ours=Contender("`cat lines >> append.ndjson`", ndjson_in),
        limit=1.25,
    ),
    Row(
        "range",
        "A thousand records by offset, ready to be read: stat of `T-0/range/A..B`, batches of 16 KiB",
        unit="ms",
        of="records",
        count=5_000_000,
        count_quick=50_000,
        ours=Contender("stat", ranges),
        limit=2.0,
    ),
    Row(
        "idle",
        "CPU time of an unused mount of 1000 partitions, of a core",
        unit="%",
        of="partitions",
        count=1000,
        count_quick=20,
        ours=Contender("CPU", idle),
        limit=0.1,
    ),
)
