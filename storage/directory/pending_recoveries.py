"""Partitions whose recovery failed: the cause of each, and when it is recovered again.

A recovery needs free space: it keeps what it cuts and rebuilds indexes and snapshots. When that fails, the partition
is served read only. Recovery is tried again when a writer opens it, and every few seconds by a background task. An
attempt that took long is repeated later, so that attempts cost a tenth of the time at most,
unless there is more free space than it found.

Safe to use from any thread; one recovery runs at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from offsetfs.storage.clock import Clock
from offsetfs.storage.errors import StorageError
from offsetfs.storage.names import TopicPartition

BACKGROUND_INTERVAL_S = 5.0
DURATIONS_BETWEEN = 10
"""An attempt is repeated after at least this many times its duration."""


class PendingRecoveries:
    """The partitions of one directory that must still be recovered."""

    def __init__(self, clock: Clock, recover: Callable[[TopicPartition], None], free_bytes: Callable[[], int]) -> None:
        """`recover` recovers a partition and replaces its read-only log.

        `free_bytes` returns the free space of the log directory's disk.
        """
        self.causes: dict[TopicPartition, Exception] = {}
        """The errors of the last attempts."""
        self._clock = clock
        self._recover = recover
        self._lock = threading.Lock()
        self._free_bytes = free_bytes
        self._not_before: dict[TopicPartition, tuple[float, int]] = {}  # a time, and the free space at the last attempt
        self._next_pass = 0.0
        self._has_ended = False

    def add(self, partition: TopicPartition, cause: Exception) -> None:
        self.causes[partition] = cause
        self._next_pass = max(self._next_pass, self._clock.monotonic() + BACKGROUND_INTERVAL_S)

    def forget(self, partition: TopicPartition) -> None:
        self.causes.pop(partition, None)
        self._not_before.pop(partition, None)

    def try_again(self, partition: TopicPartition) -> bool:
        """Recover `partition` unless the last attempt was a moment ago; return whether it is recovered.

        A failure replaces the cause.
        """
        with self._lock:
            began = self._clock.monotonic()
            if self._has_ended or partition not in self.causes or not self._is_due(partition, began):
                return partition not in self.causes
            free = self._free_bytes()
            try:
                self._recover(partition)
            except (StorageError, OSError) as error:
                ended = self._clock.monotonic()
                # Recovery of a terabyte takes minutes; repeating it every five seconds on a full disk would load the
                # machine for nothing.
                self._not_before[partition] = ended + DURATIONS_BETWEEN * (ended - began), free
                self.causes[partition] = error
                return False
            self.forget(partition)
            return True

    def _is_due(self, partition: TopicPartition, now: float) -> bool:
        not_before, free = self._not_before.get(partition, (now, 0))
        return now >= not_before or self._free_bytes() > free

    def end(self) -> None:
        """Wait for a running recovery, and begin no other: the directory is being closed."""
        with self._lock:
            self._has_ended = True

    def next_pass(self) -> float | None:
        """Return when `try_all` is due, in seconds of the clock's `monotonic`; None if nothing is pending."""
        return self._next_pass if self.causes else None

    def try_all(self) -> list[TopicPartition]:
        """Recover the partitions that can be recovered now; return them."""
        recovered = [partition for partition in list(self.causes) if self.try_again(partition)]
        self._next_pass = self._clock.monotonic() + BACKGROUND_INTERVAL_S
        return recovered
