"""The background tasks of an open log directory, and when each of them is due.

    chores    recovery                 every 5 s, while a partition could not be recovered
              retention                every log.retention.check.interval.ms (5 min)
              checkpoints              every log.flush.offset.checkpoint.interval.ms (60 s)
              producer expiration      every producer.id.expiration.check.interval.ms (10 min)
              file removal             when file.delete.delay.ms has passed
    syncs     sync of sealed segments  after each roll
    cleaner   roll, compaction and retention of compacted topics, every log.cleaner.backoff.ms (15 s); one queue for
              each thread of log.cleaner.threads

All tasks except compaction and removal start log.initial.task.delay.ms (30 s) after the directory was opened. Each
queue holds callables with a due time and is run by one thread, so that a long compaction delays no other task. A task
that fails is reported and runs again at its next time; other tasks and other partitions are not affected. A pass opens
only the logs that a stat does not rule out, a few at a time, and closes them again.

Follows Kafka's LogManager (startup, cleanupLogs) and LogCleaner. Kafka rolls by time only when records are appended.
This does the same, except for topics with `max.compaction.lag.ms`: their last records would never be compacted.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from offsetfs.storage.clock import Clock
from offsetfs.storage.compaction.compaction import CompactionResult, DirtyRange
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.directory.flusher import LogChange
from offsetfs.storage.errors import StorageError, UnknownPartition, counted, sentence
from offsetfs.storage.maintenance.cleaner import LogCleaner, PartitionClaims
from offsetfs.storage.maintenance.partition_stat import PartitionStat
from offsetfs.storage.maintenance.retention_pass import RetentionPass
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.retention import RemovedSegments
from offsetfs.storage.settings.config import LogConfig
from offsetfs.storage.units import I64_MAX

NEVER = math.inf

OnFailure = Callable[[str, Exception], None]
"""Called with the name of the failed task, and its error."""


@dataclass(slots=True)
class _Task:
    name: str
    run: Callable[[], object]
    wanted: Callable[[], float | None]
    rest_s: float
    not_before: float = -math.inf

    @property
    def due(self) -> float:
        """The next due time in seconds of the monotonic clock."""
        wanted = self.wanted()
        return NEVER if wanted is None else max(wanted, self.not_before)


class TaskQueue:
    """Periodic tasks that one thread runs, in the order in which they were added, on a clock that tests can control.

    One thread calls `run_due`; any thread may call `next_due`. A task that fails is reported and runs again at its next
    time, without affecting other tasks. Follows Kafka's KafkaScheduler, but counts an interval from the end of one run
    to the start of the next, so that no runs pile up while the machine sleeps.
    """

    def __init__(
        self, name: str, clock: Clock, on_failure: OnFailure, *, before: Callable[[], object] = lambda: None
    ) -> None:
        """`before` is called before each run."""
        self.name = name
        self._before = before
        self._clock = clock
        self._on_failure = on_failure
        self._tasks: list[_Task] = []

    def every(self, name: str, run: Callable[[], object], seconds: float, *, first_s: float) -> None:
        """Run a task `first_s` seconds from now, and then again `seconds` after each end."""
        first = self._clock.monotonic() + min(first_s, seconds)
        self._tasks.append(_Task(name, run, lambda: first, seconds))

    def when(self, name: str, run: Callable[[], object], wanted: Callable[[], float | None], *, rest_s: float) -> None:
        """Run a task at the time that `wanted` returns (None: not now), but at least `rest_s` after its last end."""
        self._tasks.append(_Task(name, run, wanted, rest_s))

    def next_due(self) -> float:
        """Return the due time of the next task, in seconds of the monotonic clock; `NEVER` if there is none."""
        return min((task.due for task in self._tasks), default=NEVER)

    def run_due(self) -> list[str]:
        """Run the tasks that are due, and return their names."""
        self._before()
        ran = []
        for task in self._tasks:
            if task.due <= self._clock.monotonic():
                ran.append(task.name)
                self._run(task)
        return ran

    def _run(self, task: _Task) -> None:
        try:
            task.run()
        except Exception as error:  # whatever the error, the other tasks run, and this one again at its next time
            self._on_failure(task.name, error)
        task.not_before = self._clock.monotonic() + task.rest_s


REMOVAL_REST_S = 1.0


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of a task for a partition, or its error. `partition` is None if the task concerns no single one.

    Sizes are bytes of `.log` files.
    """

    task: str
    partition: TopicPartition | None = None
    segments_removed: int = 0
    bytes_freed: int = 0
    records_before: int | None = None
    records_after: int | None = None
    because: tuple[str, ...] = ()
    error: Exception | None = None

    def __str__(self) -> str:
        """Return one line: `users-0: removed 3 segments, freed 47 bytes, kept 2 of 10 records (compaction: ratio)`."""
        subject = f"{self.partition}: " if self.partition is not None else ""
        if self.task == "recovery" and self.error is None:
            return f"{subject}recovered, takes writes again"
        if self.error is not None:
            return f"{subject}{self.task} failed: {sentence(self.error)}"
        if self.records_before is not None and self.records_before == self.records_after and not self.bytes_freed:
            merged = (
                f"merged small segments, {self.segments_removed} fewer" if self.segments_removed else "nothing freed"
            )
            return f"{subject}{merged}: compaction found no duplicate keys"
        said = [f"removed {counted(self.segments_removed, 'segment')}"] if self.segments_removed else []
        said.append(f"freed {counted(self.bytes_freed, 'byte')}")
        if self.records_before is not None:
            said.append(f"kept {self.records_after} of {counted(self.records_before, 'record')}")
        what = ": ".join(filter(None, (self.task, ", ".join(self.because))))
        return f"{subject}{', '.join(said)} ({what})"


