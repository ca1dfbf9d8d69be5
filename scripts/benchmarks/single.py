"""One record: by its offset, by its time, appended alone; and whether that stays what it is while the log grows."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import brokers
import logs
import mounted
from bench import Bench
from brokers import Planted
from commands import kcat, lines_topic, seconds
from fixtures.kafka.broker import KafkaBroker
from logs import PARTITION, SparseLog
from measuring import WARM_UP, Contender, Measure, Opened, Peer, Row, times_as_fast, times_as_long
from null_fs import FILE_BYTES

from offsetfs.storage.names import TopicPartition

# --- read by system calls --------------------------------------------------------------------------------------------


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
        with _sparse(bench, segments) as (log, folder):
            yield _reading(bench, folder, log.offsets, logs.LINE_BYTES - 1)

    return opened


@contextlib.contextmanager
def _sparse(bench: Bench, segments: int) -> Iterator[tuple[SparseLog, Path]]:
    log = bench.sparse(segments)
    with mounted.offsetfs(log.directory, bench.new("ours")) as mount:
        yield log, mount.path / str(PARTITION)


def _shuffled(count: int) -> list[int]:
    return random.Random(count).sample(range(count), count)


def _reading(bench: Bench, folder: Path, offsets: Sequence[int], size: int) -> Measure:
    def read(number: int) -> float:
        return read_us([f"{folder}/{offset}" for offset in _share(bench, offsets, bench.reads, number)], size)

    return read


def _share(bench: Bench, among: Sequence[int], count_max: int, number: int) -> Sequence[int]:
    """Return what a round takes of `among`: nothing that an earlier one had, so that the kernel knows none of them."""
    count = min(count_max, len(among) // (bench.rounds + 1))
    first = (number - WARM_UP) * count
    return among[first : first + count]


def read_us(paths: Sequence[str], size: int) -> float:
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


# --- read by commands ------------------------------------------------------------------------------------------------

_COMMANDS_SHARE = 100
"""A command is started for every hundredth of the records that are read by system calls."""


@contextlib.contextmanager
def cat_record(bench: Bench) -> Iterator[Measure]:
    """`cat` of random records, one each, none of them twice; ms each."""
    log_directory = bench.filled(logs.PRODUCER_BATCH_BYTES)
    with mounted.offsetfs(log_directory, bench.folder / "ours") as mount:
        folder = mount.path / str(PARTITION)
        yield _each(bench, _shuffled(bench.count), lambda offset: f"cat {folder}/{offset}")


@contextlib.contextmanager
def cat_numbered_file(bench: Bench) -> Iterator[Measure]:
    """The same of the null file system's numbered files."""
    with mounted.null_fs(bench.folder / "null") as mount:
        yield _each(bench, _shuffled(bench.count), lambda number: f"cat {mount.path}/files/{number}", FILE_BYTES)


@contextlib.contextmanager
def kcat_record(bench: Bench) -> Iterator[Measure]:
    """`kcat -C -o N -c 1` of the same records."""
    topic, broker = lines_topic(bench), bench.broker()
    yield _each(bench, _shuffled(bench.count), lambda offset: _kcat_one(broker, topic, str(offset)))


@contextlib.contextmanager
def cat_time(bench: Bench) -> Iterator[Measure]:
    """`cat by-time/<T>` of random times in a log of `count` segments of 1 GiB, none of them twice; ms each."""
    with _sparse(bench, bench.count) as (log, folder):
        yield _each(bench, log.times, lambda ms: f"cat {folder}/by-time/@{ms // 1000}.{ms % 1000:03}")


@contextlib.contextmanager
def kcat_time(bench: Bench) -> Iterator[Measure]:
    """`kcat -C -o s@T -c 1` of the same times in the same log, which a broker was given; a batch in each answer."""
    log, partition, broker = bench.sparse(bench.count), TopicPartition("by-time", 0), bench.broker()
    brokers.plant(broker, {partition: Planted(log.directory / str(PARTITION), log.next_offset, is_shared=True)})
    only = "-X fetch.message.max.bytes=1000"  # one batch: behind it there is a hole
    yield _each(bench, log.times, lambda ms: _kcat_one(broker, partition.topic, f"s@{ms}", only))


def _kcat_one(broker: KafkaBroker, topic: str, place: str, options: str = "") -> str:
    return kcat("-C", broker, topic, 0, f"-o {place} -c 1 -e -q -X fetch.wait.max.ms=10 {options}")


