"""Undamaged log directories for the row of bit rot, with all that there is to know of them.

A `Material` is a small directory held in memory: one partition to be damaged, a neighbor, and every kind of file that
a log directory can hold. Its truth was read from it before any damage: records by offset, where each batch lies, what
times are answered with, what is committed. Made of golden partitions of five Kafka releases, and of directories that
our engine wrote: with each codec, transactions, view maps, and what crashed compactions leave behind.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random

from fixtures.logs.planted_logs import data, marker

from offsetfs.storage import checkpoint
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.producers import ABORT, COMMIT
from offsetfs.storage.records.compression.compression import CODECS
from offsetfs.storage.records.format.batch import build
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.records.format.record import Record
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.units import Timestamp
from offsetfs.storage.views.partition_view import PartitionView

GOLDEN = Path(__file__).parents[1] / "golden"
BYTES_MAX = 170_000
"""What a golden partition may have, so that a state costs milliseconds."""

DIRECTORY_FILES = (
    checkpoint.RECOVERY_POINTS,
    checkpoint.LOG_STARTS,
    checkpoint.HIGH_WATERMARKS,
    checkpoint.CLEANER_OFFSETS,
    checkpoint.META_PROPERTIES,
    checkpoint.CLEAN_SHUTDOWN,
)


@dataclass(frozen=True, slots=True)
class Known:
    """A batch of the undamaged log: its records, and the bytes of the file that it is."""

    base_offset: int
    last_offset: int
    file: str
    position: int
    end: int
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Truth:
    """What a sound engine says of an undamaged partition."""

    batches: tuple[Known, ...]
    log_start_offset: int
    next_offset: int
    times: Mapping[int, tuple[int, int] | None]
    last_stable_offset: int
    committed: tuple[int, ...]
    values: bytes

    def records(self) -> dict[int, Record]:
        return {record.offset: record for batch in self.batches for record in batch.records}


@dataclass(frozen=True)
class Material:
    """A directory in memory: files by relative path. `is_crashed`: it was left in the middle of a swap."""

    name: str
    files: Mapping[str, bytes]
    partition: TopicPartition
    neighbor: TopicPartition
    truth: Truth
    neighbor_truth: Truth
    is_crashed: bool = False

    def write(self, path: Path, files: Mapping[str, bytes] | None = None) -> None:
        """Write the directory to the empty `path`, with `files` in the place of its own."""
        for folder in (self.partition, self.neighbor):
            (path / str(folder)).mkdir()
        for name, content in (self.files if files is None else files).items():
            (path / name).write_bytes(content)


@cache
def materials() -> tuple[Material, ...]:
    """Return all materials; made once a process."""
    return (*_golden(), *_ours())


# --- from golden directories -----------------------------------------------------------------------------------------


def _golden() -> Iterator[Material]:
    for release in ("kafka-4.1", "kafka-3.6.2", "kafka-0.10.2.2", "kafka-0.10.0.1", "kafka-0.8.2.2"):
        path = GOLDEN / release
        partitions = sorted(each for each in path.iterdir() if each.is_dir() and _has_records(each))
        neighbor = min(partitions, key=_size)
        shared = {name: (path / name).read_bytes() for name in DIRECTORY_FILES if (path / name).exists()}
        for each in partitions:
            if each is not neighbor and _size(each) <= BYTES_MAX:
                files = shared | _content(path, each) | _content(path, neighbor)
                yield _made(f"{release}/{each.name}", files, each.name, neighbor.name)


def _has_records(partition: Path) -> bool:
    return any(log.stat().st_size for log in partition.glob("*.log"))


def _size(partition: Path) -> int:
    return sum(file.stat().st_size for file in partition.iterdir())


def _content(path: Path, partition: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(partition.iterdir())}


def _made(name: str, files: Mapping[str, bytes], partition: str, neighbor: str) -> Material:
    """Return the material with the truth read from it."""
    empty = Truth((), 0, 0, {}, 0, (), b"")
    parsed = TopicPartition.parse(partition), TopicPartition.parse(neighbor)
    material = Material(name, files, *parsed, empty, empty)
    path = Path(tempfile.mkdtemp(prefix="offsetfs-truth-"))
    try:
        material.write(path)
        directory = LogDirectory.open(os.fspath(path), read_only=True)
        truths = [_truth(directory.log(each)) for each in parsed]
        directory.close()
    finally:
        shutil.rmtree(path)
    return replace(material, truth=truths[0], neighbor_truth=truths[1])


def _truth(log: Log) -> Truth:
    assert not log.damage
    batches = tuple(
        Known(
            batch.base_offset,
            batch.header.last_offset,
            f"{log.partition}/{os.path.basename(segment.log_path)}",
            batch.position or 0,
            (batch.position or 0) + batch.header.size,
            tuple(batch.records()),
        )
        for segment in log.snapshot()
        for batch in segment.batches()
    )
    timestamps = sorted({record.timestamp for batch in batches for record in batch.records})
    asked = [0, *timestamps[:: max(1, len(timestamps) // 6)], max(timestamps, default=0) + 1]
    return Truth(
        batches,
        log.log_start_offset,
        log.next_offset,
        {time: log.find_timestamp(time) for time in asked},
        log.last_stable_offset(),
        committed_of(log),
        values_of(log),
    )


def values_of(log: Log) -> bytes:
    """Return the whole `values` view."""
    values = PartitionView(log, FilePool(16), lambda error: None)
    assert values.refresh()
    pieces, byte = [], 0
    while (located := values.locate(byte)) is not None:
        pieces.append(bytes(values.read(located))[byte - located.start :])
        byte = located.end
    return b"".join(pieces)


def committed_of(log: Log) -> tuple[int, ...]:
    """Return the last offsets of the batches of data that a read_committed consumer sees."""
    batches = (header for segment in log.snapshot() for _, header in segment.headers(over_damage=True))
    shown = (header for header in batches if not header.is_control)
    return tuple(header.last_offset for header in shown if log.transactions.is_committed(header))


# --- from our engine -------------------------------------------------------------------------------------------------


def _ours() -> Iterator[Material]:
    path = Path(tempfile.mkdtemp(prefix="offsetfs-material-"))
    try:
        _write_ours(path)
        names = sorted(file for file in path.rglob("*") if file.is_file() and file.name != ".lock")
        files = {str(file.relative_to(path)): file.read_bytes() for file in names}
    finally:
        shutil.rmtree(path)
    whole = _made("ours", files, "orders-0", "orders-1")
    yield whole
    yield from _left_over(whole)


def _write_ours(path: Path) -> None:
    settings = {"segment.bytes": "4000", "index.interval.bytes": "300", "max.message.bytes": "4000"}
    directory = LogDirectory.open(os.fspath(path), defaults={"segment.ms": "100000000"})
    rng = Random(11)
    for partition in (TopicPartition("orders", 0), TopicPartition("orders", 1)):
        log = directory.create_partition(partition, settings)
        for number in range(120 if partition.partition == 0 else 12):
            log.append(_batch(rng, number))
        for producer, end in ((1, COMMIT), (2, ABORT), (3, ABORT)):
            log.append(data(producer, 0, 3))
            log.append(_batch(rng, 500))
            log.append(marker(producer, end))
            log.roll()
        log.flush()
        values_of(log)
    directory.close()
    checkpoint.write_offsets(os.fspath(path / checkpoint.LOG_STARTS), {TopicPartition("orders", 0): 5})
    checkpoint.write_offsets(os.fspath(path / checkpoint.CLEANER_OFFSETS), {TopicPartition("orders", 0): 40})
    (path / checkpoint.META_PROPERTIES).write_text("cluster.id=x\nnode.id=1\nversion=1\n")


def _batch(rng: Random, number: int) -> SealedBatch:
    records = [
        (
            rng.choice([None, b"", b"key-%d" % rng.randrange(20)]),
            rng.choice([None, b"", rng.randbytes(rng.randrange(60)), b"value %d " % number * rng.randrange(1, 9)]),
            tuple((f"header-{i}", rng.choice([None, b"x" * i])) for i in range(rng.randrange(3))),
            1_700_000_000_000 + number * 1000 - rng.randrange(5000),
        )
        for _ in range(rng.randrange(1, 5))
    ]
    built = build(records, codec=CODECS[number % len(CODECS)])
    values_bytes = sum(len(value or b"") + 1 for _, value, _, _ in records)
    return SealedBatch(
        memoryview(built), len(records), values_bytes, Timestamp(max(each[3] for each in records)), len(built)
    )


# --- what a crash within a swap leaves -------------------------------------------------------------------------------


def _left_over(whole: Material) -> Iterator[Material]:
    """Yield `whole` as it lies after each step of swapping a segment for one with the same records."""
    logs = sorted(name for name in whole.files if name.startswith("orders-0/") and name.endswith(".log"))
    stem = logs[2].removesuffix(".log")
    segment = {name: whole.files[name] for name in whole.files if name in (f"{stem}{suffix}" for suffix in _SWAPPED)}
    without = {name: content for name, content in whole.files.items() if name not in segment}

    def named(suffix: str) -> dict[str, bytes]:
        return {name + suffix: content for name, content in segment.items()}

    for name, files in (
        ("being cleaned", {**whole.files} | named(".cleaned")),
        ("before the swap", {**whole.files} | named(".swap")),
        ("within the swap", without | named(".swap") | named(".deleted")),
        ("behind the swap", without | named(".swap")),
        ("swapped", {**whole.files} | named(".deleted")),
    ):
        left = {path: content for path, content in files.items() if path != checkpoint.CLEAN_SHUTDOWN}
        yield replace(whole, name=f"ours, {name}", files=left, is_crashed=True)


_SWAPPED = (".log", ".index", ".timeindex", ".txnindex")
