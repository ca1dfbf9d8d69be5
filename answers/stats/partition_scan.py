"""Reads the headers of all batches of partitions, in threads.

Each partition is read as it was when its turn came. Damage is stepped over and reported with the partition.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from threading import Event

from offsetfs.answers.stats.header_facts import HeaderCollector, HeaderFacts
from offsetfs.storage import Log, LogDirectories, LogReader, TopicPartition
from offsetfs.storage.errors import StorageError, sentence
from offsetfs.storage.records import RUNS, Rows

THREADS_MAX = 16
DAMAGE_SHOWN_MAX = 100
"""The places of damage that are kept for one partition."""


@dataclass(slots=True)
class PartitionFacts:
    """What was found in one partition."""

    partition: TopicPartition
    start_offset: int = 0
    end_offset: int = 0
    log_bytes: int = 0
    """The size of all segments, which may begin below the start offset."""
    segments: int = 0
    headers: HeaderFacts = field(default_factory=HeaderFacts)
    damage: list[str] = field(default_factory=list)
    damaged_places: int = 0
    remote_note: str | None = None
    failure: str | None = None
    """Why nothing or not all was read: the partition cannot be opened, or was deleted."""

    def note_damage(self, error: Exception) -> None:
        self.damaged_places += 1
        if len(self.damage) < DAMAGE_SHOWN_MAX:
            self.damage.append(sentence(error))


OnBytes = Callable[[int, int], None]
"""Called with the bytes of the logs that were read, and of all."""


class Stopped(Exception):
    """The scan was given up."""


def scan_partitions(
    directory: LogDirectories,
    partitions: Sequence[TopicPartition],
    on_bytes: OnBytes = lambda done, total: None,
    threads: int | None = None,
) -> list[PartitionFacts]:
    """Read the partitions, and return what was found in each, in the given order.

    Damage and partitions that do not open are in the result. OSError only if no thread can be started.
    """
    stop = Event()
    count = threads or min(len(os.sched_getaffinity(0)), THREADS_MAX)
    found: dict[TopicPartition, PartitionFacts] = {}
    done = 0
    waiting = iter(partitions)
    with ThreadPoolExecutor(count, "stats") as pool:

        def submit(number: int) -> Iterator[Future[PartitionFacts]]:
            for partition in islice(waiting, number):
                yield pool.submit(scan_partition, directory, partition, stop)

        running = set(submit(count))
        try:
            while running:
                ended, running = wait(running, return_when=FIRST_COMPLETED)
                for future in ended:
                    facts = future.result()
                    found[facts.partition] = facts
                    done += facts.log_bytes
                    on_bytes(done, done)
                running |= set(submit(len(ended)))
        finally:
            stop.set()
    return [found[partition] for partition in partitions]


def scan_partition(directory: LogDirectories, partition: TopicPartition, stop: Event) -> PartitionFacts:
    """Read one partition. `Stopped` once `stop` is set."""
    facts = PartitionFacts(partition)
    try:
        with directory.directory_of(partition).borrowed(partition) as log:
            _read_headers(log, facts, stop)
    except (StorageError, OSError) as error:
        facts.failure = sentence(error)
    return facts


def _read_headers(log: Log, facts: PartitionFacts, stop: Event) -> None:
    segments = log.snapshot()
    facts.start_offset, facts.end_offset = log.log_start_offset, log.next_offset
    facts.log_bytes, facts.segments = sum(segment.size for segment in segments), len(segments)
    facts.remote_note = log.remote_note
    collector = HeaderCollector(facts.start_offset)
    reader = LogReader(
        log,
        start=facts.start_offset,
        stop=facts.end_offset,
        isolation="raw",
        on_damage=facts.note_damage,
        on_lost=facts.note_damage,
        runs=RUNS,
    )
    for rows in reader.headers():
        if stop.is_set():
            raise Stopped
        collector.add(_from_start(log, rows, facts).numbers)
    facts.headers = collector.finish()


def _from_start(log: Log, rows: Rows, facts: PartitionFacts) -> Rows:
    """Return the rows, the count of the first without the records below the start of the log."""
    start = facts.start_offset
    if rows.base_offset >= start or rows.first_count < 0:
        return rows
    reader = LogReader(log, start=start, stop=rows.first_end, isolation="raw", on_damage=facts.note_damage)
    return rows.beginning_at(start, sum(1 for _ in reader.records()))
