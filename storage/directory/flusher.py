"""Syncs the logs of a directory by `flush.messages` and `flush.ms`, however records come into them.

A log is due when it has as many records that are not on disk as `flush.messages` says, or when the first of them was
appended `flush.ms` ago; the account of the log (`partition.unsynced`) has both. One thread per directory, which begins
with the first log that has such a limit. A sync that fails ends writing to its log, which reports it to the next
writer; one that lacked memory or descriptors is tried again.

A mount does this on its event loop instead (fs.appends.shared_sync), because its writers wait for the same syncs; both
ask `flush_due`. Kafka checks `flush.ms` every `log.flush.scheduler.interval.ms`, by default never (LogManager.
flushDirtyLogs), and `flush.messages` in UnifiedLog.append.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from enum import Enum, auto

from offsetfs.storage.clock import Clock
from offsetfs.storage.errors import StorageError
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.units import I64_MAX


class LogChange(Enum):
    """A change of a partition: an append, a sealed segment, creation or deletion.

    Everything that serves one open directory in a process (a mount, a broker) gets the same notifications, no matter
    which of them has changed the log.
    """

    APPENDED = auto()
    ROLLED = auto()
    """A segment was sealed and the next one begun."""

    CREATED = auto()
    DELETED = auto()


OnLogChange = Callable[[TopicPartition, LogChange], None]
"""Called after a change, in the thread that made it, without locks. It must neither wait nor raise."""


_log = logging.getLogger(__name__)

RETRY_S = 1.0
"""After a sync that lacked memory or descriptors."""


def flush_due(log: Log, *, messages_max: int | None = None, interval_ms: int | None = None) -> float | None:
    """Return when a log has to be synced, in seconds of the monotonic clock, by its settings and these limits.

    None: not because of what is in it now. `-inf`: at once, because of the number of records.
    """
    records_max = min(I64_MAX if messages_max is None else messages_max, log.config.flush_messages)
    wait_ms = min(I64_MAX if interval_ms is None else interval_ms, log.config.flush_ms)
    if records_max == wait_ms == I64_MAX:  # the defaults
        return None
    waiting = log.unsynced.waiting
    if waiting.since is None or log.failure is not None:
        return None
    if waiting.records >= records_max:
        return -math.inf
    return None if wait_ms == I64_MAX else waiting.since + wait_ms / 1000


class Flusher:
    """The flusher of one directory. `opened` returns a log if it is open."""

    def __init__(self, clock: Clock, opened: Callable[[TopicPartition], Log | None], interval_ms: int) -> None:
        """`interval_ms`: the longest time that records may wait, whatever `flush.ms` says."""
        self._clock = clock
        self._opened = opened
        self._interval_ms = interval_ms
        self._due: dict[TopicPartition, float] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def changed(self, partition: TopicPartition, change: LogChange) -> None:
        """Plan the sync of a log that has changed. From any thread; neither waits nor raises."""
        log = self._opened(partition) if change is LogChange.APPENDED else None
        due = None if log is None else flush_due(log, interval_ms=self._interval_ms)
        if due is not None and due < self._due.get(partition, math.inf):
            self._plan(partition, due)

    def _plan(self, partition: TopicPartition, due: float) -> None:
        with self._changed:
            if self._is_closed:
                return
            self._due[partition] = due
            self._changed.notify()
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="offsetfs-flusher", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # no thread can be started now: the next append tries again
                    del self._due[partition]
                else:
                    self._thread = thread

    def close(self) -> None:
        """End. What is not on disk is left to the close of the logs."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._is_closed:
            self.run_due()
            with self._changed:
                wait_s = min(self._due.values(), default=math.inf) - self._clock.monotonic()
                if wait_s > 0 and not self._is_closed:
                    self._changed.wait(None if wait_s == math.inf else wait_s)

    def run_due(self) -> None:
        """Sync the logs that are due."""
        now = self._clock.monotonic()
        for partition, due in list(self._due.items()):
            if due <= now and not self._is_closed:
                with self._changed:
                    del self._due[partition]
                log = self._opened(partition)
                if log is not None:
                    self._flush(log)

    def _flush(self, log: Log) -> None:
        due = flush_due(log, interval_ms=self._interval_ms)
        if due is None or due > self._clock.monotonic():  # synced meanwhile
            self.changed(log.partition, LogChange.APPENDED)
            return
        try:
            log.flush()
        except (StorageError, OSError, MemoryError) as error:
            if log.failure is None and not log.is_gone:
                self._plan(log.partition, self._clock.monotonic() + RETRY_S)
            elif not log.is_gone:
                _log.error("%s: sync failed, no more records are accepted: %s", log.partition, error)
        else:
            self.changed(log.partition, LogChange.APPENDED)  # for what came meanwhile
