"""Recovering all partitions of a directory: several at a time, with word of how far it is.

Follows Kafka's LogManager.loadLogs and `num.recovery.threads.per.data.dir`. Checksums are verified with the GIL
released, and who waits for a sync leaves the processor to others: so threads serve. Four hundred small logs on a disk
took two of them a third of the time of one. The largest logs go first, that none is left over at the end.

A partition that cannot be recovered fails alone. Whatever else ends one thread, or the one that waits (Ctrl-C), ends
all of them at their next block; the directory recovers again then, for a recovery that is cut short is just that.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass

from offsetfs.storage import files
from offsetfs.storage.errors import StorageError
from offsetfs.storage.names import TopicPartition, parse_segment_name
from offsetfs.storage.recovery.recovery import OnBytes


@dataclass(frozen=True, slots=True)
class RecoveryProgress:
    """How far a recovery is. Bytes are those of the log files to be verified; they only rise, and end at the total."""

    bytes_done: int
    bytes_total: int
    partitions_done: int
    partitions_total: int
    partition: TopicPartition
    """The one that was got on with."""


OnProgress = Callable[[RecoveryProgress], None]
"""Called when a partition begins, when some megabytes of it are done, and when it ends; by one thread at a time."""

Recover = Callable[[TopicPartition, OnBytes], None]


class RecoveryAborted(Exception):
    """Ends the recovery of a partition because another one's was ended."""


def recover_all(
    sizes: Mapping[TopicPartition, int], recover: Recover, *, threads: int, on_progress: OnProgress | None = None
) -> dict[TopicPartition, Exception]:
    """Call `recover` for each partition in `sizes`, which says how many bytes it has to verify; return what failed.

    `StorageError` and `OSError` are taken for a failure of that partition. What `on_progress` raises ends everything.
    """
    work = _Work(sizes, recover, on_progress)
    if threads == 1 or len(sizes) < 2:
        for partition in work.order:
            work.do(partition)
    else:
        _side_by_side(work, min(threads, len(sizes)))
    return work.failed


def _side_by_side(work: _Work, threads: int) -> None:
    with ThreadPoolExecutor(threads, thread_name_prefix="recovery") as executor:
        try:
            waiting = {executor.submit(work.do, partition) for partition in work.order}
            done, _ = wait(waiting, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
        except BaseException:
            work.abandon()
            executor.shutdown(cancel_futures=True)
            raise


class _Work:
    """What is to be done, and how far it is."""

    def __init__(self, sizes: Mapping[TopicPartition, int], recover: Recover, on_progress: OnProgress | None) -> None:
        self.failed: dict[TopicPartition, Exception] = {}
        self.order = sorted(sizes, key=lambda partition: (-sizes[partition], partition))
        self._sizes = sizes
        self._recover = recover
        self._on_progress = on_progress
        self._lock = threading.Lock()
        self._is_abandoned = False
        self._total = sum(sizes.values())
        self._done = 0
        self._partitions_done = 0

    def abandon(self) -> None:
        """Let every thread end at its next block."""
        self._is_abandoned = True

    def do(self, partition: TopicPartition) -> None:
        left = self._sizes[partition]

        def on_bytes(count: int) -> None:
            nonlocal left
            count = min(count, left)  # a log that is gone over twice counts once
            left -= count
            self._advance(partition, count)

        self._advance(partition, 0)
        try:
            self._recover(partition, on_bytes)
        except (StorageError, OSError) as error:
            self.failed[partition] = error
        self._advance(partition, left, is_done=True)  # what was set aside, or not read for an error

    def _advance(self, partition: TopicPartition, count: int, *, is_done: bool = False) -> None:
        with self._lock:
            if self._is_abandoned:
                raise RecoveryAborted
            self._done += count
            self._partitions_done += is_done
            if self._on_progress is not None:
                self._on_progress(
                    RecoveryProgress(self._done, self._total, self._partitions_done, len(self._sizes), partition)
                )


def bytes_to_verify(path: str, recovery_point: int) -> int:
    """Return how many bytes of log files the partition in directory `path` has to verify; 0 where that is not known."""
    try:
        parsed = ((name, parse_segment_name(name)) for name in files.names(path))
        logs = sorted((each[0], name) for name, each in parsed if each is not None and each[1] in (".log", ".log.swap"))
        first = max((base for base, _ in logs if base <= recovery_point), default=0)
        return sum(files.status(os.path.join(path, name)).st_size for base, name in logs if base >= first)
    except OSError:
        return 0
