"""Applies settings that `offsetfs config` has changed while a mount runs."""

from __future__ import annotations

from offsetfs.fs.reporting.error_log import ErrorLog
from offsetfs.storage import AnyLogDirectory


class ConfigRefresh:
    """Reads the settings of a log directory again. On the event loop."""

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