def _each(
    bench: Bench, among: Sequence[int], command: Callable[[int], str], size: int = logs.LINE_BYTES - 1
) -> Measure:
    """Return a measure of a shell that runs a command for each of its share of `among`; all must print a line."""

    def measure(number: int) -> float:
        share = _share(bench, among, bench.reads // _COMMANDS_SHARE, number)
        printed = bench.new("printed")
        elapsed = seconds("{ " + "; ".join(command(each) for each in share) + '; } > "$1"', printed)
        values = printed.read_bytes().replace(b"\n", b"")
        assert len(values) == len(share) * size, values[:1000]
        return elapsed / len(share) * 1e3

    return measure


# --- while the log grows ---------------------------------------------------------------------------------------------


def sparse_find(segments: int) -> Opened:
    """readlink of `by-time/<T>` for random times, none of them twice; µs each."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        with _sparse(bench, segments) as (log, folder):

            def measure(number: int) -> float:
                times = _share(bench, log.times, bench.reads // 10, number)
                paths = [f"{folder}/by-time/@{ms // 1000}.{ms % 1000:03}" for ms in times]
                start = time.perf_counter()
                for path in paths:
                    os.readlink(path)
                return (time.perf_counter() - start) / len(paths) * 1e6

            yield measure

    return opened


def sparse_append(segments: int) -> Opened:
    """open, write of a line, close of `append`; µs each. When close has returned, the record is in the segment."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        with _sparse(bench, segments) as (_, folder):

            def measure(number: int) -> float:
                count = bench.reads // 10
                before = int((folder / "next").read_text())
                start = time.perf_counter()
                for _ in range(count):
                    fd = os.open(folder / "append", os.O_WRONLY)
                    os.write(fd, logs.line(0))
                    os.close(fd)
                elapsed = time.perf_counter() - start
                assert int((folder / "next").read_text()) == before + count
                return elapsed / count * 1e6

            yield measure

    return opened


def _growth(name: str, what: str, opened: Callable[[int], Opened]) -> Row:
    sizes = {count: Contender(f"{count} × 1 GiB", opened(count)) for count in (1, 10, 100)}
    return Row(
        name,
        what,
        unit="µs",
        of="segments",
        count=100,
        count_quick=100,
        ours=sizes[100],
        peers=(Peer(sizes[1], times_as_long(1.15)), Peer(sizes[10], times_as_long(1.15))),
    )


ROWS = (
    Row(
        "record",
        "Open, read and close a record at random, batches of 16 KiB: `T-0/<offset>`",
        unit="µs",
        of="records",
        count=5_000_000,
        count_quick=50_000,
        ours=Contender("`<offset>`", record),
        peers=(Peer(Contender("null file system", numbered_file), times_as_long(1.2)),),
    ),
    Row(
        "one-record",
        "A command that prints a record at random, its start included: `cat T-0/<offset>`",
        unit="ms",
        of="records",
        count=5_000_000,
        count_quick=50_000,
        ours=Contender("`cat <offset>`", cat_record),
        peers=(
            Peer(Contender("`kcat -C -o <offset> -c 1`", kcat_record), times_as_fast(10)),
            Peer(Contender("`cat` of the null file system", cat_numbered_file), times_as_long(1), is_goal=False),
        ),
    ),
    Row(
        "find-time",
        "A command that prints the first record at or after a time, in 10 GiB: `cat T-0/by-time/<T>`",
        unit="ms",
        of="segments",
        count=10,
        count_quick=2,
        ours=Contender("`cat by-time/<T>`", cat_time),
        peers=(Peer(Contender("`kcat -C -o s@<T> -c 1`", kcat_time), times_as_fast(10)),),
    ),
    _growth("growth", "Open, read and close a record at random, in 100 GiB and in smaller logs", sparse_record),
    _growth("growth-find", "The record at or after a time, in the same logs: `readlink by-time/<T>`", sparse_find),
    _growth("growth-append", "Open `append`, write a line, close: in the same logs", sparse_append),
    Row(
        "growth-1000",
        "A record at random in a log of 1000 GiB, with 2048 open segments",
        unit="µs",
        of="segments",
        count=1000,
        count_quick=1000,
        ours=Contender("1000 × 1 GiB", sparse_record(1000)),
        peers=(Peer(Contender("1 × 1 GiB", sparse_record(1)), times_as_long(1), is_goal=False),),
    ),
)
