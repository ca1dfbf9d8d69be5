"""Log directories to measure, made without the mount: quickly, and closed cleanly.

`lines` and `filled` make real logs. `sealed_segments` and `partitions` make many small but whole ones. `sparse` makes a
partition of many segments of 1 GiB each in which only the batches that are going to be read exist: the rest of each
`.log` is a hole, while both indexes are as long as a full segment's and true for every batch. A look-up thus touches
what it would touch in a full log; a scan would meet the holes, and so is none of the bench's business.
"""

from __future__ import annotations

import os
import random
import struct
from array import array
from dataclasses import dataclass
from pathlib import Path

from offsetfs.storage import checkpoint
from offsetfs.storage.checkpoint import CleanShutdown
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition, segment_name
from offsetfs.storage.records.batch import stamp
from offsetfs.storage.records.batch_builder import BatchBuilder, SealedBatch

LINE_BYTES = 100
PARTITION = TopicPartition("T", 0)
OWN_BATCH_BYTES = 1 << 20
"""A full batch as our own append makes it, by default."""
PRODUCER_BATCH_BYTES = 16 << 10
"""Kafka's default `batch.size`."""
SEGMENT_BYTES = 1 << 30

TIME_MS = 1_763_700_000_000
_FILLING = bytes(random.Random(1).choices(b"abcdefghijklmnopqrstuvwxyz0123456789 ", k=LINE_BYTES))


def line(number: int) -> bytes:
    """Return line `number` of `lines`, newline included."""
    return (b"%011d " % number + _FILLING)[: LINE_BYTES - 1] + b"\n"


def lines(path: Path, count: int) -> Path:
    """Write `count` different lines of `LINE_BYTES` bytes."""
    rest = line(0)[12:]
    with path.open("wb") as file:
        for start in range(0, count, 100_000):
            file.write(b"".join([b"%011d " % number + rest for number in range(start, min(start + 100_000, count))]))
    return path


def filled(directory: Path, source: Path, batch_bytes: int) -> Path:
    """Make a log directory whose partition holds the lines of `source`, in batches of `batch_bytes`."""
    directory.mkdir()
    builder, log_directory = BatchBuilder(batch_bytes), LogDirectory.open(str(directory))
    log = log_directory.create_partition(PARTITION)
    with source.open("rb") as file:
        while block := file.read(LINE_BYTES * 100_000):
            start = 0
            while start < len(block):
                start = builder.split(block, start, len(block), TIME_MS)
                log.append(builder.seal())
                builder.reset()
    log_directory.close()
    return directory


# --- many small ones -------------------------------------------------------------------------------------------------


def sealed_segments(directory: Path, count: int) -> Path:
    """Make a partition of `count` sealed segments, one batch of one record each, and an active one like them."""
    folder = _begun(directory)
    batch = bytearray(_batch(1, TIME_MS).data)
    for base_offset in range(count + 1):
        stamp(batch, base_offset, 0)
        _write_segment(folder, base_offset, batch, b"", struct.pack(">qi", TIME_MS, 0))
    return _closed(directory, {PARTITION: count + 1})


def partitions(directory: Path, count: int) -> Path:
    """Make `count` partitions of one small segment each."""
    template = sealed_segments(directory, 0) / str(PARTITION)
    content = [(file.name, file.read_bytes()) for file in template.iterdir()]
    made = {TopicPartition(PARTITION.topic, number): 1 for number in range(count)}
    for partition in made:
        folder = directory / str(partition)
        folder.mkdir(exist_ok=True)
        for name, data in content:
            (folder / name).write_bytes(data)
    return _closed(directory, made)


def _begun(directory: Path) -> Path:
    folder = directory / str(PARTITION)
    folder.mkdir(parents=True)
    checkpoint.write_epochs(str(folder / checkpoint.LEADER_EPOCHS), [(0, 0)])
    checkpoint.write_topic_id(str(folder / checkpoint.PARTITION_METADATA), bytes(range(16)))
    return folder