OnDone = Callable[[TaskResult], None]
OnProgress = Callable[[TopicPartition | None, int, int], None]
"""Called during compaction with the partition, the bytes done and their total; during retention with None, the
partitions checked and their total.
"""


class BackgroundTasks:
    """The background tasks of one directory that is open for writing.

    Run all of them, or each of `queues` in a thread.
    """

    def __init__(self, directory: LogDirectory, on_done: OnDone = lambda done: None) -> None:
        """`on_done` is called from the thread that ran the task."""
        self._directory = directory
        self._on_done = on_done
        self._cancelled = threading.Event()
        self._claims = PartitionClaims()
        self._retention = self._retention_pass()
        self._rolled: set[TopicPartition] = set()
        """Partitions with sealed segments that may not be on disk yet."""
        directory.subscribe_changes(self._changed)
        config = directory.config
        threads = config.log_cleaner_threads if config.log_cleaner_enable else 0
        self.queues = [
            # A queue of its own for each cleaner: compaction of a large log takes minutes, and checkpoints must not
            # wait for it.
            self._chores(),
            # So does the sync of a segment of gigabytes.
            self._syncs(),
            *(self._cleaner_queue(number) for number in range(threads)),
        ]

    def next_due(self) -> float:
        return min((queue.next_due() for queue in self.queues), default=NEVER)

    def run_due(self) -> list[str]:
        """Run what is due in all queues, one after another."""
        return [name for queue in self.queues for name in queue.run_due()]

    def cancel(self) -> None:
        """Cancel the running tasks and start no others.

        A compaction stops within a megabyte, other tasks within a batch.
        """
        self._cancelled.set()

    def run_all(
        self,
        partitions: Collection[TopicPartition] | None = None,
        *,
        now: bool = False,
        on_progress: OnProgress = lambda partition, done, total: None,
    ) -> None:
        """Run retention, roll and compaction of these partitions (None: of all) once, whether or not they are due.

        With `now`, compacted topics are rolled and cleaned whatever their dirty ratio, and pending removals are done at
        once. `min.compaction.lag.ms` is still respected, because consumers rely on it.
        """
        chosen = self._directory.partitions() if partitions is None else partitions
        cleaner = self.cleaner()
        compacted = [entry for entry in cleaner.compacted() if entry[0] in chosen]
        self.roll(compacted, now=now)
        for partition, _ in compacted:
            # A round ends when its map is full; the next one continues there.
            while cleaner.clean(partition, force=now, on_progress=partial(on_progress, partition)):
                pass

        def wanted() -> Iterator[tuple[TopicPartition, LogConfig]]:
            for number, partition in enumerate(chosen):
                on_progress(None, number, len(chosen))
                yield partition, self._directory.config_of(partition.topic)

        self._try("retention", lambda: self._retention.run(wanted()))
        removals = self._directory.deletions
        self._try("removal", removals.run_all if now else removals.run_due)

    # --- schedule -----------------------------------------------------------------------------------------------------

    def _queue(self, name: str, *, refreshes: bool = True) -> TaskQueue:
        before = self._directory.refresh_config if refreshes else lambda: None
        return TaskQueue(name, self._directory.clock, self._failed, before=before)

    def _chores(self) -> TaskQueue:
        config, queue = self._directory.config, self._queue("chores")
        first_s = config.log_initial_task_delay_ms / 1000
        deletions = self._directory.deletions

        def every(name: str, run: Callable[[], object], interval_ms: int) -> None:
            # 2⁶³−1 is Kafka's "never".
            if interval_ms < I64_MAX:
                queue.every(name, run, interval_ms / 1000, first_s=first_s)

        every("retention", self.retain, config.log_retention_check_interval_ms)
        every("checkpoint", self._directory.checkpoint, self._checkpoint_interval_ms())
        every("producers", self.expire_producers, config.producer_id_expiration_check_interval_ms)
        pending = self._directory.pending_recoveries
        queue.when("recovery", self._recover, pending.next_pass, rest_s=0)
        queue.when("removal", deletions.run_due, deletions.next_due, rest_s=REMOVAL_REST_S)
        return queue

    def _syncs(self) -> TaskQueue:
        queue = self._queue("syncs", refreshes=False)
        queue.when(
            "sync", self.flush_sealed, lambda: self._directory.clock.monotonic() if self._rolled else None, rest_s=0
        )
        return queue

    def _checkpoint_interval_ms(self) -> int:
        config = self._directory.config
        # Kafka writes the two checkpoints on schedules of their own; here one pass writes both.
        return min(config.log_flush_offset_checkpoint_interval_ms, config.log_flush_start_offset_checkpoint_interval_ms)

    def _cleaner_queue(self, number: int) -> TaskQueue:
        config, queue = self._directory.config, self._queue(f"cleaner {number}")
        cleaner, retention = self.cleaner(), self._retention_pass()
        backoff_s = config.log_cleaner_backoff_ms / 1000

        def clean() -> None:
            if number == 0:
                self.roll(cleaner.compacted())
            cleaner.run()
            if number == 0:
                retention.run(cleaner.compacted())

        queue.every("compaction", clean, backoff_s, first_s=backoff_s)
        return queue

    def cleaner(self) -> LogCleaner:
        """Return a cleaner that reports to `on_done`, and stops when the tasks are cancelled."""

        failed, cancelled = partial(self._failed, "compaction"), self._cancelled
        return LogCleaner(self._directory, self._claims, self._cleaned, failed, cancelled.is_set, cancelled.wait)

    # --- retention ----------------------------------------------------------------------------------------------------

    def _retention_pass(self) -> RetentionPass:
        """Return a retention pass for one queue."""
        failed = partial(self._failed, "retention")
        return RetentionPass(self._directory, self._claims, self._removed, failed, self._cancelled.is_set)

    def retain(self) -> None:
        """Remove expired segments of partitions that are not compacted.

        As in Kafka, the cleaner handles compacted ones.
        """
        config_of = self._directory.config_of
        named = ((partition, config_of(partition.topic)) for partition in self._directory.partitions())
        self._retention.run((partition, config) for partition, config in named if not config.is_compacted)

    def _removed(self, removed: RemovedSegments) -> None:
        self._on_done(
            TaskResult(
                "retention",
                removed.partition,
                segments_removed=removed.segments,
                bytes_freed=removed.bytes,
                because=removed.reasons,
            )
        )

    # --- compaction ---------------------------------------------------------------------------------------------------

    def roll(self, partitions: Iterable[tuple[TopicPartition, LogConfig]], *, now: bool = False) -> None:
        """Roll active segments whose records have waited for `max.compaction.lag.ms`, so that they can be compacted.

        With `now`, roll all active segments that are not empty.
        """
        now_ms = self._directory.cautious_clock.now_ms()
        for partition, config in partitions:
            if self._cancelled.is_set() or not (now or config.max_compaction_lag_ms < I64_MAX):
                continue
            if partition in self._directory.failed:
                continue
            try:
                path = os.path.join(self._directory.path, str(partition))
                since_ms = PartitionStat.at(path).active_since_ms()
                if since_ms < I64_MAX and (now or now_ms - since_ms > config.roll_ms):
                    with self._directory.borrowed(partition) as log:
                        log.roll()
            except (UnknownPartition, FileNotFoundError):
                continue  # deleted meanwhile
            except (StorageError, OSError) as error:
                self._failed("roll", error, partition)

    def _cleaned(self, partition: TopicPartition, dirty: DirtyRange, done: CompactionResult) -> None:
        self._on_done(
            TaskResult(
                "compaction",
                partition,
                segments_removed=done.segments_before - done.segments_after,
                bytes_freed=done.bytes_read - done.bytes_written,
                records_before=done.records_read,
                records_after=done.records_kept,
                because=("lag",) if dirty.is_overdue else ("ratio",),
            )
        )

    # --- recovery -----------------------------------------------------------------------------------------------------

    def _recover(self) -> None:
        for partition in self._directory.pending_recoveries.try_all():
            self._on_done(TaskResult("recovery", partition))

    # --- other tasks --------------------------------------------------------------------------------------------------

    def flush_sealed(self) -> None:
        """Sync the segments that were sealed since the last call, so that a recovery reads the active one only.

        As Kafka does after each roll (UnifiedLog.roll).
        """
        while self._rolled and not self._cancelled.is_set():
            partition = self._rolled.pop()
            log = self._directory.opened(partition)
            if log is not None:  # a log that was closed meanwhile has synced all of it
                self._try("sync", partial(_flush_sealed, log), partition)

    def _changed(self, partition: TopicPartition, change: LogChange) -> None:
        """Note a roll. From any thread."""
        if change is LogChange.ROLLED:
            self._rolled.add(partition)

    def expire_producers(self) -> None:
        """Forget producers that were idle for `producer.id.expiration.ms`."""
        now_ms = self._directory.cautious_clock.now_ms()
        for log in self._open_logs():
            log.expire_producers(now_ms, self._directory.config.producer_id_expiration_ms)

    def _open_logs(self) -> Iterator[Log]:
        opened = (self._directory.opened(partition) for partition in self._directory.partitions())
        return (log for log in opened if log is not None and not log.read_only)

    def _try(self, task: str, work: Callable[[], object], partition: TopicPartition | None = None) -> None:
        try:
            work()
        except (StorageError, OSError) as error:
            self._failed(task, error, partition)

    def _failed(self, task: str, error: Exception, partition: TopicPartition | None = None) -> None:
        self._on_done(TaskResult(task, partition, error=error))


def _flush_sealed(log: Log) -> None:
    with contextlib.suppress(UnknownPartition):  # deleted meanwhile
        log.flush_sealed()
