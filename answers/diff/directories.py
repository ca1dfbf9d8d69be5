"""Compares the partitions of two sources, several at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from offsetfs.answers.diff.contents import ContentComparison
from offsetfs.answers.diff.keys import KeyComparison
from offsetfs.answers.diff.logs import LogComparison, LogDiff
from offsetfs.answers.diff.streams import OrderlessDiff
from offsetfs.storage import METADATA_TOPIC, RAW, Log, LogDirectories, LogReader, TopicPartition
from offsetfs.storage.errors import UNREADABLE, StorageError, sentence
from offsetfs.storage.thread_start import StartedThread, ThreadNotStarted, start

THREADS_MAX = 4
RECORD_TEXT_MAX = 400
"""The characters of a record in a report."""


BY_OFFSET, BY_KEY, BY_CONTENT = ("offset", "key", "content")


@dataclass(frozen=True, slots=True)
class DiffOptions:
    """What is compared, and how. `other_topic`: the name in B of the only topic, None for that in A."""

    by: str = BY_OFFSET
    """`BY_OFFSET`, `BY_KEY` or `BY_CONTENT`."""
    is_quick: bool = False
    times: bool = True
    """By content: whether the timestamps must be equal."""
    other_topic: str | None = None


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """A record at the offset where two logs part. `text` is None where the log has none at this offset."""

    text: str | None
    timestamp: int | None = None
    leader_epoch: int | None = None


@dataclass(slots=True)
class PartitionDiff:
    """The result for one partition: a comparison, or the reason why there is none."""

    partition: TopicPartition
    other: TopicPartition
    """Its name in B."""
    is_in_a: bool
    is_in_b: bool
    found: LogDiff | None = None
    orderless: OrderlessDiff | None = None
    """The result by key or by content, instead of `found`."""
    error: str | None = None
    at_a: ShownRecord | None = None
    """The record of A at the first difference."""
    at_b: ShownRecord | None = None


class ComparisonStopped(Exception):
    """The user ended the comparison."""


class DirectoriesComparison:
    """Compares the chosen partitions of `a` and `b`; `run` once."""

    def __init__(
        self,
        a: LogDirectories,
        b: LogDirectories,
        partitions: Sequence[TopicPartition],
        options: DiffOptions,
        on_bytes: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        """`on_bytes` is called with the bytes of both sources that were compared, and all of them."""
        self._a = a
        self._b = b
        self._options = options
        self._on_bytes = on_bytes
        self._partitions = partitions
        self._done = self._total = 0
        self._is_stopped = False
        self._lock = threading.Lock()

    @property
    def bytes_done(self) -> int:
        return self._done

    def run(self) -> list[PartitionDiff]:
        """Return a result for each partition, in their order. A log that cannot be read has its error there."""
        pairs = [self._pair(partition) for partition in self._partitions]
        waiting = deque(sorted((pair for pair in pairs if pair.is_in_a and pair.is_in_b), key=self._size, reverse=True))
        self._total = sum(map(self._size, waiting))

        def work() -> None:
            while waiting and not self._is_stopped:
                try:
                    pair = waiting.popleft()
                except IndexError:  # another thread took the last one
                    return
                self._compare(pair)

        threads = _started(work, min(THREADS_MAX, len(waiting)) - 1)
        try:
            work()
        except BaseException:
            self._is_stopped = True
            raise
        finally:
            for thread in threads:
                thread.join()
        return pairs

    def _pair(self, partition: TopicPartition) -> PartitionDiff:
        other = TopicPartition(self._options.other_topic or partition.topic, partition.partition)
        return PartitionDiff(partition, other, self._a.has(partition), self._b.has(other))

    def _size(self, pair: PartitionDiff) -> int:
        sizes = ((self._a, pair.partition), (self._b, pair.other))
        try:
            return sum(directory.directory_of(partition).size_of(partition) for directory, partition in sizes)
        except (StorageError, OSError):
            return 0

    def _compare(self, pair: PartitionDiff) -> None:
        try:
            a, b = self._a.log(pair.partition), self._b.log(pair.other)
            if self._options.by == BY_OFFSET:
                pair.found = LogComparison(a, b, is_quick=self._options.is_quick, on_bytes=self._note).run()
                first_a = first_b = pair.found.parted_at
            else:
                pair.orderless = self._orderless(a, b)
                first_a, first_b = pair.orderless.first_a, pair.orderless.first_b
            pair.at_a = None if first_a is None else shown_record(a, first_a)
            pair.at_b = None if first_b is None else shown_record(b, first_b)
        except ComparisonStopped:
            return
        except (StorageError, OSError) as error:
            pair.error = sentence(error)

    def _orderless(self, a: Log, b: Log) -> OrderlessDiff:
        if self._options.by == BY_KEY:
            return KeyComparison(a, b, self._note).run()
        return ContentComparison(a, b, self._note, times=self._options.times).run()

    def _note(self, count: int) -> None:
        if self._is_stopped:
            raise ComparisonStopped
        with self._lock:
            self._done += count
            done = self._done
        if threading.current_thread() is threading.main_thread():
            self._on_bytes(done, max(done, self._total))


def _started(work: Callable[[], None], count: int) -> list[StartedThread]:
    threads: list[StartedThread] = []
    for _ in range(count):
        try:
            threads.append(start(work))
        except ThreadNotStarted:  # the caller's thread works, too
            break
    return threads


def compared_partitions(a: LogDirectories, b: LogDirectories) -> list[TopicPartition]:
    """Return the partitions of both sources, sorted, each once, without the controller's metadata log."""
    both = {*a.partitions(), *b.partitions()}
    return sorted(partition for partition in both if partition.topic != METADATA_TOPIC)


def shown_record(log: Log, offset: int) -> ShownRecord:
    """Return the record at an offset as text; without one, its absence. OSError."""
    skipped: list[StorageError] = []
    reader = LogReader(
        log, start=offset, stop=offset + 1, isolation=RAW, on_damage=skipped.append, on_lost=skipped.append
    )
    try:
        for batch, _, _ in reader.slices():
            record = batch.record(offset)
            if record is None:
                break
            if batch.header.is_control:
                text = f"control record of producer {batch.header.producer_id}: key {(record.key or b'').hex()}"
            else:
                text = b"".join(LogReader(log, start=offset, stop=offset + 1).ndjson()).decode().rstrip("\n")
            return ShownRecord(_shortened(text), record.timestamp, batch.header.leader_epoch)
    except UNREADABLE as error:
        skipped.append(error)
    return ShownRecord(f"unreadable: {sentence(skipped[0])}" if skipped else None)


def _shortened(text: str) -> str:
    return text if len(text) <= RECORD_TEXT_MAX else f"{text[:RECORD_TEXT_MAX]}… ({len(text):,} characters)"
