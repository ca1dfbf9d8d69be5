"""What a writer does between opening a log directory and its end, whichever comes: drawn from a seed, step by step.

It says what it has done, one line at a time, once it is done (see `history`); who listens is in another process.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from history import Partition, timestamp_of

from offsetfs.storage.batch_builder import BatchBuilder, SealedBatch
from offsetfs.storage.compression import Compression
from offsetfs.storage.directory import LogDirectory
from offsetfs.storage.errors import LogFenced
from offsetfs.storage.log import Log
from offsetfs.storage.names import TopicPartition

Say = Callable[[str], None]
DEFAULTS = {
    "segment.bytes": "16000",
    "index.interval.bytes": "300",
    "segment.index.bytes": "600",
    "retention.ms": "-1",
    "file.delete.delay.ms": "0",
}
"""Segments of a dozen batches that roll by size and by a full index, so that a short life sees every change."""

BATCH_BYTES_MAX = 9000
_CODECS = ("none", "none", "none", "lz4", "zstd")
_COUNTS = (1, 1, 2, 5, 12, 40)
NAMES = ("orders-0", "orders-1", "keyed-2", "orders-3")
"""The partitions, in the order in which they are made; those that are `keyed` are compacted."""


@dataclass
class Life:
    """One life. `number` tells it from others of the same log; `steps`: how many things it does before it closes."""

    path: str
    seed: int
    number: int
    steps: int
    say: Say
    defaults: dict[str, str] = field(default_factory=dict)
    stops: bool = False
    """Whether an error ends it. One that goes on shows whether anything is acknowledged after an error."""

    def __post_init__(self) -> None:
        self.random = random.Random(f"{self.seed}/{self.number}")

    def run(self) -> None:
        """Open, do all steps, close in order."""
        self.open()
        if not self.directory.partitions():
            self._try(Life.make)
        for _ in range(self.steps):
            if self.directory.partitions() or self._try(Life.make):
                self._try(self.random.choices(*_CHOICES)[0])
        if self._try(Life.close):
            self.say("closed")

    def open(self) -> None:
        """Open the directory, which recovers it after a crash, and tell where each log ends."""
        self.directory = LogDirectory.open(self.path, defaults=DEFAULTS | self.defaults)
        for partition in self.directory.partitions():
            self._opened(self.directory.log(partition))

    def _try(self, action: Callable[[Life], None]) -> bool:
        try:
            action(self)
        except (OSError, LogFenced) as error:
            self.say(f"failed {getattr(error, 'errno', None) or 0} {action.__name__}: {error}")
            if self.stops:
                raise
            return False
        return True

    def _opened(self, log: Log) -> None:
        self.say(f"opened {log.partition} {log.next_offset} {self.number}")

    def _some_log(self) -> Log:
        return self.directory.log(self.random.choice(self.directory.partitions()))

    # --- steps -------------------------------------------------------------------------------------------------------

    def make(self) -> None:
        """Make another partition, unless there are enough."""
        known = self.directory.partitions()
        name = next((name for name in map(TopicPartition.parse, NAMES) if name not in known), None)
        if name is not None:
            properties = {"cleanup.policy": "compact"} if name.topic == "keyed" else {}
            self._opened(self.directory.create_partition(name, properties))

    def append(self) -> None:
        """Append a batch of a random size and codec."""
        log = self._some_log()
        sealed = self.batch(log, self.random.choice(_COUNTS), self.random.choice(_CODECS))
        appended = log.append(sealed)
        self.say(f"handed {log.partition} {appended.last_offset + 1}")

    def batch(self, log: Log, count: int, codec: str) -> SealedBatch:
        """Return a sealed batch of at most `count` of the records that belong at the end of `log`."""
        builder = BatchBuilder(BATCH_BYTES_MAX, Compression(codec))
        history = Partition(self.seed, str(log.partition))
        for offset in range(log.next_offset, log.next_offset + count):
            key, value = history.record(offset, self.number)
            if not builder.append(key, value, (), timestamp_of(offset)):
                break
        return builder.seal()

    def flush(self) -> None:
        """Put one log on disk."""
        log = self._some_log()
        end = log.next_offset
        log.flush()
        self.say(f"synced {log.partition} {end}")

    def flush_all(self) -> None:
        """Put every log on disk."""
        logs = [self.directory.log(partition) for partition in self.directory.partitions()]
        ends = [log.next_offset for log in logs]
        self.directory.flush()
        for log, end in zip(logs, ends, strict=True):
            self.say(f"synced {log.partition} {end}")

    def roll(self) -> None:
        self._some_log().roll()

    def checkpoint(self) -> None:
        self.directory.checkpoint()

    def read(self) -> None:
        """Read a record somewhere, so that files of old segments are open, and indexes mapped."""
        log = self._some_log()
        if log.next_offset > log.log_start_offset:
            offset = self.random.randrange(log.log_start_offset, log.next_offset)
            batch = log.batch_at(offset)
            assert batch is not None and log.find_timestamp(timestamp_of(offset)) is not None

    def reopen(self) -> None:
        """Close in order and open again."""
        self._try(Life.close)
        self.open()

    def close(self) -> None:
        self.directory.close()


_CHOICES = (
    [Life.append, Life.flush, Life.flush_all, Life.roll, Life.checkpoint, Life.read, Life.make, Life.reopen],
    [60, 10, 3, 4, 4, 8, 3, 2],
)
