"""The open logs of a directory, by partition.

    log         opened on first use, and stays open
    borrowed    opened for a background task, and closed after it unless another caller requested it meanwhile

So a pass over ten thousand partitions leaves no additional logs open.

Locks: `_mutex` protects the table. A log that is locked for a change calls the directory, so a thread that needs both
locks the log first (`_held`). Thread-safe.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence

from offsetfs.storage import files, parallel
from offsetfs.storage.directory.directory_checkpoints import DirectoryCheckpoints
from offsetfs.storage.directory.live_settings import LiveSettings
from offsetfs.storage.errors import ReadOnlyLog, StorageError
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log


class OpenLogs:
    """The open logs of one directory. A subclass opens them, and has the settings and checkpoints of the directory."""

    settings: LiveSettings
    checkpoints: DirectoryCheckpoints

    def __init__(self) -> None:
        # Reentrant, because closing a borrowed log calls the checkpoints, which ask the table again.
        self._mutex = threading.RLock()
        self._logs: dict[TopicPartition, Log] = {}
        self._borrowed: dict[TopicPartition, int] = {}  # opened for a task only, with the thread of the task
        self._returned: dict[TopicPartition, Log] = {}  # closed since the last checkpoint, which must include them
        self._is_ending = False  # `close` has begun: logs that are opened now are read-only

    def _open_log(self, partition: TopicPartition) -> Log:
        raise NotImplementedError

    # --- one log -----------------------------------------------------------------------------------------------------

    def opened(self, partition: TopicPartition) -> Log | None:
        """Return the log if it is open; never waits."""
        return self._logs.get(partition)

    def ready(self, partition: TopicPartition) -> Log | None:
        """Return the log if `log` would return it at once; never waits. An event loop appends to it."""
        log = self._logs.get(partition)
        # The second look-up detects a task that took the log between the first look-up and the test of `_borrowed`.
        if log is not None and not log.is_gone and partition not in self._borrowed and self._logs.get(partition) is log:
            return log
        return None

    def log(self, partition: TopicPartition) -> Log:
        """Return the log of `partition`. The first call opens it, which may wait for the disk."""
        log = self.ready(partition)
        if log is not None:
            return log
        with self._mutex:
            # A task that asks again for the log that it has borrowed does not keep it open.
            if self._borrowed.get(partition) != threading.get_ident():
                self._borrowed.pop(partition, None)  # the task no longer is the only user, so it must not close the log
            log = self._logs.get(partition)
            if log is not None and not log.is_gone:
                return log
            log = self._logs[partition] = self._open_log(partition)
        self.settings.apply(log)
        return log

    def _put(self, log: Log) -> None:
        """Add a log that recovery opened. It supersedes one that was opened read-only."""
        with self._mutex:
            old, self._logs[log.partition] = self._logs.get(log.partition), log
        if old is not None:
            old.mark_superseded()

    @contextlib.contextmanager
    def borrowed(self, partition: TopicPartition) -> Iterator[Log]:
        """Lend the log of `partition` to a task, and close it afterwards unless another caller requested it.

        So a pass over ten thousand partitions leaves no additional logs open.
        """
        with self._mutex:
            log = self._logs.get(partition)
            is_new = log is None or log.is_gone
            if log is None or is_new:
                log = self._logs[partition] = self._open_log(partition)
                self._borrowed[partition] = threading.get_ident()
            elif self._borrowed.get(partition) != threading.get_ident():
                self._borrowed.pop(partition, None)  # two tasks use it now, so neither may close it
        try:
            self.settings.apply(log)
            yield log
        finally:
            if is_new:
                self._return(log)

    def _return(self, log: Log) -> None:
        """Close a lent log unless it is used by now.

        A failed log stays in the table, because `close` must report it.
        """
        partition = log.partition
        with self._mutex:
            try:
                if partition in self._borrowed and self._logs.get(partition) is log and log.failure is None:
                    log.close()
                    del self._logs[partition]
                    if log.recovery_point != self.checkpoints.recovery_point(partition):
                        self._returned[partition] = log
            finally:
                # Last, because until then `ready` does not return the log, so callers of `log` wait for the mutex.
                self._borrowed.pop(partition, None)

    @contextlib.contextmanager
    def _held(self, partition: TopicPartition) -> Iterator[Log | None]:
        """Lock a log, if it is open, and the table. In this order, because a log that changes calls the directory.

        `ReadOnlyLog` if `close` has begun, which holds the table while it waits for the lock of the log.
        """
        while True:
            with self._mutex:
                # A task that returns the log takes the table's lock first, and would close the log here.
                self._borrowed.pop(partition, None)
                log = self._logs.get(partition)
            with contextlib.nullcontext() if log is None else log.held():
                if self._is_ending:
                    raise ReadOnlyLog("closed", path=log.path if log else None)
                with self._mutex:
                    if self._logs.get(partition) is log:
                        yield log
                        return

    def _forget(self, partition: TopicPartition) -> None:
        """Drop the log of a deleted partition."""
        self._logs.pop(partition, None)
        self._returned.pop(partition, None)

    # --- all of them -------------------------------------------------------------------------------------------------

    def open_logs(self) -> list[Log]:
        """Return the open logs."""
        return list(self._logs.values())

    def _save(self, write: Callable[[Sequence[Log]], None]) -> None:
        """Pass the logs that the checkpoint must include to `write`: open ones, and those closed since the last
        checkpoint.

        The position that is on disk of a failed log is unknown, so its entries stay as they are.
        """
        with self._mutex:
            logs = [log for log in self._logs.values() if not log.read_only and log.failure is None]
            write([*self._returned.values(), *logs])
            self._returned.clear()

    def _close_logs(self) -> list[Exception]:
        """Close all logs in parallel; return the errors. Logs that could not be closed stay in the table.

        Threads that close logs hold several descriptors each. At the limit of open files some logs may find none, and
        no idle file to close; these logs are closed one at a time afterwards.
        """
        logs = self.open_logs()
        errors: dict[int, Exception] = {}

        def close(number: int) -> None:
            try:
                logs[number].close()
            except (StorageError, OSError) as error:
                errors[number] = error

        parallel.for_each(range(len(logs)), close)
        for number in [number for number, error in errors.items() if _found_no_descriptor(error)]:
            del errors[number]
            close(number)
        return [errors[number] for number in sorted(errors)]


def _found_no_descriptor(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in files.NO_DESCRIPTORS
