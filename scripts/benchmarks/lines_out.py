"""A whole log out of it: `cat values`, `cat records.ndjson`, against `kcat -C` and what a mount costs by itself."""

from __future__ import annotations

import contextlib
import functools
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import logs
import mounted
from bench import Bench
from commands import kcat_consume_all, lines_topic, seconds
from logs import PARTITION
from measuring import WARM_UP, Contender, Measure, Opened, Peer, Row, times_as_fast

_CAT_OUT = 'exec cat "$@" > /dev/null'


def view(name: str, batch_bytes: int, *, is_map_known: bool = True) -> Opened:
    """`cat` of a file of the partition, mounted again in each round, so that the kernel has none of it.

    The log itself is in the page cache. With `is_map_known` the file was looked up before, which builds its line index;
    else that is part of the time.
    """

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        log_directory = bench.filled(batch_bytes)

        def measure(number: int) -> float:
            with mounted.offsetfs(log_directory, bench.folder / "ours") as mount:
                path = mount.path / str(PARTITION) / name
                if number == WARM_UP:
                    _check(bench, path)
                elif is_map_known:
                    path.stat()
                return seconds(_CAT_OUT, path)

        yield measure

    return opened


def _check(bench: Bench, path: Path) -> None:
    """`values` are the lines, to the byte; of records.ndjson the last line is looked at, and how many there are."""
    if path.name == "values":
        subprocess.run(["cmp", path, bench.lines()], check=True)
    elif path.name == "records.ndjson":
        last = json.loads(subprocess.run(["tail", "-n", "1", path], check=True, stdout=subprocess.PIPE).stdout)
        assert (last["offset"], last["value"] + "\n") == (bench.count - 1, logs.line(bench.count - 1).decode()), last
        counted = subprocess.run(["wc", "-l", path], check=True, stdout=subprocess.PIPE).stdout
        assert int(counted.split()[0]) == bench.count, counted


@contextlib.contextmanager
def segments(bench: Bench) -> Iterator[Measure]:
    """`cat` of the segment files through the mount, mounted again in each round."""
    log_directory = bench.filled(logs.OWN_BATCH_BYTES)

    def measure(number: int) -> float:
        with mounted.offsetfs(log_directory, bench.folder / "ours") as mount:
            return seconds(_CAT_OUT, *sorted((mount.path / str(PARTITION) / "segments").glob("*.log")))

    yield measure


@contextlib.contextmanager
def data(bench: Bench) -> Iterator[Measure]:
    """`cat` of as many bytes from the null file system, mounted again in each round."""

    def measure(number: int) -> float:
        with mounted.null_fs(bench.folder / "null", bench.count * logs.LINE_BYTES) as mount:
            return seconds(_CAT_OUT, mount.path / "data")

    yield measure


def consume(options: str = "") -> Opened:
    """`kcat -C -e` of the same records."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        command = kcat_consume_all(bench, lines_topic(bench), options)

        def measure(number: int) -> float:
            if number == WARM_UP and not options:
                return seconds(f'{command} | cmp - "$1"', bench.lines())
            return seconds(f"exec {command} > /dev/null")

        yield measure

    return opened


_row = functools.partial(Row, unit="s", of="records", count=5_000_000, count_quick=50_000)
_KCAT = Contender("`kcat -C -e`", consume())
_NULL = Contender("null file system", data)

ROWS = (
    _row(
        "values",
        "A whole partition, batches of 1 MiB as an append makes them: `cat T-0/values`",
        ours=Contender("`cat values`", view("values", logs.OWN_BATCH_BYTES)),
        peers=(
            Peer(_KCAT, times_as_fast(6)),
            Peer(Contender("`cat segments/….log`", segments), times_as_fast(0.5)),
            Peer(_NULL, times_as_fast(1), is_goal=False),
        ),
    ),
    _row(
        "values-16k",
        "The same in batches of 16 KiB, as producers make them",
        ours=Contender("`cat values`", view("values", logs.PRODUCER_BATCH_BYTES)),
        peers=(Peer(_KCAT, times_as_fast(4)), Peer(_NULL, times_as_fast(1), is_goal=False)),
    ),
    _row(
        "values-first",
        "The first `cat T-0/values` of a segment without a line index (1 MiB batches)",
        ours=Contender("`cat values`", view("values", logs.OWN_BATCH_BYTES, is_map_known=False)),
        peers=(Peer(_KCAT, times_as_fast(4), is_goal=False),),
    ),
    _row(
        "json",
        "Every record as JSON, with key, headers and times: `cat T-0/records.ndjson`",
        ours=Contender("`cat records.ndjson`", view("records.ndjson", logs.PRODUCER_BATCH_BYTES)),
        peers=(Peer(Contender("`kcat -C -e -J`", consume("-J")), times_as_fast(3)),),
    ),
)
