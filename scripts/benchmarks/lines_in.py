"""Lines into a log: `cat lines >> append`, against a file system that forgets them, and `kcat -P`."""

from __future__ import annotations

import contextlib
import functools
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import mounted
from bench import Bench
from commands import OFFSETFS, kcat_produce, seconds
from logs import PARTITION
from measuring import WARM_UP, Contender, Measure, Opened, Peer, Row, times_as_fast

_CAT_INTO = 'exec cat "$1" >> "$2"'

Lines = Callable[[Bench], Path]
"""Which lines: Bench.lines, which differ in their number alone, or Bench.prose."""


def append(lines: Lines, codec: str = "producer") -> Opened:
    """`cat` into `append` of a new partition, mounted with default options; until cat has returned."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        def measure(number: int) -> float:
            log_directory = new_log(bench, f"compression.type={codec}")
            with mounted.offsetfs(log_directory, bench.folder / "ours") as mount:
                partition = mount.path / str(PARTITION)
                figure = seconds(_CAT_INTO, lines(bench), partition / "append")
                assert int((partition / "next").read_text()) == bench.count
                if number == WARM_UP:
                    subprocess.run(["cmp", partition / "values", lines(bench)], check=True)
            shutil.rmtree(log_directory)
            return figure

        yield measure

    return opened


def append_keyed(partitions: int) -> Opened:
    """`cat` of lines of JSON with keys into `append.ndjson` of a new topic, mounted with default options."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        def measure(number: int) -> float:
            log_directory = new_log(bench, "retention.ms=-1", partitions)
            with mounted.offsetfs(log_directory, bench.folder / "ours") as mount:
                topic = mount.path / "topics" / PARTITION.topic
                figure = seconds(_CAT_INTO, keyed_lines(bench), topic / "append.ndjson")
                ends = mount.path.glob(f"{PARTITION.topic}-*/next")
                assert sum(int(end.read_text()) for end in ends) == bench.count
            shutil.rmtree(log_directory)
            return figure

        yield measure

    return opened


def keyed_lines(bench: Bench) -> Path:
    """A file of lines of JSON, each with a key of its own and a value of 80 bytes."""

    def make() -> Path:
        path = bench.new("keyed-lines.ndjson")
        with path.open("w") as file:
            file.writelines(
                f'{{"key":"{n * 2_654_435_761 % 2**32:010d}","value":"{n:080d}"}}\n' for n in range(bench.count)
            )
        return path

    return bench.once(("keyed-lines-file", bench.count), make)


def new_log(bench: Bench, setting: str, partitions: int = 1) -> Path:
    """Make a log directory with an empty topic."""
    log_directory = bench.new("log")
    log_directory.mkdir()
    words = ["create", str(log_directory), PARTITION.topic, "-o", setting, "--partitions", str(partitions)]
    subprocess.run([*OFFSETFS, *words], check=True, stdout=subprocess.DEVNULL)
    return log_directory


def sink(name: str) -> Opened:
    """The same `cat` into a file of the null file system."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        with mounted.null_fs(bench.folder / "null") as mount:
            yield lambda number: seconds(_CAT_INTO, bench.lines(), mount.path / name)

    return opened


def produce(lines: Lines, codec: str = "none") -> Opened:
    """`kcat -P` of the same file, into a partition of its own in each round; until all is acknowledged."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        topic = bench.topic(f"ingest-{codec}")

        def measure(number: int) -> float:
            partition = number - WARM_UP
            figure = kcat_produce(bench, topic, partition, lines(bench), codec)
            end = bench.broker().kcat("-Q", "-t", f"{topic}:{partition}:-1").decode()
            assert end.split()[-1] == str(bench.count), end
            return figure

        yield measure

    return opened


def _compressed(codec: str, what: str) -> Row:
    return _row(
        f"ingest-{codec}",
        what,
        ours=Contender("`cat lines >> append`", append(Bench.prose, codec)),
        peers=(Peer(Contender(f"`kcat -P -z {codec}`", produce(Bench.prose, codec)), times_as_fast(3)),),
    )


def _by_key(partitions: int, what: str) -> Row:
    return _row(
        f"keyed-{partitions}",
        what,
        ours=Contender(f"`cat lines >> append.ndjson`, {partitions:,} partitions", append_keyed(partitions)),
        peers=(
            Peer(
                Contender("the same, 32 partitions", append_keyed(32)), times_as_fast(0.5 if partitions <= 100 else 0.2)
            ),
        ),
        count=1_000_000,
    )


_row = functools.partial(Row, unit="s", of="lines", count=5_000_000, count_quick=50_000)

ROWS = (
    _row(
        "ingest",
        "Lines of 100 bytes into records: `cat lines >> T-0/append`, until cat has returned",
        ours=Contender("`cat lines >> append`", append(Bench.lines)),
        peers=(
            Peer(Contender("`kcat -P`", produce(Bench.lines)), times_as_fast(8)),
            Peer(Contender("null file system", sink("sink")), times_as_fast(0.5)),
            Peer(
                Contender("null file system, writes of 1 MiB as into ours", sink("sink-1m")),
                times_as_fast(0.5),
                is_goal=False,
            ),
        ),
    ),
    _compressed("lz4", "Lines of words, `compression.type=lz4`: `cat lines >> T-0/append`"),
    _compressed("zstd", "The same, `compression.type=zstd`"),
    _by_key(100, "Lines of JSON with keys into a topic of 100 partitions: `cat lines >> topics/T/append.ndjson`"),
    _by_key(1000, "The same, 1,000 partitions"),
)
