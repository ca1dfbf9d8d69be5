"""The clean shutdown file (`.kafka_cleanshutdown`): removed before the first change, written again by a clean close.

See docs/internals/decisions/0001. Safe to use from any thread. A log calls `before_change` while it is locked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from offsetfs.storage.checkpoint import CleanShutdown


class CleanShutdownMarker:
    """The clean shutdown file of the directory at `path`."""

    def __init__(self, path: str) -> None:
        self.is_changed = False
        """Whether the directory was changed since it was opened, so that the file is gone."""
        self.on_first_change: Callable[[], None] = lambda: None
        """Called once, after the file was removed. Must not raise."""
        self._path = path
        self._found = CleanShutdown.read(path)
        self._lock = threading.Lock()

    @property
    def was_present(self) -> bool:
        """Whether the directory was closed cleanly before this opening."""
        return self._found is not None

    def before_change(self) -> None:
        """Remove the file before the first change. Durable on return."""
        if self.is_changed:
            return
        with self._lock:
            if not self.is_changed:
                if self._found is not None:
                    CleanShutdown.remove(self._path)
                self.on_first_change()
                self.is_changed = True

    def restore(self) -> None:
        """Write the file, as the last step of a clean shutdown.

        It contains the broker epoch that it contained before.
        """
        (self._found or CleanShutdown()).write(self._path)
