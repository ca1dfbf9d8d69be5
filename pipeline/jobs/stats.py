"""`stats`: the size of each partition, and its distribution over keys and time.

Bytes, times and codecs come from batch headers. Keys are counted by the sketch of `offsetfs stats`: the number of
different keys is an estimate (HyperLogLog, with a standard error of 0.8 %), and the number of records of the most
frequent key is an upper bound. Checksums are verified; unreadable batches are counted and left out.
"""

from __future__ import annotations

import base64
import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offsetfs.pipeline.jobs.workers import Answer, check_visible, spread
from offsetfs.pipeline.log_directories import opened
from offsetfs.pipeline.read_options import DROPMALFORMED, ReadOptions
from offsetfs.pipeline.scan import log_left_out, reader_of
from offsetfs.pipeline.scan_range import Range, ends_of, resolve
from offsetfs.pipeline.splits import cut
from offsetfs.storage.errors import StorageError
from offsetfs.storage.records import COLUMNS, OFFSET_DELTA, RecordSketch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class PartitionStats:
    """One partition. Times are milliseconds since 1970, None where no record has one."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    records: int
    batches: int
    bytes: int
    """The size of the batches in the segments."""
    earliest_ms: int | None
    latest_ms: int | None
    keyed: int
    distinct_keys: int
    hottest_key_records: int
    """The largest number of records with the same key."""
    codecs: dict[str, int]
    """Batches by codec."""
    unreadable: int


@dataclass(frozen=True, slots=True)
class StatsResult:
    """All partitions, sorted."""

    partitions: tuple[PartitionStats, ...]

    @property
    def records(self) -> int:
        return sum(partition.records for partition in self.partitions)


def stats(spark: SparkSession, source: str, topics: Sequence[str] = ()) -> StatsResult:
    """Count a log directory, or some of its topics. Raises `OptionError`, `NotALogDirectory`, `JobFailed`."""
    options = _options(source, topics)
    with opened(options.paths, options.access) as directory:
        ranges = resolve(directory, options)
        tasks = cut(directory, ranges, splits_min=1, bytes_per_split=options.bytes_per_split)
    for path in options.paths:
        check_visible(spark, path)
    parts = [part for answer in spread(spark, functools.partial(_count, options), tasks) for part in answer["parts"]]
    return StatsResult(tuple(_together(whole, parts) for whole in sorted(ranges)))


def _options(source: str, topics: Sequence[str]) -> ReadOptions:
    wanted = {"subscribe": ",".join(topics)} if topics else {}
    return ReadOptions.parse({"path": source, "mode": DROPMALFORMED, **wanted})


# --- in a task -------------------------------------------------------------------------------------------------------


def _count(options: ReadOptions, ranges: tuple[Range, ...]) -> Answer:
    with opened(options.paths, options.access, ends=ends_of(ranges)) as directory:
        return {"parts": [_count_range(directory, part, options) for part in ranges]}


def _count_range(directory: Any, wanted: Range, options: ReadOptions) -> Answer:
    faults: list[StorageError] = []
    sketch = RecordSketch()
    codecs: Counter[str] = Counter()
    batches = size = 0
    earliest, latest = None, None

    def leave_out(error: StorageError) -> None:
        faults.append(error)
        log_left_out(wanted.name, error)

    for batch, first, stop in reader_of(directory, wanted, options, leave_out).slices():
        header = batch.header
        try:
            kept = _rows_between(batch.rows(), header.base_offset, first, stop)
            least, greatest = sketch.add_rows(batch.payload(), kept, header.base_offset)
        except StorageError as error:
            leave_out(batch.placed(error))
            continue
        if header.last_offset < wanted.end:  # a batch that a cut runs through belongs to the task of its end
            batches, size = batches + 1, size + header.size
            codecs[header.codec_name] += 1
        if kept and header.max_timestamp >= 0:
            first = min(batch.timestamp_of(delta) for delta in (least, greatest))
            earliest = first if earliest is None else min(earliest, first)
            latest = header.max_timestamp if latest is None else max(latest, header.max_timestamp)
    return {
        "name": str(wanted.name),
        "batches": batches,
        "bytes": size,
        "earliest": earliest,
        "latest": latest,
        "codecs": codecs,
        "unreadable": len(faults),
        "records": sketch.records,
        "sketch": base64.b64encode(sketch.state).decode() if sketch.records else "",
    }


def _rows_between(rows: Any, base_offset: int, first: int, stop: int) -> Any:
    deltas = np.frombuffer(rows, np.int64).reshape(-1, COLUMNS)
    offsets = deltas[:, OFFSET_DELTA] + base_offset
    inside = (offsets >= first) & (offsets < stop)
    if inside.all():
        return rows
    kept = type(rows)("q")
    kept.frombytes(deltas[inside].tobytes())
    return kept


# --- in the driver ---------------------------------------------------------------------------------------------------


def _together(wanted: Range, parts: list[Answer]) -> PartitionStats:
    mine = [part for part in parts if part["name"] == str(wanted.name)]
    codecs: Counter[str] = Counter()
    sketch = RecordSketch()
    for part in mine:
        codecs.update(part["codecs"])
        if part["sketch"]:
            sketch.merge(base64.b64decode(part["sketch"]))
    heaviest = sketch.heavy_keys(1)
    return PartitionStats(
        wanted.topic,
        wanted.partition,
        wanted.start,
        wanted.end,
        records=sketch.records,
        batches=sum(part["batches"] for part in mine),
        bytes=sum(part["bytes"] for part in mine),
        earliest_ms=min((part["earliest"] for part in mine if part["earliest"] is not None), default=None),
        latest_ms=max((part["latest"] for part in mine if part["latest"] is not None), default=None),
        keyed=sketch.keyed,
        distinct_keys=sketch.distinct_keys,
        hottest_key_records=heaviest[0].records + sketch.heavy_error if heaviest else 0,
        codecs=dict(codecs),
        unreadable=sum(part["unreadable"] for part in mine),
    )
