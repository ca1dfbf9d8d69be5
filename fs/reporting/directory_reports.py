"""Reports of an open log directory: damage, findings at its opening, and changed settings without effect."""

from __future__ import annotations

import errno
import logging

from offsetfs.fs.reporting.error_log import ErrorLog, Fault
from offsetfs.fs.requests.events import MountEvents
from offsetfs.storage import AnyLogDirectory, LogDirectories
from offsetfs.storage.directory import left_out_message
from offsetfs.storage.errors import StorageError

_log = logging.getLogger(__name__)


class DamageReports:
    """Collects the damage that one mount meets. From any thread."""

    def __init__(self, directory: AnyLogDirectory, error_log: ErrorLog, events: MountEvents) -> None:
        self._directory = directory
        self._error_log = error_log
        self._events = events
        self.has_occurred = False
        """Whether a view skipped a damaged place, or a read failed there."""
        directory.subscribe_damage(self._publish)

    def report(self, error: StorageError) -> None:
        """Record damage that a view skips, or that makes a read fail."""
        self.has_occurred = True  # also for a place that was recorded already when the log was opened
        self._directory.note_damage(error)
        self._error_log.add(error, "read", error.path or "")

    def _publish(self, error: StorageError) -> None:
        """Publish a damaged place that was not known before."""
        self.has_occurred = True
        self._events.damage_found.publish(error)


def report_opening(directory: AnyLogDirectory, error_log: ErrorLog) -> None:
    """Record the findings at the opening of the log directories.

    That is: directories that are left out, partitions that are in two directories, and logs that recovery has cut.
    """
    if isinstance(directory, LogDirectories):
        _report_directories(directory, error_log)
    for cut in directory.cuts():
        error_log.report(Fault(None, "recovery", cut.path, cut.reason, f"`offsetfs dump {cut.kept}` shows it"))


def _report_directories(directories: LogDirectories, error_log: ErrorLog) -> None:
    for path, error in directories.failures.items():
        _log.error("%s", left_out_message(path, error))
        error_log.add(error, "open", path)
    for partition, first, second in directories.duplicates():
        fault = Fault(
            errno.EEXIST,
            "open",
            str(partition),
            f"it is in {first} and in {second}",
            "remove one of the two, that of a disk that failed lately; with -o ro the first one is shown",
        )
        _log.error("%s: %s: %s", partition, fault.cause, fault.cure)
        error_log.report(fault)


class ConfigRefresh:
    """Applies settings that `offsetfs config` has changed while a mount runs. On the event loop."""

    def __init__(self, directory: AnyLogDirectory, error_log: ErrorLog) -> None:
        self._directory = directory
        self._error_log = error_log
        self._reported: Exception | None = None

    def refresh(self) -> None:
        """Apply changed settings. A setting that has no effect is recorded once in the error log, with the reason."""
        problem = self._directory.refresh_config()
        if problem is not None and problem is not self._reported:
            self._error_log.add(problem, "config", ".offsetfs/config")
        self._reported = problem
