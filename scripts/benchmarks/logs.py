"""Log directories to measure, made without the mount: quickly, and closed cleanly.

`lines` and `filled` make real logs. `sealed_segments` and `partitions` make many small but whole ones. `sparse` makes a
partition of many segments of 1 GiB each in which only the batches that are going to be read exist: the rest of each
`.log` is a hole, while both indexes are as long as a full segment's and true for every batch, and each segment has its
snapshot of producers. A look-up thus touches what it would touch in a full log; a scan would meet the holes, and so is
none of the bench's business.
"""

from __future__ import annotations

import itertools
import os
import random
import struct
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from offsetfs.storage import checkpoint
from offsetfs.storage.checkpoint import CleanShutdown
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition, segment_name
from offsetfs.storage.partition.producers import ProducerState
from offsetfs.storage.records.format.batch import stamp
from offsetfs.storage.records.format.batch_builder import BatchBuilder, SealedBatch

LINE_BYTES = 100
PARTITION = TopicPartition("T", 0)
OWN_BATCH_BYTES = 1 << 20
"""A full batch as our own append makes it, by default."""
PRODUCER_BATCH_BYTES = 16 << 10
"""Kafka's default `batch.size`."""
SEGMENT_BYTES = 1 << 30
BARS = 60
"""The bars of a histogram of the page."""
TIMED_MAX = 100
"""Time indexes of their own take 768 KiB for each segment."""

TIME_MS = 1_763_700_000_000
_FILLING = bytes(random.Random(1).choices(b"abcdefghijklmnopqrstuvwxyz0123456789 ", k=LINE_BYTES))

_VOCABULARY = [bytes(random.Random(n).choices(b"etaoinshrdlu", k=3 + n % 7)) for n in range(1000)]


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


def prose(path: Path, count: int) -> Path:
    """Write `count` lines of as many bytes, of words that seldom come in the same order; LZ4 halves them."""
    numbers = random.Random(2)
    endings = [_words(numbers) for _ in range(1 << 16)]
    with path.open("wb") as file:
        for start in range(0, count, 100_000):
            chosen = numbers.choices(endings, k=min(100_000, count - start))
            file.write(b"".join([b"%011d " % (start + place) + ending for place, ending in enumerate(chosen)]))
    return path


def _words(numbers: random.Random) -> bytes:
    return (b" ".join(numbers.choices(_VOCABULARY, k=20)))[: LINE_BYTES - 13] + b"\n"


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
    """A log directory whose `offsets` are there, in no order; so are those at `times`, in ms. A batch has one time."""

    directory: Path
    offsets: array[int]
    times: array[int]
    next_offset: int


def sparse(directory: Path, segments: int, batches: int) -> SparseLog:
    """Make a partition of `segments` segments of 1 GiB in batches of 16 KiB, of which `batches` can be read, and those
    at the bounds of a histogram of `BARS` bars.

    More than `TIMED_MAX` segments are all of the same time, and share one time index.
    """
    folder = _begun(directory)
    each = full_batch()
    per_segment = SEGMENT_BYTES // each.size
    numbers = random.Random(segments)
    offsets, times = array("q"), array("q")
    blob, time_blob = folder / "index.blob", folder / "timeindex.blob"
    blob.write_bytes(_index(each, per_segment))
    snapshot_blob = folder / "snapshot.blob"
    snapshot_blob.write_bytes(ProducerState().dump())
    time_blob.write_bytes(_time_index(each, per_segment, TIME_MS))
    bounds = {(segments * per_segment + 1) * bar // BARS for bar in range(BARS)}
    for segment in range(segments):
        base_offset, base_time = segment * per_segment * each.count, _base_time(segment, segments, per_segment)
        path = folder / segment_name(base_offset, ".log")
        share = batches * (segment + 1) // segments - batches * segment // segments
        readable = numbers.sample(range(1, per_segment), share)
        at_bounds = [bound % per_segment for bound in bounds if bound // per_segment == segment]
        _write_sparse_log(path, base_offset, base_time, each, per_segment, [0, per_segment - 1, *readable, *at_bounds])
        for batch in readable:
            offsets.extend(range(base_offset + batch * each.count, base_offset + (batch + 1) * each.count))
        times.extend(base_time + batch for batch in readable)
        os.link(blob, path.with_suffix(".index"))
        os.link(snapshot_blob, folder / segment_name(base_offset + per_segment * each.count, ".snapshot"))
        if segments <= TIMED_MAX:
            path.with_suffix(".timeindex").write_bytes(_time_index(each, per_segment, base_time))
        else:
            os.link(time_blob, path.with_suffix(".timeindex"))
    blob.unlink()
    time_blob.unlink()
    snapshot_blob.unlink()
    next_offset = segments * per_segment * each.count
    last = bytearray(_batch(1, TIME_MS + segments * per_segment).data)
    stamp(last, next_offset, 0)
    _write_segment(folder, next_offset, last, b"", struct.pack(">qi", TIME_MS + segments * per_segment, 0))
    numbers.shuffle(offsets)
    numbers.shuffle(times)
    _closed(directory, {PARTITION: next_offset + 1})
    return SparseLog(directory, offsets, times, next_offset + 1)


def _base_time(segment: int, segments: int, per_segment: int) -> int:
    return TIME_MS + segment * per_segment if segments <= TIMED_MAX else TIME_MS


def _write_sparse_log(
    path: Path, base_offset: int, base_time: int, each: SealedBatch, per_segment: int, wanted: list[int]
) -> None:
    """Write the batches in `wanted` and their neighbors: the index leads to the one before, where a look-up walks on,
    and the one behind shows that the batch ends where it says."""
    with path.open("wb") as file:
        file.truncate(per_segment * each.size)
        for number in sorted(
            {place for batch in wanted for place in (batch - 1, batch, batch + 1)} & set(range(per_segment))
        ):
            batch = _batch(each.count, base_time + number)
            stamp(batch.data, base_offset + number * each.count, 0)
            file.seek(number * each.size)
            file.write(batch.data)


def _index(each: SealedBatch, per_segment: int) -> bytes:
    """Return the index that fits every segment: an entry for each batch but the first."""
    positions = range(each.size, per_segment * each.size, each.size)
    return _packed("ii", zip(_last_offsets(each, per_segment), positions, strict=True))


def _time_index(each: SealedBatch, per_segment: int, base_time: int) -> bytes:
    """Return the time index of a segment with the same entries, a millisecond between them."""
    times = range(base_time + 1, base_time + per_segment)
    return _packed("qi", zip(times, _last_offsets(each, per_segment), strict=True))


def _packed(entry: str, entries: Iterable[tuple[int, int]]) -> bytes:
    numbers = list(itertools.chain.from_iterable(entries))
    return struct.pack(">" + entry * (len(numbers) // 2), *numbers)


def _last_offsets(each: SealedBatch, per_segment: int) -> range:
    """Return the last offset of every batch but the first, relative to the segment."""
    return range(2 * each.count - 1, per_segment * each.count, each.count)