def _closed(directory: Path, next_offsets: dict[TopicPartition, int]) -> Path:
    checkpoint.write_offsets(str(directory / checkpoint.RECOVERY_POINTS), next_offsets)
    checkpoint.write_offsets(str(directory / checkpoint.HIGH_WATERMARKS), next_offsets)
    CleanShutdown().write(str(directory))
    return directory


def _write_segment(folder: Path, base_offset: int, log: bytes | bytearray, index: bytes, time_index: bytes) -> None:
    for suffix, data in ((".log", log), (".index", index), (".timeindex", time_index)):
        (folder / segment_name(base_offset, suffix)).write_bytes(data)


def full_batch() -> SealedBatch:
    """Return a batch of as many lines as 16 KiB hold."""
    return _batch(PRODUCER_BATCH_BYTES, TIME_MS)


def _batch(count: int, timestamp: int, batch_bytes: int = PRODUCER_BATCH_BYTES) -> SealedBatch:
    """Return a batch of `count` lines, or of as many as fit when there are more."""
    builder = BatchBuilder(batch_bytes)
    text = b"".join(map(line, range(min(count, batch_bytes // LINE_BYTES + 1))))
    builder.split(text, 0, len(text), timestamp)
    return builder.seal()


# --- one that looks like a terabyte ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SparseLog:
    """A log directory whose `offsets` are there, in no order; `bytes_total` counts the holes."""

    directory: Path
    offsets: array[int]
    bytes_total: int


def sparse(directory: Path, segments: int, batches: int) -> SparseLog:
    """Make a partition of `segments` segments of 1 GiB in batches of 16 KiB, of which `batches` can be read."""
    folder = _begun(directory)
    each = full_batch()
    per_segment = SEGMENT_BYTES // each.size
    random_numbers = random.Random(segments)
    offsets: array[int] = array("q")
    blobs = _index_blobs(folder, each, per_segment)
    for number in range(segments):
        base_offset = number * per_segment * each.count
        path = folder / segment_name(base_offset, ".log")
        share = batches * (number + 1) // segments - batches * number // segments
        wanted = [0, per_segment - 1, *random_numbers.sample(range(1, per_segment), share)]
        _write_sparse_log(path, base_offset, each, per_segment, wanted)
        for batch in wanted[2:]:
            offsets.extend(range(base_offset + batch * each.count, base_offset + (batch + 1) * each.count))
        for suffix, blob in zip((".index", ".timeindex"), blobs, strict=True):
            os.link(blob, path.with_suffix(suffix))
    for blob in blobs:
        blob.unlink()
    next_offset = segments * per_segment * each.count
    stamp(each.data, next_offset, 0)
    _write_segment(folder, next_offset, bytes(each.data), b"", struct.pack(">qi", each.max_timestamp, each.count - 1))
    random_numbers.shuffle(offsets)
    _closed(directory, {PARTITION: next_offset + each.count})
    return SparseLog(directory, offsets, segments * per_segment * each.size)


def _write_sparse_log(path: Path, base_offset: int, each: SealedBatch, per_segment: int, wanted: list[int]) -> None:
    """Write the batches in `wanted` and those before them: the index leads there, and a look-up walks on."""
    with path.open("wb") as file:
        file.truncate(per_segment * each.size)
        for number in sorted({place for batch in wanted for place in (max(batch - 1, 0), batch)}):
            batch = _batch(each.count, TIME_MS + number)
            stamp(batch.data, base_offset + number * each.count, 0)
            file.seek(number * each.size)
            file.write(batch.data)


def _index_blobs(folder: Path, each: SealedBatch, per_segment: int) -> tuple[Path, Path]:
    """Write the indexes that fit every segment: an entry for each batch but the first, a millisecond between them."""
    last = [(number + 1) * each.count - 1 for number in range(per_segment)]
    index = b"".join(struct.pack(">ii", last[number], number * each.size) for number in range(1, per_segment))
    times = b"".join(struct.pack(">qi", TIME_MS + number, last[number]) for number in range(1, per_segment))
    blobs = folder / "index.blob", folder / "timeindex.blob"
    for blob, data in zip(blobs, (index, times), strict=True):
        blob.write_bytes(data)
    return blobs
