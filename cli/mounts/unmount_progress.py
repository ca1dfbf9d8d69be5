"""Reports the progress of an unmount: to `offsetfs umount`, systemd and the log.

A thread reports it, because the main thread spends an unmount in long system calls. The thread runs from `begin` to
`end`; final messages must be sent after `end`, so that no progress report follows them.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from offsetfs.cli.mounts.service_manager import ServiceManager
from offsetfs.common.formatting import size
from offsetfs.storage import thread_start
from offsetfs.storage.errors import counted
from offsetfs.storage.thread_start import StartedThread

if TYPE_CHECKING:
    from offsetfs.storage import Unsynced

_log = logging.getLogger(__name__)

REPORT_SECONDS = 0.5
LOG_EVERY = 20  # reports
EXTEND_SECONDS = 60
"""Timeout extension per report. Much longer than `REPORT_SECONDS`, because an overloaded disk delays everything."""

_CLOSING = "closing the logs"


class UnmountProgress:
    """Reports what is left to do, from `begin` to `end`. `publish` is called with each report, in another thread."""

    def __init__(self, manager: ServiceManager, publish: Callable[[str], None]) -> None:
        self._manager = manager
        self._publish = publish
        self._over = threading.Event()
        self._thread: StartedThread | None = None

    def begin(self, reason: str, left: Callable[[], Unsynced]) -> None:
        """Start to report. `left` returns what is not on disk yet; it is called from another thread."""
        self._manager.stopping(f"ending ({reason}): {described(left())}", EXTEND_SECONDS)
        try:
            self._thread = thread_start.start(functools.partial(self._run, left))
        except OSError as error:  # the unmount must go on without reports
            _log.warning("ending without reports of progress: %s", error.strerror)

    def end(self) -> None:
        """Stop. Nothing is reported after this returns."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, left: Callable[[], Unsynced]) -> None:
        count = 0
        while not self._over.wait(REPORT_SECONDS):
            count += 1
            text = described(left())
            self._manager.busy(f"ending: {text}", EXTEND_SECONDS)
            self._publish(text)
            if count % LOG_EVERY == 0:
                _log.info("ending: %s", text)


def described(left: Unsynced) -> str:
    """Describe what is not on disk yet, such as "3 batches, 1.2 MB, not on disk yet"."""
    if not left.batches:
        return _CLOSING
    return f"{counted(left.batches, 'batch', 'batches')}, {size(left.size)}, not on disk yet"
