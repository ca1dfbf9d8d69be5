"""Lives of the engine where there is little of something: run as a process of its own, under limits (row_resources).

    resource_lives.py LIFE DIRECTORY       prints what it did, as JSON

What the system refuses may be refused here: with a MemoryError of an interpreter that got no memory where a limit of
ours would have asked for it. Anything else is a finding.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from fixtures.machine.open_descriptors import deleted_but_open, open_files
from fixtures.simulation.fake_clock import FakeClock
from log_model import Fields, present, sealed

from offsetfs.storage.compaction.compaction import clean, find_dirty_range
from offsetfs.storage.directory.directory import DirectoryAccess, LogDirectory
from offsetfs.storage.errors import DecompressionLimit
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.format.record import Record

Figures = dict[str, object]
FEW = DirectoryAccess(open_segments_max=8)
"""Sealed segments that stay open, where there are few descriptors: three for each."""

SEGMENTS = 150
MEGABYTE = 1 << 20
BIG_BYTES = 24 << 20
COMPACTIONS = 150


def few_descriptors(path: str) -> Figures:
    """Append to more partitions than there are descriptors for, then read a log of many segments."""
    directory = LogDirectory.open(path, access=FEW)
    written: dict[str, int] = {}
    for number in range(40):
        partition = TopicPartition("few", number)
        written[str(partition)] = _append(directory.create_partition(partition), 3)
    directory.close()
    again = LogDirectory.open(path, access=FEW)
    log = again.create_partition(TopicPartition("long", 0), {"segment.bytes": "100", "index.interval.bytes": "0"})
    _append(log, SEGMENTS)
    assert len(log.snapshot()) > SEGMENTS // 2
    for _ in range(2):
        assert sum(len(_records(log, offset)) for offset in range(log.next_offset)) == log.next_offset
    used = len(os.listdir("/proc/self/fd"))
    again.close()
    return {"written": written, "descriptors": used}


def _records(log: Log, offset: int) -> Sequence[Record]:
    batch = log.batch_at(offset)
    assert batch is not None
    return batch.records()


def _append(log: Log, count: int) -> int:
    for number in range(count):
        log.append(sealed([(b"key", b"%d" % number, (), 1000 + number)], "none"))
    return count


def little_memory(path: str) -> Figures:
    """Batches of many megabytes, a bomb, a recovery and a compaction: memory stays within a few batches."""
    settings = {"max.message.bytes": str(2 * BIG_BYTES), "segment.bytes": str(3 * BIG_BYTES)}
    directory = LogDirectory.open(path, access=FEW)
    log = directory.create_partition(TopicPartition("big", 0), settings | {"cleanup.policy": "compact"})
    for number in range(6):
        rows: list[Fields] = [(b"key-%d" % (number % 2), os.urandom(MEGABYTE) * (BIG_BYTES >> 20), (), 1000 + number)]
        log.append(sealed(rows, "none" if number % 2 else "lz4"))
    for offset in range(log.next_offset):
        assert len(_records(log, offset)[0].value or b"") == BIG_BYTES
    bomb = directory.create_partition(TopicPartition("bomb", 0))
    _append_bomb(bomb)
    log.roll()
    clean(log, find_dirty_range(log, None, 10**12), now_ms=10**12, map_bytes=MEGABYTE)
    directory._lock.release()
    again = LogDirectory.open(path, access=FEW)
    again.close()
    return {"peak": _peak_bytes()}


def _peak_bytes() -> int:
    """Return the largest resident memory of this process; getrusage(2) counts that of the one that started it, too."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM:"))


def _append_bomb(log: Log) -> None:
    """A batch of some kilobytes that inflates to more than the limit."""
    data = sealed([(None, bytes(80 << 20), (), 1000)], "zstd")
    log.append(data)
    try:
        _records(log, 0)
    except DecompressionLimit:
        return
    raise AssertionError("a bomb was inflated")


def many_partitions(path: str) -> Figures:
    """Open ten thousand partitions after a crash, append to some, checkpoint, close; and open them once more."""
    directory = LogDirectory.open(path)
    partitions = directory.partitions()
    for partition in partitions[::200]:
        _append(directory.log(partition), 2)
    directory.checkpoint()
    reported: Figures = {"descriptors": len(os.listdir("/proc/self/fd")), "partitions": len(partitions)}
    directory.close()
    again = LogDirectory.open(path, read_only=True)
    ends = [again.log(partition).next_offset for partition in partitions]
    assert [end for end in ends if end] == [2] * len(partitions[::200])
    return reported | {"peak": _peak_bytes()}


def long_compaction(path: str) -> Figures:
    """Compact one partition each second of a clock while every removed segment waits for a minute."""
    clock = FakeClock()
    directory = LogDirectory.open(path, access=FEW, clock=clock)
    log = directory.create_partition(TopicPartition("users", 0), {"cleanup.policy": "compact"})
    descriptors, waiting, done = set[int](), set[int](), None
    for round_number in range(COMPACTIONS):
        for number in range(10):
            log.append(sealed([(b"key-%d" % number, b"%d" % round_number, (), 1000)], "none"))
        log.roll()
        assert len(present(log)) >= 10  # a reader opens every segment
        done = clean(
            log, find_dirty_range(log, done, clock.now_ms()), now_ms=clock.now_ms(), map_bytes=MEGABYTE
        ).end_offset
        clock.advance(1_000)
        directory.deletions.run_due()
        descriptors.add(len(open_files()))
        waiting.add(sum(name.endswith(".deleted") for name in os.listdir(log.path)))
        assert deleted_but_open(Path(path)) == [], f"round {round_number}"
    latest = {record.key: record.value for record in present(log).values()}
    assert latest == {b"key-%d" % number: b"%d" % (COMPACTIONS - 1) for number in range(10)}
    directory.close()
    return {"descriptors": max(descriptors), "waiting": max(waiting), "threads": threading.active_count()}


LIVES: dict[str, Callable[[str], Figures]] = {
    life.__name__: life for life in (few_descriptors, little_memory, many_partitions, long_compaction)
}

if __name__ == "__main__":
    print(json.dumps(LIVES[sys.argv[1]](sys.argv[2])))
