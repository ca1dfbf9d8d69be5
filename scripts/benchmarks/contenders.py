"""What is measured: ours and the peers, as context managers that prepare, check once, and yield a `Measure`.

Contents are checked before anything is timed, or right after: a fast wrong answer is no result.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import logs
import mounted
from bench import Bench
from kafka_broker import KafkaBroker
from logs import PARTITION
from measuring import WARM_UP, Contender, Measure, Opened
from null_fs import FILE_BYTES


def seconds(script: str, *words: object) -> float:
    """Return how long a shell script runs; `$1`, `$2`, … are `words`."""
    start = time.perf_counter()
    subprocess.run(["sh", "-c", script, "sh", *map(str, words)], check=True)
    return time.perf_counter() - start


# --- lines into a log ------------------------------------------------------------------------------------------------

_CAT_INTO = 'exec cat "$1" >> "$2"'


@contextlib.contextmanager
def append(bench: Bench) -> Iterator[Measure]:
    """`cat` into `append` of a new partition, mounted with default options; until cat has returned."""

    def measure(number: int) -> float:
        log_directory = bench.new("log")
        log_directory.mkdir()
        with mounted.offsetfs(log_directory, bench.folder / "ours", "create") as mount:
            partition = mount.path / str(PARTITION)
            partition.mkdir()
            figure = seconds(_CAT_INTO, bench.lines(), partition / "append")
            assert int((partition / "next").read_text()) == bench.count
        shutil.rmtree(log_directory)
        return figure

    yield measure


def sink(name: str) -> Callable[[Bench], contextlib.AbstractContextManager[Measure]]:
    """The same `cat` into a file of the null file system."""

    @contextlib.contextmanager
    def contender(bench: Bench) -> Iterator[Measure]:
        with mounted.null_fs(bench.folder / "null") as mount:
            yield lambda number: seconds(_CAT_INTO, bench.lines(), mount.path / name)

    return contender


@contextlib.contextmanager
def kcat_produce(bench: Bench) -> Iterator[Measure]:
    """`kcat -P` of the same file, into a partition of its own in each round; until all is acknowledged."""
    topic = bench.topic("ingest", lambda name: None, bench.rounds + 1)

    def measure(number: int) -> float:
        partition = number - WARM_UP
        figure = _produce(bench, topic, partition)
        end = bench.broker().kcat("-Q", "-t", f"{topic}:{partition}:-1").decode()
        assert end.split()[-1] == str(bench.count), end
        return figure

    yield measure


def _produce(bench: Bench, topic: str, partition: int) -> float:
    return seconds(f'exec {_kcat("-P", bench.broker(), topic, partition)} < "$1"', bench.lines())


def _kcat(mode: str, broker: KafkaBroker, topic: str, partition: int, options: str = "") -> str:
    return f"kcat {mode} -b {broker.address} -t {topic} -p {partition} {options}"


# --- a whole log, out ------------------------------------------------------------------------------------------------

_CAT_OUT = 'exec cat "$1" > /dev/null'


def values(batch_bytes: int, *, is_map_known: bool = True) -> Opened:
    """`cat values`, mounted anew in each round, so that the kernel has none of it; the log itself is in the page cache.

    With `is_map_known` the file was looked up before, which makes its view map; else that is part of the time.
    """

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        log_directory = bench.filled(batch_bytes)

        def measure(number: int) -> float:
            with mounted.offsetfs(log_directory, bench.folder / "ours") as mount:
                path = mount.path / str(PARTITION) / "values"
                if number == WARM_UP:
                    subprocess.run(["cmp", path, bench.lines()], check=True)
                elif is_map_known:
                    path.stat()
                return seconds(_CAT_OUT, path)

        yield measure

    return opened


@contextlib.contextmanager
def data(bench: Bench) -> Iterator[Measure]:
    """`cat` of as many bytes from the null file system, mounted anew in each round."""

    def measure(number: int) -> float:
        with mounted.null_fs(bench.folder / "null", bench.count * logs.LINE_BYTES) as mount:
            return seconds(_CAT_OUT, mount.path / "data")

    yield measure


# Without these kcat waits half a second at the end, and a whole one whenever its queue is full.
_UNWAITING = "-X fetch.wait.max.ms=10 -X queued.min.messages=10000000 -X queued.max.messages.kbytes=2097151"


@contextlib.contextmanager
def kcat_consume(bench: Bench) -> Iterator[Measure]:
    """`kcat -C -e` of the same records."""
    broker = bench.broker()
    topic = bench.topic("values", lambda name: _produce(bench, name, 0))
    consume = _kcat("-C", broker, topic, 0, f"-o beginning -e -q {_UNWAITING}")

    def measure(number: int) -> float:
        if number == WARM_UP:
            return seconds(f'{consume} | cmp - "$1"', bench.lines())
        return seconds(f"exec {consume} > /dev/null")

    yield measure


# --- one record ------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def record(bench: Bench) -> Iterator[Measure]:
    """open, read, close of random records, none of them twice; µs each."""
    log_directory = bench.filled(logs.PRODUCER_BATCH_BYTES)
    with mounted.offsetfs(log_directory, bench.folder / "ours") as mount:
        folder = mount.path / str(PARTITION)
        assert (folder / "7").read_bytes() + b"\n" == logs.line(7)
        yield _reading(bench, folder, _shuffled(bench.count), logs.LINE_BYTES - 1)


@contextlib.contextmanager
def numbered_file(bench: Bench) -> Iterator[Measure]:
    """The same of the null file system's numbered files."""
    with mounted.null_fs(bench.folder / "null") as mount:
        yield _reading(bench, mount.path / "files", _shuffled(bench.count), FILE_BYTES)


