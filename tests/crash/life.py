"""What a writer does between opening a log directory and its end, whichever comes: drawn from a seed, step by step.

It says what it has done, one line at a time, once it is done (see `history`); the listener is in another process.
"""

from __future__ import annotations

import contextlib
import os
import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from history import Partition, timestamp_of

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import LogFailed
from offsetfs.storage.maintenance.background_tasks import BackgroundTasks
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.compression.compression import Compression
from offsetfs.storage.records.format.batch_builder import BatchBuilder, SealedBatch
from offsetfs.storage.settings.directory_config import DirectoryConfig

Say = Callable[[str], None]
DEFAULTS = {
    "segment.bytes": "16000",
    "index.interval.bytes": "300",
    "segment.index.bytes": "600",
    "retention.ms": "-1",
    "retention.bytes": "80000",
    "file.delete.delay.ms": "0",
    "delete.retention.ms": "0",
    "min.cleanable.dirty.ratio": "0.1",
}
"""Segments of a dozen batches that roll by size and by a full index, so that a short life sees every change."""

DIRECTORY_CONFIG = DirectoryConfig.from_properties({"log.cleaner.dedupe.buffer.size": "384"})
"""A map of 14 keys, which are fewer than there are, so that a compaction takes several rounds."""

BATCH_BYTES_MAX = 9000
_CODECS = ("none", "none", "none", "lz4", "zstd")
_COUNTS = (1, 1, 2, 5, 12, 40)
NAMES = ("orders-0", "orders-1", "keyed-2", "orders-3")
"""The partitions, in the order in which they are made; those that are `keyed` are compacted."""


