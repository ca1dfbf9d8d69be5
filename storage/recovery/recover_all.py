"""Recovers the partitions of a directory in parallel, and reports progress.

Follows Kafka's LogManager.loadLogs and `num.recovery.threads.per.data.dir`. Threads are enough: checksums are verified
without the GIL, and a thread that waits for a sync does not use the processor. Two threads recovered 400 small logs in
a third of the time of one thread. The largest logs are recovered first, so that no large one is left at the end.

The calling thread is one of them: if no other thread can be started, it recovers all partitions alone.

A partition that cannot be recovered fails alone. Any other exception in one thread (Ctrl-C in the calling thread) stops
all of them at their next block. The next opening recovers the directory again.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from offsetfs.storage import files, parallel
from offsetfs.storage.errors import StorageError
from offsetfs.storage.names import TopicPartition, parse_segment_name
from offsetfs.storage.recovery.recovery import OnBytes


@dataclass(frozen=True, slots=True)
class RecoveryProgress:
    """The progress of a recovery. Byte counts are those of log files to verify; they rise up to the total."""

    bytes_done: int
    bytes_total: int
    partitions_done: int
    partitions_total: int
    partition: TopicPartition
    """The partition that advanced last."""


OnRecovery = Callable[[RecoveryProgress], None]
"""Called when a partition begins, after every few megabytes of it, and when it ends; by one thread at a time."""

Recover = Callable[[TopicPartition, OnBytes], None]


class RecoveryAborted(Exception):
    """Stops the recovery of a partition because another recovery was stopped."""


def recover_all(
    sizes: Mapping[TopicPartition, int], recover: Recover, *, threads: int, on_progress: OnRecovery | None = None
) -> dict[TopicPartition, Exception]:
    """Call `recover` for each partition in `sizes`, a map to the bytes to verify; return the failed partitions.

    Uses up to `threads` threads, including the calling one; fewer if the system allows no more.
    `StorageError` and `OSError` count as a failure of that partition. An exception of `on_progress` stops everything.
    """
    work = _RecoveryWork(sizes, recover, on_progress)
    if threads == 1 or len(sizes) < 2:
        for partition in work.order:
            work.do(partition)
    else:
        _recover_in_parallel(work, min(threads, len(sizes)))
    return work.failed


def _recover_in_parallel(work: _RecoveryWork, threads: int) -> None:
    waiting = deque(work.order)

    def recover_some() -> None:
        try:
            while partition := _next_of(waiting):
                work.do(partition)
        except BaseException as error:  # also Ctrl-C; the calling thread raises it
            work.stop(error)

    others = parallel.start_some(recover_some, threads - 1)
    recover_some()
    try:
        for thread in others:
            thread.join()
    except BaseException as error:  # Ctrl-C
        work.stop(error)
        for thread in others:
            thread.join()
    if work.cause is not None:
        raise work.cause


def _next_of(waiting: deque[TopicPartition]) -> TopicPartition | None:
    try:
        return waiting.popleft()
    except IndexError:
        return None


class _RecoveryWork:
    """The shared state of the worker threads: pending partitions and progress."""

    def __init__(self, sizes: Mapping[TopicPartition, int], recover: Recover, on_progress: OnRecovery | None) -> None:
        self.failed: dict[TopicPartition, Exception] = {}
        # The largest first, so that no thread begins the longest log when the others have finished.
        self.order = sorted(sizes, key=lambda partition: (-sizes[partition], partition))
        self._sizes = sizes
        self._recover = recover
        self._on_progress = on_progress
        self._lock = threading.Lock()
        self.cause: BaseException | None = None
        """The first exception that stopped the recovery of all partitions, if one did."""
        self._total = sum(sizes.values())
        self._done = 0
        self._partitions_done = 0

    def stop(self, cause: BaseException) -> None:
        """Make every thread stop at its next block. The first cause is kept."""
        with self._lock:
            if self.cause is None:
                self.cause = cause

    def do(self, partition: TopicPartition) -> None:
        left = self._sizes[partition]

        def on_bytes(count: int) -> None:
            nonlocal left
            count = min(count, left)  # a log that is read twice, because it was split, counts once
            left -= count
            self._advance(partition, count)

        self._advance(partition, 0)
        try:
            self._recover(partition, on_bytes)
        except (StorageError, OSError) as error:
            self.failed[partition] = error
        self._advance(partition, left, is_done=True)  # bytes that were set aside, or not read because of an error

    def _advance(self, partition: TopicPartition, count: int, *, is_done: bool = False) -> None:
        with self._lock:
            if self.cause is not None:
                raise RecoveryAborted
            self._done += count
            self._partitions_done += is_done
            if self._on_progress is not None:
                self._on_progress(
                    RecoveryProgress(self._done, self._total, self._partitions_done, len(self._sizes), partition)
                )


def bytes_to_verify(path: str, recovery_point: int) -> int:
    """Return the bytes of log files to verify in the partition directory `path`; 0 if that is unknown."""
    try:
        parsed = ((name, parse_segment_name(name)) for name in files.names(path))
        logs = sorted(
            (parts[0], name) for name, parts in parsed if parts is not None and parts[1] in (".log", ".log.swap")
        )
        first = max((base for base, _ in logs if base <= recovery_point), default=0)
        return sum(files.status(os.path.join(path, name)).st_size for base, name in logs if base >= first)
    except OSError:
        return 0
