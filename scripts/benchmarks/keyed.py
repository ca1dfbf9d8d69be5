"""Logs with keys for compaction, and big ones for recovery, made by our own writer in batches of 16 KiB."""

from __future__ import annotations

import random
from pathlib import Path

from logs import PARTITION, PRODUCER_BATCH_BYTES, TIME_MS, full_batch

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.compression.compression import Compression
from offsetfs.storage.records.format.batch_builder import BatchBuilder

RECORDS_PER_KEY = 5
RECORD_BYTES = 100
"""What a record takes in a batch that is not compressed, within a byte."""

_STATES = ("active", "locked", "closed", "dormant", "pending")
_LINE = '{"key":"%08d","value":"balance=%09d;seen=%011d;state=%s;branch=%05d;note=%s"}\n'


def keyed(directory: Path, count: int, codec: str) -> int:
    """Make a log of `count` records over a fifth as many keys, in no order, all sealed; return how many keys there are.

    Some keys by chance never occur. The values are what tables hold, and shrink to about half.
    """
    numbers, keys = random.Random(count), set[int]()
    directory.mkdir()
    log_directory = LogDirectory.open(str(directory))
    log = log_directory.create_partition(PARTITION)
    builder = BatchBuilder(PRODUCER_BATCH_BYTES, Compression(codec))
    for start in range(0, count, 50_000):
        chosen = numbers.choices(range(count // RECORDS_PER_KEY), k=min(50_000, count - start))
        keys.update(chosen)
        _append_json(log, builder, "".join([_line(numbers, key, start + n) for n, key in enumerate(chosen)]).encode())
    log.roll()
    log_directory.close()
    return len(keys)


def _line(numbers: random.Random, key: int, number: int) -> str:
    chance = numbers.getrandbits(64)
    state, note = _STATES[chance % len(_STATES)], f"{chance:016x}"
    return _LINE % (key, chance % 999_999_937, number, state, chance % 9973, note)


def _append_json(log: Log, builder: BatchBuilder, text: bytes) -> None:
    start = 0
    while start < len(text):
        split = builder.split_json(text, start, len(text), TIME_MS)
        assert split.fault is None, split.fault
        start = split.start
        log.append(builder.seal())
        builder.reset()


def fill(directory: Path, partition: TopicPartition, size_bytes: int) -> int:
    """Append batches of 16 KiB, all alike, to an empty partition until it has that size; return its records."""
    log_directory = LogDirectory.open(str(directory))
    log, batch = log_directory.log(partition), full_batch()
    for _ in range(-(-size_bytes // batch.size)):
        log.append(batch)
    log_directory.close()
    return log.next_offset


def records_left(directory: Path, partition: TopicPartition) -> int:
    """Return how many records a partition holds, in a directory of which a broker may be the owner."""
    log_directory = LogDirectory.open(str(directory), read_only=True)
    try:
        log = log_directory.log(partition)
        return sum(header.count for segment in log.snapshot() for _, header in segment.headers())
    finally:
        log_directory.close()