@dataclass
class Life:
    """One life. `number` distinguishes it from others of the same log; `steps`: how many steps it takes."""

    path: str
    seed: int
    number: int
    steps: int
    say: Say
    defaults: dict[str, str] = field(default_factory=dict)
    stops: bool = False
    """Whether an error ends it. One that goes on shows whether anything is acknowledged after an error."""
    neighbor: str = ""
    """A file beside the log directory, that fills the disk now and then, and frees it again."""

    def __post_init__(self) -> None:
        self.random = random.Random(f"{self.seed}/{self.number}")
        self._told: set[TopicPartition] = set()

    def run(self) -> None:
        """Open, do all steps, close in order. An error when it opens is its end."""
        choices = _CHOICES | _CHOICES_OF_NEIGHBOR if self.neighbor else _CHOICES
        if not self._try(Life.open):
            return
        for _ in range(self.steps):
            if self.directory.partitions() or self._try(Life.make):
                [step] = self.random.choices(list(choices), list(choices.values()))
                if not self._try(step) and step is Life.reopen:
                    return
        if self._try(Life.close):
            self.say("closed")

    def open(self) -> None:
        """Open the directory, which recovers it after a crash, and tell where each log ends."""
        self._told.clear()
        defaults = DEFAULTS | self.defaults
        self.directory = LogDirectory.open(self.path, defaults=defaults, config=DIRECTORY_CONFIG)
        for partition in self.directory.partitions():
            if not (self.neighbor and partition in self.directory.failed):  # those: when there is space to recover them
                self._log(partition)

    def _try(self, action: Callable[[Life], None]) -> bool:
        try:
            action(self)
        except (OSError, LogFailed) as error:
            where = "".join(traceback.format_tb(error.__traceback__)[-5:])
            self.say(f"failed {getattr(error, 'errno', None) or 0} {action.__name__}: {error}\n{where}")
            if self.stops:
                raise
            return False
        return True

    def _log(self, partition: TopicPartition) -> Log:
        log = self.directory.writable_log(partition)
        if partition not in self._told:
            self._told.add(partition)
            self.say(f"opened {log.partition} {log.next_offset} {self.number}")
        return log

    def _some_log(self) -> Log:
        return self._log(self.random.choice(self.directory.partitions()))

    # --- steps -------------------------------------------------------------------------------------------------------

    def make(self, name: str | None = None) -> None:
        """Make a partition, the first that there is not, unless there are all."""
        known = self.directory.partitions()
        missing = [each for each in map(TopicPartition.parse, NAMES if name is None else [name]) if each not in known]
        if missing:
            properties = {"cleanup.policy": "compact"} if missing[0].topic == "keyed" else {}
            self.directory.create_partition(missing[0], properties)
            self._log(missing[0])

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
        logs = [self._log(partition) for partition in self.directory.partitions()]
        ends = [log.next_offset for log in logs]
        self.directory.flush()
        for log, end in zip(logs, ends, strict=True):
            self.say(f"synced {log.partition} {end}")

    def roll(self) -> None:
        self._some_log().roll()

    def checkpoint(self) -> None:
        self.directory.checkpoint()

    def read(self) -> None:
        """Read a record somewhere, so that files of old segments are open, and their indexes."""
        log = self.directory.log(self.random.choice(self.directory.partitions()))
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

    def delete_records(self) -> None:
        """Let a log begin at a later offset."""
        log = self._some_log()
        if log.config.is_deleted:
            offset = self.random.randint(log.log_start_offset, log.next_offset)
            self.say(f"raising {log.partition} {offset}")
            self.say(f"start {log.partition} {log.delete_records(offset)}")

    def run_background_tasks(self) -> None:
        """Retention, compaction, removal of what waits for it: all that is due, or could be done."""
        logs = [self._log(partition) for partition in self.directory.partitions()]
        deleted = [log for log in logs if log.config.is_deleted]
        for log in deleted:
            self.say(f"raising {log.partition} {log.next_offset}")
        failures: list[Exception] = []
        tasks = BackgroundTasks(self.directory, lambda done: failures.append(done.error) if done.error else None)
        tasks.run_all(now=self.random.random() < 0.5)
        for log in deleted:
            self.say(f"start {log.partition} {log.log_start_offset}")
        if failures:
            raise failures[0]

    def drop(self) -> None:
        """Delete a partition."""
        partition = self._some_log().partition
        self.say(f"dropping {partition}")
        try:
            self.directory.delete_partition(partition)
        finally:
            if not self.directory.has(partition):  # it may be, also after an error
                self._told.discard(partition)
        self.say(f"dropped {partition}")

    # --- a neighbor on the same disk --------------------------------------------------------------------------------

    def fill(self) -> None:
        """Leave little or no space on the disk."""
        with open(self.neighbor, "ab") as file:
            disk = os.statvfs(self.neighbor)
            size = disk.f_bavail * disk.f_frsize - self.random.choice(_BYTES_LEFT)
            with contextlib.suppress(OSError):
                os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), size)

    def free(self) -> None:
        """Free the space again; then every log takes a batch."""
        if os.path.exists(self.neighbor):
            os.unlink(self.neighbor)
        for partition in self.directory.partitions():
            log = self._log(partition)
            appended = log.append(self.batch(log, 3, "none"))
            self.say(f"handed {log.partition} {appended.last_offset + 1}")


def fill(path: str, bytes_left: int) -> None:
    """Let the file `path` take all the space that its disk has, but for so many bytes."""
    with open(path, "ab") as file:
        disk = os.statvfs(path)
        size = disk.f_bavail * disk.f_frsize - bytes_left
        if size > 0:
            with contextlib.suppress(OSError):
                os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), size)


_BYTES_LEFT = (0, 0, 0, 1 << 12, 1 << 14, 1 << 16)
_CHOICES = {
    Life.append: 60,
    Life.flush: 10,
    Life.flush_all: 3,
    Life.roll: 4,
    Life.checkpoint: 4,
    Life.read: 8,
    Life.make: 3,
    Life.reopen: 2,
    Life.delete_records: 2,
    Life.run_background_tasks: 4,
    Life.drop: 1,
}
_CHOICES_OF_NEIGHBOR = {Life.fill: 12, Life.free: 4, Life.read: 30}
