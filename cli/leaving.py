"""Reports the progress of an unmount: to `offsetfs umount`, systemd and the log.

A thread of its own tells it, because the end of a mount is a time of long system calls. It runs from the moment the
mount begins to end until `end`, which everything that concludes must come after.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from offsetfs.cli.progress import bytes_text
from offsetfs.cli.service_manager import ServiceManager
from offsetfs.storage import thread_start
from offsetfs.storage.counted import counted
from offsetfs.storage.thread_start import StartedThread

if TYPE_CHECKING:
    from offsetfs.fs.appends.shared_sync import Unsynced

_log = logging.getLogger(__name__)

TELL_SECONDS = 0.5
LOG_EVERY = 20  # tellings
EXTEND_SECONDS = 60
"""Much more than a telling takes: a machine whose disk cannot keep up is slow in everything."""

_CLOSING = "closing the logs"


class LeavingTeller:
    """Tells what is left, from `begin` to `end`. `publish` is called with each telling, from another thread."""

    def __init__(self, manager: ServiceManager, publish: Callable[[str], None]) -> None:
        self._manager = manager
        self._publish = publish
        self._over = threading.Event()
        self._thread: StartedThread | None = None

    def begin(self, reason: str, left: Callable[[], Unsynced]) -> None:
        """The mount has begun to end; `left` may be asked from any thread."""
        self._manager.stopping(f"ending ({reason}): {described(left())}", EXTEND_SECONDS)
        try:
            self._thread = thread_start.start(functools.partial(self._tell, left))
        except OSError as error:  # the records matter more than their progress
            _log.warning("ending without reports of progress: %s", error.strerror)

    def end(self) -> None:
        """Everything is done: nothing is reported after this returns."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _tell(self, left: Callable[[], Unsynced]) -> None:
        count = 0
        while not self._over.wait(TELL_SECONDS):
            count += 1
            text = described(left())
            self._manager.busy(f"ending: {text}", EXTEND_SECONDS)
            self._publish(text)
            if count % LOG_EVERY == 0:
                _log.info("ending: %s", text)


def described(left: Unsynced) -> str:
    """Return in words what is not on disk yet."""
    if not left.batches:
        return _CLOSING
    return f"{counted(left.batches, 'batch', 'batches')}, {bytes_text(left.size)}, not on disk yet"
