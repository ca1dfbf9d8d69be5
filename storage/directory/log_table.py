"""The logs of a directory that are open, by partition.

    log         opened for good, when it is first asked for
    borrowed    opened for a duty, and closed behind it when nobody else has asked meanwhile

So a pass over ten thousand partitions leaves no more logs open than it found.

Locks: `mutex` covers the table. A log that changes asks the directory while it is held, so whoever needs both takes the
log first (`held`). Safe to use from any thread.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence

from offsetfs.storage import parallel
from offsetfs.storage.errors import StorageError
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log


class LogTable:
    """The open logs of one directory."""

    def __init__(
        self,
        open_log: Callable[[TopicPartition], Log],
        apply: Callable[[Log], None],
        known_recovery_point: Callable[[TopicPartition], int],
    ) -> None:
        """`apply`: have a log go by the settings as they are now. `known_recovery_point`: what the checkpoint says."""
        self.mutex = threading.RLock()
        self._open = open_log
        self._apply = apply
        self._known_recovery_point = known_recovery_point
        self._logs: dict[TopicPartition, Log] = {}
        self._lent: dict[TopicPartition, int] = {}  # open for the sake of a duty alone, and in which thread
        self._given_back: dict[TopicPartition, Log] = {}  # closed since the last checkpoint, which is to know them

    # --- one log -----------------------------------------------------------------------------------------------------

    def opened(self, partition: TopicPartition) -> Log | None:
        """Return the log when it is open already; never waits."""
        return self._logs.get(partition)

    def log(self, partition: TopicPartition) -> Log:
        """Return the log of `partition`, opening it when it is first asked for (which may wait for the disk)."""
        log = self._logs.get(partition)
        if log is not None and not log.is_gone and partition not in self._lent and self._logs.get(partition) is log:
            return log
        with self.mutex:
            if self._lent.get(partition) != threading.get_ident():
                self._lent.pop(partition, None)  # there is another who keeps it
            log = self._logs.get(partition)
            if log is not None and not log.is_gone:
                return log
            log = self._logs[partition] = self._open(partition)
        self._apply(log)
        return log

    def put(self, log: Log) -> None:
        """Take a log that was opened elsewhere, by a recovery; it supersedes one that was opened read only."""
        with self.mutex:
            old, self._logs[log.partition] = self._logs.get(log.partition), log
        if old is not None:
            old.mark_superseded()

    @contextlib.contextmanager
    def borrowed(self, partition: TopicPartition) -> Iterator[Log]:
        """Lend the log of `partition` to a duty. One that nobody else had open, or asked for, is closed then."""
        with self.mutex:
            log = self._logs.get(partition)
            is_new = log is None or log.is_gone
            if log is None or is_new:
                log = self._logs[partition] = self._open(partition)
                self._lent[partition] = threading.get_ident()
            elif self._lent.get(partition) != threading.get_ident():
                self._lent.pop(partition, None)  # two have it now, and neither closes it under the other
        try:
            self._apply(log)
            yield log
        finally:
            if is_new:
                self._take_back(log)

    def _take_back(self, log: Log) -> None:
        """Close a lent log, unless somebody uses it by now. One that is fenced stays: `close` has to know of it."""
        partition = log.partition
        with self.mutex:
            try:
                if partition in self._lent and self._logs.get(partition) is log and log.fenced is None:
                    log.close()
                    del self._logs[partition]
                    if log.recovery_point != self._known_recovery_point(partition):
                        self._given_back[partition] = log
            finally:
                self._lent.pop(partition, None)  # at last: until then nobody takes the log without the mutex

    @contextlib.contextmanager
    def held(self, partition: TopicPartition) -> Iterator[Log | None]:
        """Hold a log, if it is open, and the table. In this order: a log that changes asks the directory."""
        while True:
            with self.mutex:
                self._lent.pop(partition, None)  # a duty that gives it back holds the table first, and would close it
                log = self._logs.get(partition)
            with contextlib.nullcontext() if log is None else log.held(), self.mutex:
                if self._logs.get(partition) is log:
                    yield log
                    return

    def forget(self, partition: TopicPartition) -> None:
        """Let go of the log of a partition that was deleted."""
        self._logs.pop(partition, None)
        self._given_back.pop(partition, None)

    # --- all of them -------------------------------------------------------------------------------------------------

    def all(self) -> list[Log]:
        """Return the logs that are open now."""
        return list(self._logs.values())

    def save(self, write: Callable[[Sequence[Log]], None]) -> None:
        """Hand `write` the logs that a checkpoint is to tell of: the open ones, and those given back since the last.

        Of a log that is fenced nobody knows how far it is on disk: what the checkpoints say of it stays.
        """
        with self.mutex:
            logs = [log for log in self._logs.values() if not log.read_only and log.fenced is None]
            write([*self._given_back.values(), *logs])
            self._given_back.clear()

    def close(self) -> list[Exception]:
        """Close all logs, several at a time; return what kept some from being closed. They stay in the table."""
        logs = self.all()
        errors: dict[int, Exception] = {}

        def close(number: int) -> None:
            try:
                logs[number].close()
            except (StorageError, OSError) as error:
                errors[number] = error

        parallel.for_each(range(len(logs)), close)
        return [errors[number] for number in sorted(errors)]

    def clear(self) -> None:
        """Let go of all logs: they were closed, as far as they could be."""
        self._logs.clear()