def sparse_record(segments: int) -> Opened:
    """The same of a partition of `segments` segments of 1 GiB, all with as many batches to choose from."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        log = bench.sparse(segments)
        with mounted.offsetfs(log.directory, bench.folder / f"ours-{segments}") as mount:
            yield _reading(bench, mount.path / str(PARTITION), log.offsets, logs.LINE_BYTES - 1)

    return opened


def _shuffled(count: int) -> list[int]:
    return random.Random(count).sample(range(count), count)


def _reading(bench: Bench, folder: Path, offsets: Sequence[int], size: int) -> Measure:
    """Return a measure that takes its share of `offsets` in each round, so that the kernel knows none of them."""
    reads = min(bench.reads, len(offsets) // (bench.rounds + 1))

    def measure(number: int) -> float:
        first = (number - WARM_UP) * reads
        return _read_us([f"{folder}/{offset}" for offset in offsets[first : first + reads]], size)

    return measure


def _read_us(paths: Sequence[str], size: int) -> float:
    """Return the µs for each of `paths`, opened, read and closed; all of them must hold `size` bytes."""
    read_bytes = 0
    start = time.perf_counter()
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        read_bytes += len(os.read(fd, 4096))
        os.close(fd)
    elapsed = time.perf_counter() - start
    assert read_bytes == size * len(paths)
    return elapsed / len(paths) * 1e6


# --- the mount itself ------------------------------------------------------------------------------------------------


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
            _read_us(reads, logs.LINE_BYTES - 1)
            return mount.resident_bytes() / (1 << 20)

    yield measure


APPEND = Contender("`cat lines >> append`", append)
SINK = Contender("null file system", sink("sink"))
SINK_1M = Contender("null file system, writes of 1 MiB as into ours", sink("sink-1m"))
KCAT_PRODUCE = Contender("`kcat -P` into Kafka", kcat_produce)
DATA = Contender("null file system", data)
KCAT_CONSUME = Contender("`kcat -C -e` from Kafka", kcat_consume)
RECORD = Contender("`<offset>`", record)
NUMBERED_FILE = Contender("null file system", numbered_file)
